"""Indexing, assignment, and the functions that are indexing in other words.

An index is split into a template, in which arrays are replaced by `Slot(i)`, and the arrays themselves, so that the
arrays are inputs of the op like any others.
"""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.op import Op, Recorded, composite, define
from minigrad.shapes import normal_axis, shape_of


class Slot(NamedTuple):
    """Stands in an index template where the i-th index array goes."""

    i: int


_BASIC = (int, np.integer, slice, type(None), type(...))


def is_basic(index: Any) -> bool:
    """Tell whether NumPy answers this index with a view: integers, slices, None and Ellipsis only."""
    if isinstance(index, tuple):
        return all(isinstance(i, _BASIC) and not isinstance(i, bool) for i in index)
    return isinstance(index, _BASIC) and not isinstance(index, bool)


def split_index(index: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the template of an index and its arrays. Lists become arrays here, so later changes do not matter."""
    template: list[Any] = []
    arrays: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, _BASIC) and not isinstance(item, bool):
            template.append(item)
        else:
            template.append(Slot(len(arrays)))
            arrays.append(item if isinstance(item, (np.ndarray, Recorded)) else _index_array(item))
    return tuple(template), tuple(arrays)


def _index_array(item: Any) -> Any:
    if isinstance(item, Recorded):  # under a trace
        return item
    array = np.asarray(item)
    return array.astype(np.intp) if array.size == 0 and array.dtype.kind == "f" else array


def join_index(template: Any, arrays: tuple[Any, ...]) -> Any:
    """Return the index that `split_index` split."""
    if not arrays:
        return template
    joined = tuple(arrays[item.i] if isinstance(item, Slot) else item for item in template)
    return joined[0] if len(joined) == 1 else joined


def repeats(arrays: tuple[Any, ...]) -> bool:
    """Tell whether an index may name an element twice: only integer arrays can."""
    return any(a.dtype.kind != "b" for a in arrays)


def _scatter(g: Any, *arrays: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of a shape with g added at an index."""
    out = np.zeros(shape, g.dtype)
    where = join_index(index, arrays)
    if not repeats(arrays):
        out[where] = g
    elif len(index) == 1 and arrays[0].size and g.size:
        _add_rows(out, arrays[0], g)
    else:
        np.add.at(out, where, g)
    return out


def _add_rows(out: np.ndarray, rows: np.ndarray, g: np.ndarray) -> None:
    """Do `np.add.at(out, rows, g)` for rows along the first axis, in the same order, by the numbers of the elements.

    np.add.at has a fast loop for one axis only: this is 4 times as fast for an embedding.
    """
    width = prod(out.shape[1:])
    numbers = rows.reshape(-1, 1).astype(np.intp) % out.shape[0]
    elements = (numbers * width + np.arange(width)).reshape(-1)
    np.add.at(out.reshape(-1), elements, g.reshape(-1))


def _gather(x: Any, *arrays: Any, index: Any) -> Any:
    return x[join_index(index, arrays)]


def _assign(x: Any, value: Any, *arrays: Any, index: Any) -> Any:
    """Return a copy of x with the value at an index."""
    out = np.copy(x, order="K")
    out[join_index(index, arrays)] = value
    return out


def _add_at(x: Any, value: Any, *arrays: Any, index: Any) -> Any:
    """Return a copy of x with the value added at an index, in NumPy's order where the index repeats."""
    out = np.copy(x, order="K")
    np.add.at(out, join_index(index, arrays), value)
    return out


def _gathered(g: Any, arrays: tuple[Any, ...], index: Any) -> Any:
    return gather(g, *arrays, index=index) if arrays else getitem(g, index=index)


def assigned_adjoint(g, arrays, index):
    """Return g at the index, and 0 for values that a later one with the same index overwrote."""
    taken = _gathered(g, arrays, index)
    if not repeats(arrays):
        return taken
    shape = shape_of(taken)
    number = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    last = gather(assign(np.full(shape_of(g), -1), number, *arrays, index=index), *arrays, index=index)
    return np.where(last == number, taken, 0)


scatter = Op(_scatter, "g *arrays", (lambda g, arrays, index: _gathered(g, arrays, index), None), "scatter")
getitem = Op(
    lambda x, *, index: x[index],
    "x",
    (lambda g, x_shape, index: scatter(g, index=index, shape=x_shape),),
    "getitem",
    kind="view",
)
gather = Op(
    _gather,
    "x *arrays",
    (lambda g, x_shape, arrays, index: scatter(g, *arrays, index=index, shape=x_shape), None),
    "getitem",
)
assign = Op(
    _assign,
    "x value *arrays",
    (lambda g, arrays, index: assign(g, 0, *arrays, index=index), assigned_adjoint, None),
    "setitem",
)
add_at = Op(
    _add_at,
    "x value *arrays",
    (lambda g: g, lambda g, arrays, index: _gathered(g, arrays, index), None),
    "np.add.at",
)
cast = Op(
    lambda x, *, dtype, casting="unsafe": x.astype(dtype, casting=casting),
    "x",
    (lambda g: g,),
    "astype",
    kind="linear",
)


# --- indexing in other words


def at(a, *index):
    """Return a[index], of a plain array too when the index is being traced."""
    template, arrays = split_index(index)
    return gather(a, *arrays, index=template)


@composite(np.take)
def take(a, indices, axis=None, mode="raise"):
    """a[indices] along an axis; axis None indexes the flattened array."""
    axis = axis if np.ndim(a) else None
    if axis is None:
        a, axis = np.ravel(a), 0
    indices, axis = _index_array(indices), normal_axis(axis, np.ndim(a))
    n = shape_of(a)[axis]
    if mode == "wrap":
        indices = indices % n
    elif mode == "clip":
        indices = np.clip(indices, 0, n - 1)
    return at(a, *(slice(None),) * axis, indices)


def along_axis(shape, indices, axis):
    """Return the index that takes one element per position along an axis."""
    index = [np.arange(n).reshape([-1 if i == j else 1 for j in range(len(shape))]) for i, n in enumerate(shape)]
    index[axis] = indices
    return tuple(index)


@composite(np.take_along_axis)
def take_along_axis(arr, indices, axis=-1):
    """Take one element per position of `indices` along an axis."""
    if axis is None:
        return np.ravel(arr)[indices]
    return arr[along_axis(shape_of(arr), indices, axis)]


@composite(np.put_along_axis)
def put_along_axis(arr, indices, values, axis):
    """Assign one element per position of `indices` along an axis, in place."""
    if axis is None:
        np.put(arr, indices, values)
    else:
        arr[along_axis(shape_of(arr), indices, axis)] = values


@composite(np.choose)
def choose(a, choices, mode="raise"):
    """Choose among arrays by integers."""
    dtype = np.result_type(*(getattr(choice, "dtype", choice) for choice in choices))
    stacked = np.stack(np.broadcast_arrays(*choices)).astype(dtype, copy=False)
    a, _ = np.broadcast_arrays(a, np.empty(stacked.shape[1:]))
    n = len(choices)
    if mode == "raise" and np.any((a < 0) | (a >= n)):
        raise ValueError("invalid entry in choice array")
    a = a % n if mode == "wrap" else np.clip(a, 0, n - 1) if mode == "clip" else a
    return np.take_along_axis(stacked, a[None], axis=0)[0]


@composite(np.compress)
def compress(condition, a, axis=None):
    """Take the slices along an axis where the condition is true."""
    return np.take(a, np.flatnonzero(condition), axis=axis)


@composite(np.extract)
def extract(condition, arr):
    """Take the elements of the flattened array where the condition is true."""
    return np.ravel(arr)[np.flatnonzero(condition)]


@composite(np.select)
def select(condlist, choicelist, default=0):
    """Take each element from the first choice whose condition is true."""
    out = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        out = np.where(condition, choice, out)
    return out


@composite(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    """Assign the source to a Tensor; a plain array cannot carry the gradient."""
    if not isinstance(dst, Recorded):
        np.asarray(src)  # raises, and says where
    if not np.can_cast(getattr(src, "dtype", type(src)), dst.dtype, casting):
        raise TypeError(f"Cannot cast array data to {dst.dtype} according to the rule {casting!r}")
    dst[...] = src if where is True else np.where(where, src, dst)


@composite(np.put)
def put(a, ind, v, mode="raise"):
    """Assign at positions of the flattened array, repeating the values as needed."""
    ind, n = np.ravel(ind), np.size(a)
    v = np.ravel(v)
    if (mode == "raise" or not n) and np.any((ind < -n) | (ind >= n)):
        raise IndexError(f"index out of bounds for size {n}")
    if not v.size:
        return
    v = v[np.arange(ind.size) % v.size]
    ind = np.clip(ind, 0, n - 1) if mode == "clip" else ind % n
    a[np.unravel_index(ind, shape_of(a))] = v


@composite(np.putmask)
def putmask(a, mask, values):
    """Assign where the mask is true; values are repeated to the size of the array."""
    whole = np.reshape(np.ravel(values)[np.arange(np.size(a)) % np.size(values)], shape_of(a))
    a[...] = np.where(mask, whole, a)


@composite(np.place)
def place(arr, mask, vals):
    """Assign the values, in order and repeated, where the mask is true."""
    where = np.flatnonzero(mask)
    np.put(arr, where, np.ravel(vals)[np.arange(where.size) % np.size(vals)])


for _function in (np.nonzero, np.flatnonzero, np.argwhere):
    define(_function, "a", None, kind="search")


# --- windows


MOST_SLICES = 32  # of a window: one slice for each place is faster than index arrays, and can be read


def window_adjoint(g, x_shape, window_shape, axis):
    """Add up what each element gets from all windows it lies in."""
    sizes = window_shape if isinstance(window_shape, tuple) else (window_shape,)
    axes = range(len(x_shape)) if axis is None else np.atleast_1d(axis).tolist()
    axes = [normal_axis(a, len(x_shape)) for a in axes]
    if np.prod(sizes) <= MOST_SLICES and len(set(axes)) == len(axes) == len(sizes):
        total = 0
        for start in np.ndindex(*sizes):  # the elements that stand at this place of their window
            place = [slice(None)] * len(x_shape)
            for i, a in zip(start, axes, strict=True):
                place[a] = slice(i, i + shape_of(g)[a])
            total = total + scatter(g[(..., *start)], index=tuple(place), shape=x_shape)
        return total
    positions = np.arange(np.prod(x_shape, dtype=int)).reshape(x_shape)
    windows = np.lib.stride_tricks.sliding_window_view(positions, window_shape, axis)
    return np.reshape(scatter(g, windows, index=(Slot(0),), shape=(positions.size,)), x_shape)


define(np.lib.stride_tricks.sliding_window_view, "x", window_adjoint, kind="view")
