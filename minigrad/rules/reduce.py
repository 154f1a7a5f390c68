"""Reductions over axes, cumulative sums and products, sorting.

Every reduction has a second input, `where`: True, or a mask of the elements that count.
"""

import inspect

import numpy as np

from minigrad.op import composite, define
from minigrad.shapes import kept_shape, normal_axes, reduced_count, shape_of


def reduction(*functions, adjoint, kind=None):
    """Define a reduction; the functions are names of the same one (np.max and np.amax)."""
    for function in functions:
        names = list(inspect.signature(function).parameters)

        def bind(*args, names=names, **kwargs):
            params = dict(zip(names, args, strict=False)) | kwargs
            x, where = params.pop(names[0]), params.pop("where", True)
            params = {k: v for k, v in params.items() if v is not np._NoValue}
            return (x, True if where is np._NoValue else where), params

        def call(x, where=True, *, function=function, **params):
            return function(x, **params) if where is True else function(x, where=where, **params)

        define(function, "x where", adjoint, None, kind=kind, bind=bind, call=call)


def spread(g, x_shape, axis):
    """Return the gradient of a reduction's result with its axes back as length 1, ready to broadcast."""
    return np.reshape(g, kept_shape(x_shape, axis))


def chosen(value, where):
    """Return the value where the mask lets an element take part, and 0 elsewhere."""
    return value if where is True else np.where(where, value, 0)


def count(x_shape, axis, where):
    """Return how many elements each result combines: a number, or an array with the axes kept."""
    if where is True:
        return reduced_count(x_shape, axis)
    return np.sum(np.broadcast_to(where, x_shape), axis=normal_axes(axis, len(x_shape)), keepdims=True)


def sum_adjoint(g, x_shape, axis, where):
    """Copy g back along the summed axes."""
    return chosen(np.broadcast_to(spread(g, x_shape, axis), x_shape), where)


def mean_adjoint(g, x_shape, axis, where):
    """Copy g / n back along the averaged axes."""
    each = spread(g, x_shape, axis) / count(x_shape, axis, where)
    return chosen(np.broadcast_to(each, x_shape), where)


def extremum_adjoint(g, x, out, axis, where):
    """Send g to the largest (smallest) elements; ties share equally."""
    hit = np.equal(x, spread(out, shape_of(x), axis))
    if where is not True:
        hit = hit & where
    ties = np.sum(hit, axis=normal_axes(axis, hit.ndim), keepdims=True)
    return np.where(hit, spread(g, hit.shape, axis) / np.maximum(ties, 1).astype(g.dtype), 0)


def products_of_others(x, axes):
    """Return for each element the product of the others along the axes, without dividing: zeros are no problem."""
    last = tuple(range(-len(axes), 0))
    moved = np.moveaxis(x, axes, last)
    flat = np.reshape(moved, (*moved.shape[: moved.ndim - len(axes)], -1))
    ones = np.ones((*flat.shape[:-1], 1), x.dtype)
    before = np.concatenate([ones, np.cumprod(flat[..., :-1], axis=-1)], axis=-1)
    after = np.concatenate([ones, np.cumprod(flat[..., :0:-1], axis=-1)], axis=-1)[..., ::-1]
    return np.moveaxis(np.reshape(before * after, moved.shape), last, axes)


def prod_adjoint(g, x, axis, where, initial):
    """Multiply g by the product of the other elements."""
    if x.size == 0:
        return np.zeros(x.shape, g.dtype)
    factors = x if where is True else np.where(where, x, 1)
    axes = normal_axes(axis, x.ndim)
    others = products_of_others(factors, axes) if axes else np.ones(x.shape, x.dtype)
    return chosen(spread(g, x.shape, axis) * others * (1 if initial is None else initial), where)


def var_adjoint(g, x, axis, ddof, where, correction=None):
    """2 (x - mean) / (n - ddof)."""
    n = count(x.shape, axis, where)
    if correction is not None:
        ddof = correction
    total = np.sum(chosen(x, where), axis=normal_axes(axis, x.ndim), keepdims=True)
    centred = x - total / n
    if x.dtype.kind == "c":
        centred = np.conj(centred)
    return chosen(spread(g, x.shape, axis) * (2 / (n - ddof)) * centred, where)


def std_adjoint(g, x, out, axis, ddof, where, correction=None):
    """(x - mean) / ((n - ddof) std), and 0 where the elements are all equal."""
    flat = np.equal(out, 0)
    return var_adjoint(np.where(flat, 0, g) / (2 * np.where(flat, 1, out)), x, axis, ddof, where, correction)


reduction(np.sum, adjoint=sum_adjoint, kind="linear")
reduction(np.mean, adjoint=mean_adjoint, kind="linear")
reduction(np.max, np.amax, np.min, np.amin, adjoint=extremum_adjoint)
reduction(np.prod, adjoint=prod_adjoint)
reduction(np.var, adjoint=lambda g, x, axis, ddof, where, correction: var_adjoint(g, x, axis, ddof, where, known(correction)))
reduction(
    np.std,
    adjoint=lambda g, x, out, axis, ddof, where, correction: std_adjoint(g, x, out, axis, ddof, where, known(correction)),
)


def known(correction):
    """Return None for NumPy's "not given"."""
    return None if correction is np._NoValue else correction


reduction(np.any, np.all, adjoint=None)
for _function in (np.argmax, np.argmin, np.count_nonzero):
    define(_function, "x", None)


@composite(np.ptp)
def ptp(a, axis=None, keepdims=False):
    """Largest less smallest."""
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


# --- cumulative


def back_cumulative(g, x_shape, axis):
    """Sum g from the end: the adjoint of a cumulative sum."""
    if axis is None:
        return np.reshape(np.cumsum(g[::-1])[::-1], x_shape)
    return np.flip(np.cumsum(np.flip(g, axis), axis=axis), axis)


define(np.cumsum, "x", back_cumulative, kind="linear")


def cumprod_adjoint(g, x, axis):
    """Sum over k >= i of g_k times the product of x_j for j <= k, j != i: no division, so zeros are no problem.

    The products are the off-diagonal cumulative products, quadratic in the length of the axis.
    """
    flat = np.reshape(x, -1) if axis is None else np.moveaxis(x, axis, -1)
    n = flat.shape[-1]
    if n == 0:
        return np.zeros(x.shape, g.dtype)
    # factors[..., i, j] = x_j with x_i replaced by 1; its cumulative product over j is d out_j / d x_i for j >= i
    others = np.where(np.eye(n, dtype=bool), 1, flat[..., None, :])
    slopes = np.triu(np.cumprod(others, axis=-1))
    back = np.reshape(g, -1) if axis is None else np.moveaxis(g, axis, -1)
    total = np.sum(back[..., None, :] * slopes, axis=-1)
    return np.reshape(total, x.shape) if axis is None else np.moveaxis(total, -1, axis)


define(np.cumprod, "x", cumprod_adjoint)


# --- order: gather the elements by the permutation that sorting finds


def in_order(permutation):
    """Return the function that gathers by the permutation an argsort-like function finds."""

    def gathered(a, *args, axis=-1, **kwargs):
        if axis is None:
            a, axis = np.ravel(a), -1
        return np.take_along_axis(a, permutation(a, *args, axis=axis, **kwargs), axis=axis)

    return gathered


@composite(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """Sort by a stable permutation, so that among equal elements the gradient keeps their order."""
    return in_order(np.argsort)(a, axis=axis, kind="stable")


@composite(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """Partition by the permutation."""
    return in_order(lambda x, axis: np.argpartition(x, kth, axis=axis))(a, axis=axis)


define(np.argsort, "a", None)
define(np.argpartition, "a", None)


@composite(np.median)
def median(a, axis=None, keepdims=False):
    """Mean of the middle one or two of the sorted elements."""
    shape = kept_shape(shape_of(a), axis)
    axes = normal_axes(axis, len(shape))
    rest = tuple(i for i in range(len(shape)) if i not in axes)
    flat = np.reshape(np.transpose(a, (*rest, *axes)), (*(shape[i] for i in rest), -1))
    n = flat.shape[-1]
    ordered = np.sort(flat, axis=-1)
    middle = np.mean(ordered[..., (n - 1) // 2 : n // 2 + 1], axis=-1)
    return np.reshape(middle, shape) if keepdims else middle
