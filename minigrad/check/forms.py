"""The forms in which one array can appear as another: reshaped, transposed, summed, before its sum, copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from math import prod
from typing import Any

import numpy as np

__all__ = ["close", "factor_between", "form_of", "permuted"]

MOST_AXES = 5


def close(a: Any, b: Any, relative: float) -> bool:
    """Tell whether two arrays of one shape are equal, relative to the largest element of either."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if not a.size:
        return True
    with np.errstate(all="ignore"):
        scale = max(_largest(a), _largest(b))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return bool(np.all(same | (np.abs(a - b) <= relative * scale)))


def _largest(x: np.ndarray) -> float:
    x = np.abs(x)
    return float(np.max(x[np.isfinite(x)], initial=0))


def factor_between(a: Any, b: Any, relative: float) -> float | None:
    """Return c if a is c times b, None if it is not proportional to it."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or not a.size or not _largest(b) or not np.all(np.isfinite(a)) or not np.all(np.isfinite(b)):
        return None
    scaled = b / _largest(b)
    c = np.vdot(scaled, a) / np.vdot(scaled, scaled)
    if np.iscomplexobj(c):
        if abs(c.imag) > relative * abs(c):
            return None
        c = c.real
    if not close(a, c * scaled, relative) or abs(c) <= relative * _largest(a):
        return None
    return float(c / _largest(b))


def permuted(x: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield the array with its axes in other orders, reshaped to a shape, each with the order."""
    if x.ndim <= MOST_AXES and x.size == prod(shape):
        for order in permutations(range(x.ndim)):
            if order != tuple(range(x.ndim)):
                yield order, np.transpose(x, order).reshape(shape)


def form_of(value: Any, truth: Any, relative: float) -> str | None:
    """Return how `value` shows `truth`: "", "reshaped", "transposed", "summed" ...; None if it does not.

    What counts as the same: the same elements in another shape or order of axes, a copy along new axes, a sum over
    axes, and what becomes it when it is summed over axes. None of them is a mistake by itself: a person who writes an
    adjoint may reshape, transpose and sum early or late.
    """
    value, truth = np.asarray(value), np.asarray(truth)
    if value.dtype.kind not in "fciu" or not truth.size or not value.size:
        return "" if value.shape == truth.shape and not truth.size else None
    if value.shape == truth.shape and close(value, truth, relative):
        return ""
    small, large = sorted((value, truth), key=np.size)
    if value.size == truth.size:
        return _rearranged(value, truth, relative)
    if large.ndim <= MOST_AXES and large.size % small.size == 0:
        summed = "before its sum" if value.size > truth.size else "summed"
        copied = "copied" if value.size > truth.size else "one of its copies"
        for axes in _axes_that_leave(large.shape, small.size):
            if _rearranged(np.sum(large, axis=axes), small, relative) is not None:
                return f"{summed} over axes {axes}"
            first = large[tuple(slice(0, 1) if i in axes else slice(None) for i in range(large.ndim))]
            if close(np.broadcast_to(first, large.shape), large, relative):
                if _rearranged(first, small, relative) is not None:
                    return copied
        return _grouped(value, truth, large, small, relative)
    return None


def _grouped(value: Any, truth: Any, large: np.ndarray, small: np.ndarray, relative: float) -> str | None:
    """Return how one shows the other if an axis of the larger is in groups, as np.repeat makes them."""
    n = large.size // small.size
    for axis, size in enumerate(large.shape):
        if size % n or n == 1:
            continue
        for shape, group in (((size // n, n), axis + 1), ((n, size // n), axis)):
            parts = large.reshape(*large.shape[:axis], *shape, *large.shape[axis + 1 :])
            first = np.take(parts, [0], group)
            if (
                close(np.broadcast_to(first, parts.shape), parts, relative)
                and _rearranged(first, small, relative) is not None
            ):
                return f"copied {n} times along axis {axis}" if value.size > truth.size else "one of its copies"
            if _rearranged(np.sum(parts, group), small, relative) is not None:
                how = "before its sum" if value.size > truth.size else "summed"
                return f"{how} over groups of {n} along axis {axis}"
    return None


def _axes_that_leave(shape: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the groups of axes whose removal leaves an array of so many elements."""
    for n in range(1, len(shape) + 1):
        for axes in combinations(range(len(shape)), n):
            if prod(s for i, s in enumerate(shape) if i not in axes) == size and any(shape[i] > 1 for i in axes):
                yield axes


def _rearranged(value: np.ndarray, truth: np.ndarray, relative: float) -> str | None:
    """Return how two arrays of one size are the same elements in the order of permuted axes."""
    if not np.isclose(np.sum(value), np.sum(truth), rtol=0, atol=relative * (1 + value.size) * _largest(truth)):
        if np.all(np.isfinite(value)) and np.all(np.isfinite(truth)):
            return None
    if close(value.reshape(truth.shape), truth, relative):
        return "reshaped" if value.shape != truth.shape else ""
    for order, other in permuted(truth, value.shape):
        if close(value, other, relative):
            return f"transposed {order}"
    return None
