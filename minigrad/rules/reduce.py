"""Reductions over axes, and cumulative sums and products.

Every reduction has a second input, `where`: True, or a mask of the elements that count.
"""

import inspect

import numpy as np

from minigrad.op import available, composite, define
from minigrad.require import caution
from minigrad.shapes import kept_shape, normal_axes, reduced_count, shape_of


def reduction(*functions, inputs="x where", adjoints, kind=None):
    """Define a reduction; the functions are names of the same one (np.max and np.amax)."""
    for function in functions:
        names = list(inspect.signature(function).parameters)

        def bind(*args, names=names, **kwargs):
            params = dict(zip(names, args, strict=False))
            params.update(kwargs)
            for name in [name for name, value in params.items() if value is np._NoValue]:
                del params[name]
            given = [params.pop(names[0]), params.pop("where", True)]
            if "mean" in inputs:
                given.append(params.pop("mean", None))
            return tuple(given), params

        def call(x, where=True, mean=None, *, function=function, **params):
            if where is not True:
                params["where"] = where
            if mean is not None:
                params["mean"] = mean
            return function(x, **params)

        define(function, inputs, *adjoints, kind=kind, bind=bind, call=call)


def spread(g, x_shape, axis):
    """Return the gradient of a reduction's result with its axes back as length 1, ready to broadcast."""
    return g.reshape(kept_shape(x_shape, axis))


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


def var_adjoint(g, x, axis, ddof, where, mean, correction=None):
    """2 (x - mean) / (n - ddof). The mean itself has no part in it, as the deviations from it sum to zero."""
    n = count(x.shape, axis, where)
    ddof = ddof if correction is None or correction is np._NoValue else correction
    x = chosen(x, where)  # before anything is computed: what is left out may be NaN
    if mean is None:
        mean = np.sum(x, axis=normal_axes(axis, x.ndim), keepdims=True) / n
    centred = np.conj(x - mean) if x.dtype.kind == "c" else x - mean
    free = n - ddof
    if np.ndim(free) or not free > 0:  # as NumPy divides: by no less than 0
        free = np.maximum(free, 0).astype(g.dtype)
    return chosen(spread(g, x.shape, axis) * (2 / free) * centred, where)


def std_adjoint(g, x, out, axis, ddof, where, mean, correction=None):
    """(x - mean) / ((n - ddof) std), and 0 where the elements are all equal."""
    flat = np.equal(out, 0)
    return var_adjoint(np.where(flat, 0, g) / (2 * np.where(flat, 1, out)), x, axis, ddof, where, mean, correction)


reduction(np.sum, adjoints=(sum_adjoint, None), kind="linear")
reduction(np.mean, adjoints=(mean_adjoint, None), kind="linear")
reduction(np.max, np.amax, np.min, np.amin, adjoints=(extremum_adjoint, None))
reduction(np.prod, adjoints=(prod_adjoint, None))
reduction(
    np.var,
    inputs="x where mean",
    adjoints=(
        var_adjoint,
        None,
        lambda g, x, axis, ddof, where, mean, correction: -var_adjoint(g, x, axis, ddof, where, mean, correction),
    ),
)
reduction(
    np.std,
    inputs="x where mean",
    adjoints=(
        std_adjoint,
        None,
        lambda g, x, out, axis, ddof, where, mean, correction: (
            -std_adjoint(g, x, out, axis, ddof, where, mean, correction)
        ),
    ),
)
reduction(np.any, np.all, adjoints=(None, None))
for _function in (np.argmax, np.argmin, np.nanargmax, np.nanargmin, np.count_nonzero):
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
    """Multiply what comes before x_i, prod_{j<i} x_j, by tail_i = sum_{k>=i} g_k prod_{i<j<=k} x_j.

    The tails obey tail_i = g_i + x_{i+1} tail_{i+1}, which is solved by doubling, in log2(n) steps on whole arrays
    (Hillis & Steele 1986, doi:10.1145/7902.7903). Nothing is divided, so zeros are no problem, at any order.
    """
    if x.size == 0:
        return np.zeros(x.shape, g.dtype)
    axis = axis if x.ndim else None
    flat = np.reshape(x, -1) if axis is None else np.moveaxis(x, axis, -1)
    tail = np.reshape(g, -1) if axis is None else np.moveaxis(g, axis, -1)
    n = flat.shape[-1]
    before = np.concatenate([np.ones_like(flat[..., :1]), np.cumprod(flat[..., :-1], axis=-1)], axis=-1)
    factor = flat[..., 1:]  # factor_i takes tail_{i + step} to its part of tail_i
    step = 1
    while step < n:
        tail = np.concatenate([tail[..., :-step] + factor * tail[..., step:], tail[..., n - step :]], axis=-1)
        factor = factor[..., :-step] * factor[..., step:]
        step *= 2
    total = before * tail
    return np.reshape(total, x.shape) if axis is None else np.moveaxis(total, -1, axis)


define(np.cumprod, "x", cumprod_adjoint)


def _including_initial(accumulate, first):
    def cumulative(x, /, *, axis=None, dtype=None, include_initial=False):
        if axis is None:
            if np.ndim(x) > 1:
                raise ValueError("axis must be given for an array of more than one dimension")
            axis = 0
        total = accumulate(x, axis=axis, dtype=dtype)
        if not include_initial:
            return total
        shape = list(shape_of(total))
        shape[axis] = 1
        return np.concatenate([np.full(shape, first, total.dtype), total], axis=axis)

    return cumulative


composite(*available("cumulative_sum"))(_including_initial(np.cumsum, 0))
composite(*available("cumulative_prod"))(_including_initial(np.cumprod, 1))


# --- reductions that pass over NaN


def _filled(function, value):
    def ignoring(a, *args, **kwargs):
        return function(np.where(np.isnan(a), value, a), *args, **kwargs)

    return ignoring


def _masked(function):
    def ignoring(a, *args, where=True, **kwargs):
        return function(a, *args, where=~np.isnan(a) & where, **kwargs)

    return ignoring


composite(np.nansum)(_filled(np.sum, 0))
composite(np.nanprod)(_filled(np.prod, 1))
composite(np.nancumsum)(_filled(np.cumsum, 0))
composite(np.nancumprod)(_filled(np.cumprod, 1))
composite(np.nanmean)(_masked(np.mean))
composite(np.nanvar)(_masked(np.var))
composite(np.nanstd)(_masked(np.std))


def _extremum(function, worst):
    def ignoring(a, axis=None, keepdims=False, initial=np._NoValue, where=True):
        out = function(np.where(np.isnan(a), worst, a), axis=axis, keepdims=keepdims, initial=initial, where=where)
        absent = np.all(np.isnan(a), axis=axis, keepdims=keepdims)
        if initial is not np._NoValue:
            return out
        caution(absent, "All-NaN slice encountered")
        return np.where(absent, np.nan, out)

    return ignoring


composite(np.nanmax)(_extremum(np.max, -np.inf))
composite(np.nanmin)(_extremum(np.min, np.inf))
