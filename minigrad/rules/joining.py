"""Joining, splitting, inserting and deleting."""

import itertools

import numpy as np

from minigrad.op import as_array, available, composite, define
from minigrad.shapes import normal_axes, shape_of


def concatenate_adjoint(g, position, arrays_shape, axis):
    """Take the part of g that belongs to this array."""
    if axis is None:
        sizes = [int(np.prod(s, dtype=int)) for s in arrays_shape]
        start = sum(sizes[:position])
        return np.reshape(g[start : start + sizes[position]], arrays_shape[position])
    axis = axis % len(arrays_shape[position])
    start = sum(s[axis] for s in arrays_shape[:position])
    return g[(*(slice(None),) * axis, slice(start, start + arrays_shape[position][axis]))]


def _concatenate_bind(arrays, axis=0, *out, **params):  # out may stand third
    return tuple(arrays), {"axis": axis, **params} | ({"out": out[0]} if out else {})


define(
    np.concatenate,
    "*arrays",
    concatenate_adjoint,
    kind="linear",
    bind=_concatenate_bind,
    call=lambda *arrays, axis=0, **params: np.concatenate(arrays, axis=axis, **params),
)


@composite(np.stack)
def stack(arrays, axis=0, *, dtype=None, casting="same_kind"):
    """Join along a new axis."""
    keywords = {} if dtype is None else {"dtype": dtype, "casting": casting}
    return np.concatenate([np.expand_dims(a, axis) for a in arrays], axis=axis, **keywords)


composite(*available("unstack"))(lambda x, /, *, axis=0: tuple(np.moveaxis(x, axis, 0)))


def _joined(widen, axis):
    def join(tup, *, dtype=None, casting="same_kind"):
        parts = [widen(a) for a in tup]
        keywords = {} if dtype is None else {"dtype": dtype, "casting": casting}
        return np.concatenate(parts, axis=0 if axis == 1 and np.ndim(parts[0]) == 1 else axis, **keywords)

    return join


composite(np.vstack)(_joined(np.atleast_2d, 0))
composite(np.hstack)(_joined(np.atleast_1d, 1))
composite(np.dstack)(_joined(np.atleast_3d, 2))
composite(np.column_stack)(
    lambda tup: np.concatenate([a if np.ndim(a) > 1 else np.reshape(a, (-1, 1)) for a in tup], axis=1)
)


@composite(np.block)
def block(arrays):
    """Join nested lists: the innermost along the last axis, the next along the last but one, and so on."""

    def depth(x):
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    def leaves(x):
        return [leaf for item in x for leaf in leaves(item)] if isinstance(x, list) else [x]

    levels = depth(arrays)
    ndim = max(levels, *(np.ndim(leaf) for leaf in leaves(arrays)))

    def join(x, level):
        if level == 0:
            return np.reshape(x, (1,) * (ndim - np.ndim(x)) + shape_of(x))
        if not isinstance(x, list) or not x:
            raise ValueError("List depths are mismatched, or a list is empty.")
        return np.concatenate([join(item, level - 1) for item in x], axis=-level)

    return join(arrays, levels) if levels else np.copy(arrays)


@composite(np.append)
def append(arr, values, axis=None):
    """Join two arrays, flattened when there is no axis."""
    return np.concatenate([np.ravel(arr), np.ravel(values)] if axis is None else [arr, values], axis=axis or 0)


@composite(np.insert)
def insert(arr, obj, values, axis=None):
    """Gather from the array and the new values joined together."""
    arr, values = as_array(arr), as_array(values)
    arr, axis = (np.ravel(arr), 0) if axis is None else (arr, range(arr.ndim)[axis])
    n = arr.shape[axis]
    one = not isinstance(obj, slice) and np.size(obj) == 1 and np.asarray(obj).dtype != bool
    if one:
        values = np.reshape(values, (1,) * (arr.ndim - values.ndim) + values.shape)
        values = np.moveaxis(values, 0, axis) if np.ndim(obj) == 0 else values
    n_new = values.shape[axis] if one else len(np.insert(np.arange(n), obj, 0)) - n
    places = np.insert(np.arange(n), obj, np.arange(n, n + n_new))
    values = np.broadcast_to(values, (*arr.shape[:axis], n_new, *arr.shape[axis + 1 :])).astype(arr.dtype)
    return np.take(np.concatenate([arr, values], axis=axis), places, axis=axis)


@composite(np.delete)
def delete(arr, obj, axis=None):
    """Gather what is left."""
    arr, axis = (np.ravel(arr), 0) if axis is None else (as_array(arr), axis)
    return np.take(arr, np.delete(np.arange(shape_of(arr)[axis]), obj), axis=axis)


@composite(np.resize)
def resize(a, new_shape):
    """Repeat the flattened array as often as needed."""
    new_shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    if any(n < 0 for n in new_shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    flat = np.ravel(a)
    size = int(np.prod(new_shape, dtype=int))
    places = np.arange(size) % max(flat.size, 1)
    return np.reshape(flat[places], new_shape) if flat.size else np.zeros(new_shape, flat.dtype)


@composite(np.trim_zeros)
def trim_zeros(filt, trim="fb", axis=None):
    """Cut the zeros off the ends."""
    filt, trim = as_array(filt), trim.lower()
    if not trim or set(trim) - set("fb"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    nonzero = np.argwhere(filt)
    axes = normal_axes(axis, filt.ndim)
    index = [slice(None)] * filt.ndim
    for i in axes:
        places = nonzero[:, i] if len(nonzero) else np.array([0, -1])
        both = not len(nonzero)
        start = places.min() if "f" in trim and not both else 0
        stop = 0 if both else places.max() + 1 if "b" in trim else None
        index[i] = slice(start, stop)
    return filt[tuple(index)]


# --- splitting


@composite(np.array_split)
def array_split(ary, indices_or_sections, axis=0):
    """Split into views, the first ones longer when the sections are uneven."""
    n = shape_of(ary)[axis]
    if np.ndim(indices_or_sections) == 0:
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        k, more = divmod(n, sections)
        cuts = [0, *itertools.accumulate(more * [k + 1] + (sections - more) * [k])]
    else:
        cuts = [0, *(int(i) for i in indices_or_sections), n]
    before = (slice(None),) * (axis % len(shape_of(ary)))
    return [ary[(*before, slice(a, b))] for a, b in itertools.pairwise(cuts)]


@composite(np.split)
def split(ary, indices_or_sections, axis=0):
    """Split into views of equal length, or at given places."""
    if np.ndim(indices_or_sections) == 0 and shape_of(ary)[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return np.array_split(ary, indices_or_sections, axis)


composite(np.vsplit)(lambda ary, indices_or_sections: np.split(ary, indices_or_sections, 0))
composite(np.hsplit)(lambda ary, indices_or_sections: np.split(ary, indices_or_sections, int(np.ndim(ary) > 1)))
composite(np.dsplit)(lambda ary, indices_or_sections: np.split(ary, indices_or_sections, 2))
