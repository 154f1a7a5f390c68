"""Derivatives along a line from values of a function alone: central differences over many steps, and complex steps.

Nothing here knows of a rule. A single step size proves nothing: large steps err by truncation, small ones by
rounding, and each can agree with a wrong gradient by accident. So the step is swept over many powers of four and the
curve of error against step decides: where extrapolations of neighbouring steps agree best, there is the value, and
how well they agree is its error.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Line", "Slope", "complex_step", "inner", "sweep"]

Run = Callable[[Sequence[Any]], list[Any]]

RATIO = 4.0
TINY_STEP = 1e-30


# What a function raises where it is not defined; people assert it.
OUTSIDE = (AssertionError, FloatingPointError, OverflowError, ValueError, ZeroDivisionError, np.linalg.LinAlgError)


def inner(weights: Sequence[Any], values: Sequence[Any]) -> float:
    """Return the real part of the sum of products, in float64: 0 * inf counts nothing."""
    total = 0.0
    for w, v in zip(weights, values, strict=True):
        kind = np.complex128 if np.iscomplexobj(w) or np.iscomplexobj(v) else np.float64
        w, v = np.asarray(w, kind), np.asarray(v, kind)
        with np.errstate(all="ignore"):
            total += float(np.sum(np.where(w == 0, 0, w * v)).real)
    return total


@dataclass(frozen=True)
class Slope:
    """A derivative along a line, with what is known about it."""

    value: float
    error: float  # an estimate, on the large side
    step: float
    jump: float = 0.0  # right slope minus left slope, where they differ: a kink
    curve: tuple[tuple[float, float, float], ...] = ()  # (step, value, error) of the whole sweep
    edge: bool = False  # the function is not defined on one side

    @property
    def left(self) -> float:
        """The slope on the left of the point."""
        return self.value - self.jump / 2

    @property
    def right(self) -> float:
        """The slope on the right of the point."""
        return self.value + self.jump / 2


@dataclass
class Line:
    """A function along x + h t, its results summed with fixed weights g. `h` may be complex."""

    run: Run
    leaves: Sequence[Any]
    direction: Sequence[Any]
    weights: Sequence[Any]
    here: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.here = self.here or self.at(0.0) or []

    def at(self, h: Any) -> list[Any] | None:
        """Return the results at x + h t; None where the function is not defined there."""
        moved = [x if not np.any(t) else _moved(x, t, h) for x, t in zip(self.leaves, self.direction, strict=True)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                out = self.run(moved)
            except OUTSIDE:
                if h == 0:
                    raise
                return None  # out of the domain
        for g, value in zip(self.weights, out, strict=True):
            if np.shape(value) != np.shape(g) or not np.all(np.isfinite(np.where(g == 0, 0, value))):
                return None
        return [np.asarray(v) for v in out]

    def change(self, a: list[Any], b: list[Any]) -> float:
        """Return the weighted sum of a - b: subtracted first, so that what does not move costs no digits."""
        with np.errstate(all="ignore"):
            return inner(self.weights, [_wide(x) - _wide(y) for x, y in zip(a, b, strict=True)])

    def size(self) -> float:
        """Return the weighted sum of the absolute results: what rounding errors are relative to."""
        return inner([np.abs(g) for g in self.weights], [np.abs(_wide(x)) for x in self.here])

    def steps(self) -> Iterator[float]:
        """Yield the steps to try, from a quarter of the scale of x down to where rounding takes over, and further."""
        moving = self._moving()
        scale = max((_rms(x[t != 0]) for x, t in moving), default=0.0) or 1.0
        length = max((_rms(t[t != 0]) for _, t in moving), default=1.0)
        first = 0.25 * max(scale, 1.0) / length
        for i in range(48):
            yield float(first * RATIO**-i)

    def fewest(self) -> int:
        """Return how many steps bring us from the first down to a small fraction of the scale of x."""
        scale = max((_rms(x[t != 0]) for x, t in self._moving()), default=0.0) or 1.0
        return 12 + int(np.ceil(np.log(max(1.0 / scale, 1.0)) / np.log(RATIO)))

    def _moving(self) -> list[tuple[Any, Any]]:
        pairs = zip(self.leaves, self.direction, strict=True)
        return [(np.asarray(x), np.asarray(t)) for x, t in pairs if np.any(t)]


def _moved(x: Any, t: Any, h: Any) -> Any:
    moved = x + h * t
    return moved if np.iscomplexobj(h) else np.asarray(moved, np.result_type(x, t)).astype(np.asarray(x).dtype)


def _wide(x: Any) -> Any:
    return np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64)


def _rms(x: Any) -> float:
    x = np.abs(_wide(x))
    x = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(x * x))) if x.size else 0.0


def sweep(line: Line) -> Slope:
    """Return the derivative along a line from central differences at many steps.

    Steps at which the function is not defined (the logarithm of a negative number) are left out, so the sweep
    goes on with shorter ones. Two extrapolations remove the errors of order h² and h⁴ (Richardson 1911). Where left
    and right slopes differ at every small step, the point is a kink: `jump` is the difference.
    """
    steps: list[float] = []
    values: list[float] = []
    jumps: list[float] = []
    fewest = line.fewest()
    for i, h in enumerate(line.steps()):
        if i >= fewest and len(steps) >= 7:
            break
        above, below = line.at(h), line.at(-h)
        if above is None or below is None:
            continue
        steps.append(h)
        values.append(line.change(above, below) / (2 * h))
        jumps.append((line.change(above, line.here) + line.change(below, line.here)) / h)
        if i >= fewest - 6 and len(steps) >= 7 and _rounding_won(values):
            break
    if len(steps) < 3:
        return _one_sided(line)
    rough = line.size() * float(np.finfo(_precision(line)).eps)
    steps, values, jumps = _before_steps_vanish(steps, values, jumps)
    best, error, curve = _flattest(np.array(steps), np.array(values), rough)
    return Slope(best[1], error, best[0], _jump(steps, jumps, best[0], rough), curve)


def _precision(line: Line) -> Any:
    """Return the coarsest dtype of the function: what its results are rounded to, whatever dtype they come in."""
    kinds = [np.asarray(x).dtype for x in (*line.here, *line.leaves)]
    numbers = np.concatenate([np.ravel(_wide(x)) for x in line.here]).real
    with np.errstate(all="ignore"):
        short = numbers.size > 3 and np.array_equal(numbers, numbers.astype(np.float32), equal_nan=True)
    if short and np.any(numbers != np.round(numbers, 3)):
        kinds.append(np.dtype(np.float32))
    return max(kinds, key=lambda d: np.finfo(d).eps)


def _before_steps_vanish(steps: list[float], values: list[float], jumps: list[float]) -> tuple[list[float], ...]:
    """Drop the steps that are too short to change anything: their difference is exactly 0, which agrees too well."""
    moving = [i for i, v in enumerate(values) if v != 0]
    last = moving[-1] + 1 if moving and len(values) - moving[-1] > 2 else len(values)
    last = max(last, 3)
    return steps[:last], values[:last], jumps[:last]


def _rounding_won(values: list[float]) -> bool:
    """Tell whether the last three differences of neighbours grow: shorter steps will only be worse."""
    d = np.abs(np.diff(values[-5:]))
    return bool(d[0] < d[1] < d[2] < d[3] and d[0] > 0)


def _flattest(h: np.ndarray, d: np.ndarray, rough: float) -> tuple[tuple[float, float], float, Any]:
    """Return (step, value), the error and the curve: where neighbouring steps, extrapolated, agree best."""
    tables = [(h, d)]
    for order in (2, 4):
        if len(d) < 3:
            break
        consecutive = np.isclose(h[:-1] / h[1:], RATIO)
        factor = RATIO**order
        d = np.where(consecutive, (factor * d[1:] - d[:-1]) / (factor - 1), d[1:])
        h = h[1:]
        tables.append((h, d))
    curve: list[tuple[float, float, float]] = []
    for steps, values in tables:
        for i in range(1, len(values)):
            apart = max(abs(values[i] - values[i - 1]), abs(values[i] - values[min(i + 1, len(values) - 1)]))
            curve.append((float(steps[i]), float(values[i]), apart + rough / steps[i]))
    step, value, error = min(curve, key=lambda c: c[2])
    return (step, value), 2 * error, tuple(curve[: len(tables[0][1]) - 1])


def _jump(steps: list[float], jumps: list[float], best: float, rough: float) -> float:
    """Return right slope minus left slope if it stays the same at all small steps, 0 if it shrinks with them.

    Of a smooth function it shrinks with the step; at a kink it does not.
    """
    usable = [(h, j) for h, j in zip(steps, jumps, strict=True) if abs(j) > 100 * rough / h]
    small = [j for h, j in usable if h <= max(best, usable[-1][0] * RATIO**3)][-5:] if len(usable) >= 3 else []
    if len(small) < 3:
        return 0.0
    kept = [abs(b) > 0.7 * abs(a) and a * b > 0 for a, b in itertools.pairwise(small)]
    return (RATIO * small[-1] - small[-2]) / (RATIO - 1) if all(kept) else 0.0


def _one_sided(line: Line) -> Slope:
    """Return what is known where the function is defined on one side only, or nowhere near."""
    for sign in (1.0, -1.0):
        found: list[tuple[float, float]] = []
        for h in line.steps():
            there = line.at(sign * h)
            if there is not None and len(found) < 20:
                found.append((h, sign * line.change(there, line.here) / h))
        if len(found) >= 4:
            values = [v for _, v in found]
            apart = np.abs(np.diff(values))
            i = int(np.argmin(apart))
            return Slope(values[i + 1], float(4 * apart[i]), found[i + 1][0], edge=True)
    return Slope(float("nan"), float("inf"), 0.0, edge=True)


def complex_step(line: Line) -> float:
    """Return the derivative along a line as imag(f(x + i h t)) / h, exact to rounding for an analytic function.

    Squire & Trapp 1998, doi:10.1137/S003614459631241X: nothing is subtracted, so h can be tiny.

    Raises
    ------
    ValueError
        With the reason why it cannot be used here. A function that takes abs, max or conj gives a wrong number
        instead: the caller compares with differences.
    """
    if any(np.iscomplexobj(x) for x in (*line.leaves, *line.here)):
        raise ValueError("the function is complex already")
    moved = [
        x if not np.any(t) else np.asarray(x, np.float64) + 1j * TINY_STEP * np.asarray(t, np.float64)
        for x, t in zip(line.leaves, line.direction, strict=True)
    ]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            out = line.run(moved)
        except Exception as error:
            raise ValueError(f"the function does not take complex numbers ({type(error).__name__})") from None
    shapes = [np.shape(v) for v in out], [np.shape(g) for g in line.weights]
    if shapes[0] != shapes[1] or not any(np.iscomplexobj(v) for v in out):
        raise ValueError("the function loses the imaginary part")
    value = inner(line.weights, [np.imag(v) for v in out]) / TINY_STEP
    if not np.isfinite(value):
        raise ValueError("the imaginary part is not finite")
    return value
