"""Functions that move elements without computing: reshaping, permuting, repeating, triangles and diagonals."""

import numpy as np

from minigrad.op import Op, Recorded, available, composite, define
from minigrad.rules.index import Slot, scatter
from minigrad.shapes import inverse_permutation, normal_axes, normal_axis, shape_of

# --- reshaping and permuting: views where NumPy makes views


def _reshape_bind(a, shape=None, order="C", *, newshape=None, copy=None):
    if order == "A":  # as the array lies in memory, which its gradient need not do
        order = "F" if a.flags.fnc else "C"
    params = {"shape": newshape if shape is None else shape, "order": order}
    return (a,), params if copy is None else params | {"copy": copy}


reshape = define(
    np.reshape,
    "a",
    lambda g, a_shape, order: g.reshape(a_shape, order=order),
    kind="view",
    bind=_reshape_bind,
    call=lambda a, *, shape, order="C", **copy: np.asarray(a).reshape(shape, order=order, **copy),
)
ravel = Op(np.ravel, "a", (lambda g, a_shape, order: np.reshape(g, a_shape, order=order),), "np.ravel", kind="view")


def _places_in_memory(a, *, order):
    """Return the positions of the elements in the order that np.ravel(a, order) reads them."""
    places = np.empty_like(a, dtype=np.intp)
    places[...] = np.arange(a.size).reshape(a.shape)
    return np.ravel(places, order)


_memory = Op(_places_in_memory, "a", (None,), "np.ravel")


@composite(np.ravel)
def ravel_in_order(a, order="C"):
    """Flatten. In the orders A and K, which depend on the memory of the array, gather if need be."""
    if order in ("A", "K") and (a.flags.contiguous or a.flags.fortran or order == "A"):
        order = "F" if a.flags.fnc else "C"
    return ravel(a, order=order) if order in ("C", "F") else ravel(a, order="C")[_memory(a, order=order)]


def transpose_adjoint(g, axes):
    """Permute back. A number is the axis of a one-dimensional array."""
    return g.transpose(None if np.ndim(axes) == 0 else inverse_permutation(axes))


define(np.transpose, "a", transpose_adjoint, kind="view")
define(np.matrix_transpose, "x", lambda g: np.matrix_transpose(g), kind="view")
define(np.swapaxes, "a", lambda g, axis1, axis2: g.swapaxes(axis1, axis2), kind="view")
define(np.moveaxis, "a", lambda g, source, destination: np.moveaxis(g, destination, source), kind="view")
define(np.squeeze, "a", lambda g, a_shape: np.reshape(g, a_shape), kind="view")
define(np.expand_dims, "a", lambda g, a_shape: np.reshape(g, a_shape), kind="view")
define(np.broadcast_to, "array", lambda g: g, kind="view")
define(np.copy, "a", lambda g: g, kind="linear")
composite(*available("astype"))(lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype, copy=copy))


@composite(np.rollaxis)
def rollaxis(a, axis, start=0):
    """Move an axis before another."""
    n = a.ndim
    axis, start = normal_axis(axis, n), start + n if start < 0 else start
    if not 0 <= start <= n:
        raise np.exceptions.AxisError(start, n)
    return np.moveaxis(a, axis, start - 1 if start > axis else start)


def _at_least(ndim, places):
    def widen(*arrays):
        out = [a if np.ndim(a) >= ndim else np.reshape(a, places(shape_of(a))) for a in arrays]
        return out[0] if len(out) == 1 else tuple(out)

    return widen


composite(np.atleast_1d)(_at_least(1, lambda s: (1,)))
composite(np.atleast_2d)(_at_least(2, lambda s: (1, *s) if s else (1, 1)))
composite(np.atleast_3d)(_at_least(3, lambda s: (1, 1, 1) if not s else (1, *s, 1) if len(s) == 1 else (*s, 1)))


@composite(np.broadcast_arrays)
def broadcast_arrays(*args, subok=False):
    """Broadcast all to one shape."""
    shape = np.broadcast_shapes(*(shape_of(a) for a in args))
    return tuple(np.broadcast_to(a, shape) for a in args)


@composite(np.flip)
def flip(m, axis=None):
    """Reverse along axes."""
    axes = normal_axes(axis, np.ndim(m))
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(np.ndim(m)))]


composite(np.fliplr)(lambda m: np.flip(m, 1))
composite(np.flipud)(lambda m: np.flip(m, (0,)))


@composite(np.rot90)
def rot90(m, k=1, axes=(0, 1)):
    """Rotate by 90 degrees in a plane."""
    a, b = (normal_axis(axis, np.ndim(m)) for axis in axes)
    if a == b:
        raise ValueError("Axes must be different.")
    k %= 4
    if k == 2:
        return np.flip(m, (a, b))
    return m if k == 0 else np.swapaxes(np.flip(m, b), a, b) if k == 1 else np.flip(np.swapaxes(m, a, b), b)


def roll_adjoint(g, shift, axis):
    """Roll back."""
    return np.roll(g, tuple(-s for s in shift) if isinstance(shift, (tuple, list)) else -np.asarray(shift), axis)


define(np.roll, "a", roll_adjoint, kind="linear")

# --- repeating


def repeat_adjoint(g, a_shape, repeats, axis):
    """Sum the copies of each element."""
    if axis is None:
        return np.reshape(repeat_adjoint(g, (int(np.prod(a_shape, dtype=int)),), repeats, 0), a_shape)
    axis = axis % len(a_shape)
    if np.ndim(repeats) == 0:
        shape = (*a_shape[: axis + 1], int(repeats), *a_shape[axis + 1 :])
        return np.sum(np.reshape(g, shape), axis=axis + 1)
    source = np.repeat(np.arange(a_shape[axis]), repeats)
    return scatter(g, source, index=(*(slice(None),) * axis, Slot(0)), shape=a_shape)


define(
    np.repeat,
    "a repeats",
    repeat_adjoint,
    None,
    bind=lambda a, repeats, axis=None: ((a, np.array(repeats)), {"axis": axis if np.ndim(a) else None}),
)


@composite(np.tile)
def tile(A, reps):
    """Repeat the whole array, axis by axis."""
    reps = (reps,) if np.ndim(reps) == 0 else tuple(reps)
    shape = shape_of(A)
    n = max(len(reps), len(shape))
    reps, shape = (1,) * (n - len(reps)) + reps, (1,) * (n - len(shape)) + shape
    paired = tuple(k for pair in zip(reps, shape, strict=True) for k in pair)
    once = tuple(k for size in shape for k in (1, size))
    total = tuple(r * size for r, size in zip(reps, shape, strict=True))
    return np.copy(np.reshape(np.broadcast_to(np.reshape(A, once), paired), total))


# --- triangles and diagonals
define(np.tril, "m", lambda g, k: np.tril(g, k), kind="linear")
define(np.triu, "m", lambda g, k: np.triu(g, k), kind="linear")


def diagonal_adjoint(g, a_shape, offset, axis1, axis2):
    """Put g on the diagonal of zeros."""
    moved = np.moveaxis(np.empty(a_shape, bool), (axis1, axis2), (-2, -1)).shape
    i = np.arange(shape_of(g)[-1])
    whole = scatter(g, i - min(offset, 0), i + max(offset, 0), index=(..., Slot(0), Slot(1)), shape=moved)
    return np.moveaxis(whole, (-2, -1), (axis1, axis2))


define(np.diagonal, "a", diagonal_adjoint, kind="view")
composite(np.linalg.diagonal)(lambda x, /, *, offset=0: np.diagonal(x, offset, -2, -1))


@composite(np.trace)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    """Sum a diagonal."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


composite(np.linalg.trace)(lambda x, /, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype))


@composite(np.diag)
def diag(v, k=0):
    """Take the diagonal of a matrix, or make a matrix of a diagonal."""
    if np.ndim(v) == 2:
        return np.diagonal(v, k)
    n = shape_of(v)[0] + abs(k)
    i = np.arange(shape_of(v)[0])
    return scatter(v, i - min(k, 0), i + max(k, 0), index=(Slot(0), Slot(1)), shape=(n, n))


composite(np.diagflat)(lambda v, k=0: np.diag(np.ravel(v), k))


@composite(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    """Assign to the main diagonal, in place; with wrap, again below a tall matrix's end."""
    shape = shape_of(a)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ValueError("array must be at least 2-d, and above that all dimensions must be equal")
    step = 1 + int(np.sum(np.cumprod(shape[:0:-1])))
    places = np.arange(a.size)[: None if wrap or len(shape) > 2 else shape[1] ** 2 : step]
    values = np.ravel(val)[np.arange(places.size) % np.size(val)] if np.ndim(val) else val
    a[np.unravel_index(places, shape)] = values


# --- questions about shapes and dtypes


def dtype_if_array(x):
    """Return the dtype of a Tensor; anything else as it is."""
    return x.dtype if isinstance(x, Recorded) else x


composite(np.shape)(shape_of)
composite(np.ndim)(lambda a: len(shape_of(a)))
composite(np.size)(lambda a, axis=None: int(np.prod(shape_of(a), dtype=int)) if axis is None else shape_of(a)[axis])
composite(np.iscomplexobj)(lambda x: x.dtype.kind == "c")
composite(np.isrealobj)(lambda x: x.dtype.kind != "c")
composite(np.result_type)(lambda *xs: np.result_type(*map(dtype_if_array, xs)))
composite(np.can_cast)(
    lambda from_, to, casting="safe": np.can_cast(dtype_if_array(from_), dtype_if_array(to), casting)
)
