"""Elements at which a function has a kink: found by group testing, named with their left and right slopes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.differences import RATIO, Line

__all__ = ["Kink", "all_but", "find_kinks"]


@dataclass(frozen=True)
class Kink:
    """An element whose left and right slopes differ; NaN on a side where the function is not defined."""

    name: str
    index: tuple[int, ...]
    left: float
    right: float

    def allows(self, slope: float, tolerance: float) -> bool:
        """Tell whether a number lies between the two slopes: any such convention is right."""
        if np.isnan(self.left) or np.isnan(self.right):
            return True
        low, high = sorted((self.left, self.right))
        return low - tolerance <= slope <= high + tolerance

    def __str__(self) -> str:
        place = f"{self.name}[{', '.join(map(str, self.index))}]" if self.index else self.name
        if np.isnan(self.left) or np.isnan(self.right):
            return f"{place} is at the edge of the domain"
        return f"kink at {place}: left slope {self.left:.4g}, right slope {self.right:.4g}"


def find_kinks(line: Line, which: int, name: str, limit: int = 64, budget: int = 1500) -> tuple[list[Kink], bool]:
    """Return the kinks of a leaf, and whether the search came to its end.

    Moving a group of elements shows a kink if one of them has one; such a group is halved until it is one element.

    Parameters
    ----------
    line
        Through the point, along random numbers.
    which, name
        The leaf to look at, and what it is called.
    limit, budget
        The most kinks to look for, and the most evaluations of the function to spend.
    """
    shape = np.shape(line.leaves[which])
    t = np.asarray(line.direction[which]).ravel()
    spent = [0]
    found: list[Kink] = []
    groups = [np.arange(t.size)] if t.size else []
    while groups and len(found) < limit and spent[0] < budget:
        group = groups.pop()
        slopes = _slopes_along(line, which, _only(t, group).reshape(shape), spent)
        if slopes is None:
            continue
        if group.size > 1:
            groups += [half for half in np.array_split(group, 2) if half.size]
            continue
        left, right = _per_unit(slopes, float(t[group[0]]))
        index = tuple(int(i) for i in np.unravel_index(group[0], shape)) if shape else ()
        found.append(Kink(name, index, left, right))
    return sorted(found, key=lambda k: k.index), not groups


def _per_unit(slopes: tuple[float, float], t: float) -> tuple[float, float]:
    """Return the left and right slope per unit of the element, of slopes along t times the element."""
    left, right = slopes[0] / t, slopes[1] / t
    return (left, right) if t > 0 else (right, left)


def _only(t: np.ndarray, group: np.ndarray) -> np.ndarray:
    alone = np.zeros_like(t)
    alone[group] = t[group]
    return alone


def _slopes_along(line: Line, which: int, t: np.ndarray, spent: list[int]) -> tuple[float, float] | None:
    """Return the left and right slopes along t if they differ at every small step, None if they come together.

    They are NaN where the function is not defined on both sides at any step.
    """
    direction: list[Any] = [np.zeros_like(d) for d in line.direction]
    direction[which] = t
    there = Line(line.run, line.leaves, direction, line.weights, line.here)
    sizes = np.abs(line.leaves[which])
    scale = float(np.max(sizes[np.isfinite(sizes)], initial=0)) or 1.0
    step = 1e-4 * max(scale, 1e-3) / max(float(np.max(np.abs(t), initial=0)), 1e-300)
    jumps: list[float] = []
    sides: list[tuple[float, float]] = []
    for h in (step, step / RATIO, step / RATIO**2, step / RATIO**3):
        above, below = there.at(h), there.at(-h)
        spent[0] += 2
        if above is None or below is None:
            continue
        right, left = there.change(above, line.here) / h, -there.change(below, line.here) / h
        jumps.append(right - left)
        sides.append((left, right))
    if not sides:
        nearest = step * RATIO**-16
        defined = there.at(nearest) is not None and there.at(-nearest) is not None
        return None if defined else (float("nan"), float("nan"))
    rough = there.size() * float(np.finfo(np.float64).eps) / step * RATIO**3
    steady = all(abs(b) > 0.7 * abs(a) and a * b > 0 for a, b in itertools.pairwise(jumps))
    return sides[-1] if len(jumps) == 4 and steady and abs(jumps[-1]) > 20 * rough else None


def all_but(t: Any, kinks: Sequence[Kink]) -> Any:
    """Return a direction that does not move the elements with kinks."""
    t = np.array(t)
    for kink in kinks:
        t[kink.index] = 0
    return t
