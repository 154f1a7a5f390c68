"""Arrays made in other shapes that stay what they are: indices, masks, symmetric matrices, rows that sum to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["reindexed", "resized", "with_other_end"]


def resized(x: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return an array of another shape with numbers like those of x: repeated, and floats not quite equal.

    Zeros and ones stay zeros and ones, rows with one 1 in them stay such rows, rows of probabilities still sum to
    one, and a symmetric matrix is symmetric.
    """
    if 0 in x.shape:
        return np.zeros(shape, x.dtype)
    wrapped = x[np.ix_(*(np.arange(n) % m for n, m in zip(shape, x.shape, strict=True)))]
    if x.dtype.kind not in "fc":
        return wrapped
    if _one_hot(x) and shape[-1]:
        index = np.argmax(resized_rows(x, shape), axis=-1) % shape[-1]
        return np.asarray(np.eye(shape[-1], dtype=x.dtype)[index])
    if np.all((x == 0) | (x == 1)) and np.any(x == 0):
        return wrapped
    noisy = (wrapped * (1 + 0.2 * rng.uniform(-1, 1, shape))).astype(x.dtype)
    if _sums_to_one(x) and shape[-1]:
        return np.asarray(noisy / np.sum(noisy, axis=-1, keepdims=True), x.dtype)
    if x.ndim > 1 and x.shape[-2:] == x.shape[:-3:-1] and shape[-1] == shape[-2] and _symmetric(x):
        return np.asarray((noisy + np.swapaxes(noisy, -1, -2)) / 2, x.dtype)
    return noisy


def resized_rows(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array with other sizes of all axes but the last."""
    return x[np.ix_(*(np.arange(n) % m for n, m in zip((*shape[:-1], x.shape[-1]), x.shape, strict=True)))]


def reindexed(x: Any, smaller: Mapping[int, int]) -> Any:
    """Return indices that are valid still where axes of one size have become smaller."""
    if x.dtype.kind not in "iu" or not x.size or np.min(x) < 0:
        return x
    sizes = [(n, m) for n, m in smaller.items() if m <= np.max(x) < n]
    return x % min(m for _, m in sizes) if sizes else x


def with_other_end(x: np.ndarray, axis: int, start: int) -> np.ndarray:
    """Return an array with other values from an index of an axis on; indices stay those that occur."""
    changed, end = x.copy(), (slice(None),) * axis + (slice(start, None),)
    if x.dtype.kind in "fc":
        changed[end] = x[end] * 1.25 + 0.125
    elif x.dtype.kind in "iu" and x.size:
        changed[end] = np.max(x) - x[end] + np.min(x)
    else:
        changed[end] = ~x[end] if x.dtype == bool else x[end]
    return changed


def _sums_to_one(x: np.ndarray) -> bool:
    if not x.ndim or x.shape[-1] < 2 or x.dtype.kind != "f" or not np.all(x >= 0):
        return False
    return bool(np.all(np.abs(np.sum(x, axis=-1) - 1) < 1e-5))


def _one_hot(x: np.ndarray) -> bool:
    return _sums_to_one(x) and bool(np.all((x == 0) | (x == 1)))


def _symmetric(x: np.ndarray) -> bool:
    return x.shape[-1] > 1 and bool(np.all(x == np.swapaxes(x, -1, -2)))
