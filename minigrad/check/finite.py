"""Example data that is not finite: NaN is refused, and of infinite elements no gradient is checked.

Derivatives are measured, and compared, around the example. Around NaN there is nothing to measure; an infinite element,
such as -inf in a mask that is added to scores, stays where it is however far it is moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.naming import is_float
from minigrad.errors import MinigradError

__all__ = ["left_out", "require_numbers", "where_finite"]


def left_out(subject: Any) -> list[str]:
    """Return, for the notes of a report, what is not checked since it is not finite.

    Raises
    ------
    MinigradError
        If NaN is in what moves, or in another argument from where it has reached the result.
    """
    moving = list(zip(subject.names, subject.leaves, strict=True))
    results = list(zip(subject.results, subject.out, strict=True))
    spoilt = any(np.isnan(x).any() for _, x in results)
    for name, x in [*moving, *(_others(subject) if spoilt else ())]:
        if np.isnan(x).any():
            raise MinigradError(f"{name} is NaN{_first(np.isnan(x))}: give finite example data")
    notes = [
        f"{name} is infinite{_first(np.isinf(x))}: that cannot be moved, so the gradient there is not checked"
        for name, x in moving
        if np.isinf(x).any()
    ]
    return notes + [
        f"{name} is not finite{_first(~np.isfinite(x))}: its gradient there is not checked"
        for name, x in results
        if not np.isfinite(x).all()
    ]


def require_numbers(subject: Any, gradients: Sequence[Any]) -> None:
    """Raise if a gradient is NaN and a result is not finite: 0, which came in there, times infinity is NaN.

    Raises
    ------
    MinigradError
        With the place in the result. A right adjoint may give NaN then, so nothing can be said about this one.
    """
    for result, x in zip(subject.results, subject.out, strict=True):
        for name, g in zip(subject.names, gradients, strict=True):
            if not np.isfinite(x).all() and g is not None and np.isnan(g).any():
                raise MinigradError(
                    f"{result} is not finite{_first(~np.isfinite(x))}, and the gradient of {name} is NaN"
                    f"{_first(np.isnan(g))}: give example data with a finite result"
                )


def where_finite(gradients: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Return gradients with 0 where their leaf is infinite, so that these elements do not count."""
    fixed = [np.isinf(x) for x in leaves]
    return [
        np.where(f, 0, g) if f.any() and np.shape(g) == f.shape else g for g, f in zip(gradients, fixed, strict=True)
    ]


def _others(subject: Any) -> Iterator[tuple[str, Any]]:
    """Yield every float array among the arguments, with its name."""
    pairs = [*zip(subject.arguments, subject.args, strict=True), *subject.kwargs.items()]
    for name, argument in pairs:
        for path, leaf in zip(tree.paths(argument, name), tree.leaves(argument), strict=True):
            if is_float(leaf):
                yield path, leaf


def _first(found: Any) -> str:
    """Return where a boolean array is True: " at (1, 0)", with how many more such elements there are."""
    count = int(np.sum(found))
    more = "" if count == 1 else f" and {count - 1} more"
    return f" at {tuple(int(i) for i in np.argwhere(found)[0])}{more}" if np.ndim(found) else ""
