"""Norms and the rest of numpy.linalg."""

import numpy as np

from minigrad.op import Op, composite
from minigrad.rules.reduce import spread
from minigrad.shapes import shape_of


def vector_norm_adjoint(g, x, out, ord, axis):
    """conj(x) |x|**(p-2) / norm**(p-1), and 0 where the norm is 0."""
    g, norm = spread(g, shape_of(x), axis), spread(out, shape_of(x), axis)
    if ord == 2:
        return g * (np.conj(x) / np.where(np.equal(norm, 0), 1, norm))
    size, sign = np.abs(x), np.conj(np.sign(x))
    if ord == 1:
        return g * sign
    if ord in (np.inf, -np.inf):
        hit = np.equal(size, norm)
        ties = np.sum(hit, axis=axis, keepdims=True).astype(norm.dtype)
        return g * sign * np.where(hit, 1 / np.maximum(ties, 1), 0)
    zero = np.equal(size, 0)
    ratio = np.where(zero, 1, size) / np.where(np.equal(norm, 0), 1, norm)
    return g * sign * np.where(zero, 0, np.power(ratio, ord - 1))


vector_norm = Op(
    lambda x, *, ord, axis, keepdims=False: np.linalg.norm(x, ord=ord, axis=axis, keepdims=keepdims),
    "x",
    (vector_norm_adjoint,),
    "np.linalg.norm",
)


@composite(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors (axis a number, or a one-dimensional x) or matrices (two axes)."""
    n = len(shape_of(x))
    axes = tuple(range(n)) if axis is None else (axis,) if np.ndim(axis) == 0 else tuple(axis)
    if len(axes) == 1 or (ord is None and axis is None):
        if ord == 0:
            return np.sum(np.not_equal(x, 0), axis=axes, keepdims=keepdims).astype(np.abs(x).dtype)
        if len(axes) > 1:
            flat = vector_norm(np.ravel(x), ord=2, axis=0)
            return np.reshape(flat, (1,) * n) if keepdims else flat
        return vector_norm(x, ord=2 if ord is None else ord, axis=axes[0] if axes else None, keepdims=keepdims)
    rows, columns = axes
    if ord in (None, "fro"):
        moved = np.moveaxis(x, axes, (-2, -1))
        out = vector_norm(np.reshape(moved, (*shape_of(moved)[:-2], -1)), ord=2, axis=-1)
    elif ord in (1, -1, np.inf, -np.inf):
        summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = np.sum(np.abs(x), axis=summed, keepdims=True)
        out = (np.max if ord > 0 else np.min)(sums, axis=axes)
    else:
        singular = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False)
        out = np.sum(singular, axis=-1) if ord == "nuc" else (np.max if ord == 2 else np.min)(singular, axis=-1)
    if keepdims:
        for axis in sorted(a % n for a in axes):
            out = np.expand_dims(out, axis)
    return out
