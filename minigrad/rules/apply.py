"""Functions that are given functions, and the methods of ufuncs as repeated calls."""

from typing import Any

import numpy as np

from minigrad.op import Op, Recorded, as_array, composite
from minigrad.rules.elementwise import share
from minigrad.rules.index import Slot, scatter
from minigrad.rules.reduce import spread
from minigrad.shapes import kept_shape, normal_axes, normal_axis, shape_of


@composite(np.piecewise)
def piecewise(x, condlist, funclist, *args, **kw):
    """Evaluate each function where its condition holds; later conditions win; one function more is the rest's."""
    x = as_array(x)
    first = None if np.ndim(condlist) == 0 else condlist[0]
    is_list = isinstance(first, (list, np.ndarray)) or (isinstance(first, Recorded) and np.ndim(first) > 0)
    if first is None or (not is_list and np.ndim(x) != 0):
        condlist = [condlist]
    conditions = [np.asarray(c, bool) for c in condlist]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.any(conditions, axis=0))
    elif len(funclist) != len(conditions):
        raise ValueError(f"with {len(conditions)} condition(s), {len(conditions)} or one more functions are expected")
    first = next((f for f in funclist if isinstance(f, Recorded)), None)
    y = np.zeros_like(x if isinstance(x, Recorded) or first is None else first, shape=x.shape, dtype=x.dtype)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            y[condition] = function
        elif np.any(condition):
            y[condition] = function(x[condition], *args, **kw)
    return y


@composite(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """Call the function with each line along an axis, and join what it returns."""
    lines = np.moveaxis(as_array(arr), axis, -1)
    outer = shape_of(lines)[:-1]
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [as_array(func1d(lines[i], *args, **kwargs)) for i in np.ndindex(outer)]
    inner = shape_of(results[0])
    joined = np.reshape(np.stack(results), outer + inner)
    places = [axis % (len(outer) + 1) + i for i in range(len(inner))]
    return np.moveaxis(joined, list(range(len(outer), len(outer) + len(inner))), places)


@composite(np.apply_over_axes)
def apply_over_axes(func, a, axes):
    """Call the function for each axis, keeping the dimensions."""
    a = as_array(a)
    for axis in np.atleast_1d(axes).tolist():
        axis = normal_axis(axis, a.ndim)
        result = func(a, axis)
        a = result if np.ndim(result) == a.ndim else np.expand_dims(result, axis)
    return a


# --- the methods of ufuncs. METHODS, below, has what is faster, such as np.sum for np.add.reduce


def reduced(ufunc, array, axis=0, dtype=None, keepdims=False, initial=np._NoValue, where=True):
    """Do `ufunc.reduce`: combine the elements along axes one after another."""
    array = array if dtype is None else array.astype(dtype)
    options = {"axis": axis, "initial": initial, "where": where}
    blank = ufunc.reduce(np.ones(array.shape, array.dtype), **options)  # raises where NumPy raises
    if initial is np._NoValue and (where is not True or array.size == 0):
        initial = ufunc.identity
    axes = normal_axes(axis, array.ndim)
    lines = np.moveaxis(array, axes, range(len(axes)))
    lines = np.reshape(lines, (int(np.prod(shape_of(lines)[: len(axes)])), *np.shape(blank)))
    parts = list(lines)
    if initial is not np._NoValue and initial is not None:
        parts = [np.full(np.shape(blank), initial, array.dtype), *parts]
    masks = [True] * len(parts)
    if where is not True:
        masks = np.moveaxis(np.broadcast_to(where, array.shape), axes, range(len(axes)))
        masks = [True, *np.reshape(masks, (-1, *np.shape(blank)))]
    out = first(parts[0], blank)
    for part, mask in zip(parts[1:], masks[1:], strict=True):
        step = ufunc(out, part)
        out = step if mask is True else np.where(mask, step, out)
    return np.reshape(out, kept_shape(array.shape, axis)) if keepdims else out


def first(part, blank):
    """Return what a reduction starts from: an element, which the logical ones take as true or false."""
    return part if part.dtype == blank.dtype else part.astype(blank.dtype)


def accumulated(ufunc, array, axis=0, dtype=None):
    """Do `ufunc.accumulate`: keep every step of the reduction."""
    array = array if dtype is None else array.astype(dtype)
    blank = ufunc.accumulate(np.ones(array.shape, array.dtype), axis)  # raises where NumPy raises
    steps = []
    for part in np.moveaxis(array, axis, 0):
        steps.append(ufunc(steps[-1], part) if steps else first(part, blank))
    return np.stack(steps, axis=axis) if steps else array


def reduced_at(ufunc, array, indices, axis=0, dtype=None):
    """Do `ufunc.reduceat`: reduce from each index to the next, or take one element where the next is no larger."""
    array = array if dtype is None else array.astype(dtype)
    indices = np.asarray(indices)
    ufunc.reduceat(np.ones(array.shape, array.dtype), indices, axis)  # raises where NumPy raises
    lines = np.moveaxis(array, axis, 0)
    ends = [*indices[1:].tolist(), len(lines)]
    parts = [ufunc.reduce(lines[a : max(b, a + 1)]) for a, b in zip(indices.tolist(), ends, strict=True)]
    return np.stack(parts, axis=axis)


def _places_of_runs(x, *, ufunc, axis):
    """Return where each running maximum (minimum) was first reached."""
    running = ufunc.accumulate(np.moveaxis(x, axis, 0))
    same = (running[1:] == running[:-1]) | (np.isnan(running[1:]) & np.isnan(running[:-1]))
    index = np.arange(1, len(running)).reshape((-1,) + (1,) * (x.ndim - 1))
    steps = np.concatenate([np.zeros((1, *running.shape[1:]), int), np.where(same, 0, index)])
    return np.moveaxis(np.maximum.accumulate(steps), 0, axis)


_run = Op(_places_of_runs, "x", (None,), "np.maximum.accumulate")


def running_extremum(ufunc):
    """Return `ufunc.accumulate` for np.maximum or np.minimum: the first of equal elements gets the gradient."""

    def accumulate(array, axis=0):
        if array.shape[axis] == 0:
            return array
        return np.take_along_axis(array, _run(array, ufunc=ufunc, axis=axis), axis=axis)

    return accumulate


def _sums_from(array, *, indices, axis):
    return np.add.reduceat(array, indices, axis)


def _sums_adjoint(g, array_shape, indices, axis):
    """Send each sum's gradient to the elements it added."""
    n = array_shape[axis]
    ends = np.maximum(np.append(indices[1:], n), indices + 1)
    source = np.repeat(np.arange(len(indices)), ends - indices)
    target = np.concatenate([np.arange(a, b) for a, b in zip(indices, ends, strict=True)])
    before = (slice(None),) * (axis % len(array_shape))
    return scatter(g[(*before, source)], target, index=(*before, Slot(0)), shape=array_shape)


_add_reduceat = Op(_sums_from, "array", (_sums_adjoint,), "np.add.reduceat", kind="linear")


def add_reduceat(array, indices, axis=0):
    """Do `np.add.reduceat`."""
    return _add_reduceat(array, indices=np.asarray(indices), axis=axis)


_logsumexp = Op(
    lambda x, *, axis, keepdims: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims),
    "x",
    (lambda g, x, out, axis: spread(g, shape_of(x), axis) * share(x, spread(out, shape_of(x), axis), np.exp),),
    "np.logaddexp.reduce",
)


def logaddexp_reduce(array, axis=0, keepdims=False):
    """Do `np.logaddexp.reduce`: the logarithm of the sum of exponentials."""
    return _logsumexp(array, axis=axis, keepdims=keepdims)


METHODS: dict[Any, Any] = {
    (np.add, "reduce"): np.sum,
    (np.multiply, "reduce"): np.prod,
    (np.maximum, "reduce"): np.max,
    (np.minimum, "reduce"): np.min,
    (np.logical_and, "reduce"): np.all,
    (np.logical_or, "reduce"): np.any,
    (np.logaddexp, "reduce"): logaddexp_reduce,
    (np.add, "accumulate"): np.cumsum,
    (np.multiply, "accumulate"): np.cumprod,
    (np.maximum, "accumulate"): running_extremum(np.maximum),
    (np.minimum, "accumulate"): running_extremum(np.minimum),
    (np.add, "reduceat"): add_reduceat,
}
"""What is better than calling the ufunc again and again."""
