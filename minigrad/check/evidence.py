"""Gradients held against derivatives that are measured from values of the forward function alone.

Along a random direction t of normal numbers the derivative <gradient, t> is compared with the measured one. A
gradient with an error e passes only if |<e, t>|, a normal number of size |e|, is below the tolerance by chance:
with probability 0.8 tolerance / |e| per direction, whatever the number of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.differences import Line, Slope, complex_step, inner, sweep
from minigrad.check.kinks import Kink, all_but, find_kinks
from minigrad.check.subject import Subject

__all__ = ["DIRECTIONS", "Evidence", "measure", "norm", "summaries"]

DIRECTIONS = 3


@dataclass(frozen=True)
class Evidence:
    """What was measured of the gradient of one leaf."""

    name: str
    method: str  # "complex step" or "central differences"
    why: str  # why that method
    pairs: tuple[tuple[float, float], ...]  # (measured, predicted) along each direction
    tolerance: float
    scale: float  # the length of the gradient
    kinks: tuple[Kink, ...] = ()
    notes: tuple[str, ...] = ()
    decided: bool = True
    slope: Slope | None = None

    @property
    def agrees(self) -> bool:
        """Whether the gradient fits what was measured."""
        return all(abs(m - p) <= self.tolerance for m, p in self.pairs)

    def chance(self, error: float = 0.01) -> float:
        """Return the probability that a gradient with this relative error passes all directions."""
        size = error * self.scale
        return min(1.0, 0.8 * self.tolerance / size) ** len(self.pairs) if size else 1.0

    @property
    def worst(self) -> float:
        """The largest difference, relative to the length of the gradient."""
        worst = max((abs(m - p) for m, p in self.pairs), default=0.0)
        return worst / self.scale if self.scale else worst

    def __str__(self) -> str:
        state = "agrees" if self.agrees else "DISAGREES"
        text = (
            f"{self.name}: {state} with {self.method} along {len(self.pairs)} random directions "
            f"(worst {self.worst:.0e}; {self.why})"
        )
        if not self.decided:
            text += f"; the differences are too rough to tell (± {self.tolerance:.1e}, gradient {self.scale:.1e})"
        elif self.scale:
            text += f"; an error of 1 % passes with probability {self.chance():.0e}"
        return "; ".join([text, *map(str, self.kinks[:3]), *self.notes])


def summaries(found: Sequence[Evidence]) -> list[str]:
    """Return what was measured, in a line for each that needs one, and in one line for all that merely agree."""
    telling = [e for e in found if not e.agrees or not e.decided or e.kinks or e.notes]
    lines = {e.name: str(e) for e in telling}
    for method in dict.fromkeys(e.method for e in found):
        plain = [e for e in found if e.method == method and e not in telling]
        if len(plain) > 1:
            names = ", ".join(e.name for e in plain[:8]) + (f" and {len(plain) - 8} more" if len(plain) > 8 else "")
            worst = max(plain, key=lambda e: e.worst)
            chance = max((e.chance() for e in plain if e.scale), default=1.0)
            lines[plain[0].name] = (
                f"{names}: all agree with {method} along {len(worst.pairs)} random directions each "
                f"(worst {worst.worst:.0e}; {worst.why}); an error of 1 % passes with probability {chance:.0e}"
            )
        lines |= {e.name: str(e) for e in plain} if len(plain) == 1 else {}
    return [lines[e.name] for e in found if e.name in lines]


def norm(x: Any) -> float:
    """Return the Euclidean length, in float64."""
    x = np.abs(np.asarray(x)).astype(np.float64).ravel()
    top = float(np.max(x[np.isfinite(x)], initial=0))
    return top * float(np.sqrt(np.sum(np.where(np.isfinite(x), x / top, 0) ** 2))) if top else 0.0


def measure(
    subject: Subject,
    gradients: Sequence[Any],
    gs: Sequence[Any],
    noise: Sequence[float],
    rng: np.random.Generator,
) -> list[Evidence]:
    """Return the evidence for or against the gradient of each leaf.

    Parameters
    ----------
    subject
        In float64, if its function can be computed in it.
    gradients, gs
        The gradients, and the cotangents they belong to.
    noise
        The absolute size of rounding errors in an element of each gradient.
    """
    here = [np.asarray(x) for x in subject.run(subject.leaves)]
    return [
        _measure_leaf(subject, i, np.asarray(gradient), list(gs), float(noise[i]), here, rng)
        for i, gradient in enumerate(gradients)
    ]


def _measure_leaf(
    subject: Subject,
    i: int,
    gradient: Any,
    gs: list[Any],
    noise: float,
    here: list[Any],
    rng: np.random.Generator,
) -> Evidence:
    name, x = subject.names[i], np.asarray(subject.leaves[i])
    rest = [np.zeros(np.shape(y), np.asarray(y).dtype) for y in subject.leaves]
    finite = np.isfinite(x)

    def line(t: Any) -> Line:
        direction: list[Any] = list(rest)
        direction[i] = t
        return Line(subject.run, subject.leaves, direction, gs, here)

    def random_direction() -> Any:
        t = rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if np.iscomplexobj(x) else 0)
        return np.where(finite, t, 0)

    if not x.size:
        return Evidence(name, "nothing to measure", "it is empty", (), 0.0, 0.0)
    directions = [random_direction() for _ in range(DIRECTIONS)]
    first = sweep(line(directions[0]))
    scale = norm(gradient[finite] if gradient.shape == x.shape else gradient)
    rounding = 100 * noise * float(np.sqrt(x.size))
    kinks: list[Kink] = []
    notes: list[str] = []
    off = abs(first.value - inner([directions[0]], [gradient])) > first.error + 1e-6 * scale + rounding
    if first.jump or off or first.edge:
        kinks, complete = find_kinks(line(directions[0]), i, name)
        if kinks:
            directions = [all_but(t, kinks) for t in directions]
            first = sweep(line(directions[0]))
        if not complete:
            notes.append("more kinks than were looked for")
    if first.edge:
        notes.append("the function is defined on one side of the point only")

    exact, why = _try_complex(line(directions[0]), first, scale)
    if exact is None:
        slopes = [first, *(sweep(line(t)) for t in directions[1:])]
        measured = [s.value for s in slopes]
        tolerance = max(s.error for s in slopes) + 1e-8 * scale + rounding
        method = "one-sided differences" if first.edge else "central differences"
        why = f"{why}; the sweep is flattest at step {first.step:.0e}"
    else:
        measured = [exact, *(complex_step(line(t)) for t in directions[1:])]
        tolerance = 1e-9 * scale + rounding + 1e-15 * line(directions[0]).size()
        method = "the complex step"
    pairs = tuple((m, inner([t], [gradient])) for m, t in zip(measured, directions, strict=True))
    wrong = [k for k in kinks if not k.allows(float(np.real(gradient[k.index])), 1e-3 * abs(k.right - k.left))]
    notes += [f"the gradient at {k.index} is {gradient[k.index]:.4g}, outside both slopes" for k in wrong[:3]]
    if wrong:
        pairs += tuple((k.left, float(np.real(gradient[k.index]))) for k in wrong)
    size = max(scale, max((abs(m) for m in measured), default=0.0))
    decided = tolerance <= 1e-2 * size or size <= 1e-12 * line(directions[0]).size() or exact is not None
    return Evidence(name, method, why, pairs, tolerance, scale, tuple(kinks), tuple(notes), decided, first)


def _try_complex(line: Line, rough: Slope, scale: float) -> tuple[float | None, str]:
    """Return the complex-step derivative if the differences confirm that the function is analytic, and why (not)."""
    try:
        exact = complex_step(line)
    except ValueError as error:
        return None, str(error)
    if abs(exact - rough.value) > 3 * rough.error + 1e-6 * max(scale, abs(rough.value)):
        return None, "the function is not analytic: abs, max, conj, a comparison or the like may be in it"
    return exact, "differences confirm that the function is analytic"
