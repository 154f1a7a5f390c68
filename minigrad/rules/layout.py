"""Functions that move elements without computing: reshaping, permuting, joining, splitting, padding, triangles."""

import numpy as np

from minigrad.op import Op, Recorded, composite, define
from minigrad.shapes import inverse_permutation, shape_of

# --- reshaping and permuting: views where NumPy makes views
define(
    np.reshape,
    "a",
    lambda g, a_shape, order: np.reshape(g, a_shape, order="F" if order == "F" else "C"),
    kind="view",
    call=lambda a, shape=None, order="C", **copy: np.reshape(a, shape, order=order, **copy),
)
define(np.ravel, "a", lambda g, a_shape, order: np.reshape(g, a_shape, order=order if order == "F" else "C"), kind="view")


def transpose_adjoint(g, axes):
    """Permute back."""
    return np.transpose(g, None if axes is None else inverse_permutation(axes))


define(np.transpose, "a", transpose_adjoint, kind="view")
define(np.permute_dims, "a", transpose_adjoint, kind="view")
define(np.matrix_transpose, "x", lambda g: np.matrix_transpose(g), kind="view")
define(np.swapaxes, "a", lambda g, axis1, axis2: np.swapaxes(g, axis1, axis2), kind="view")
define(np.moveaxis, "a", lambda g, source, destination: np.moveaxis(g, destination, source), kind="view")
define(np.squeeze, "a", lambda g, a_shape: np.reshape(g, a_shape), kind="view")
define(np.expand_dims, "a", lambda g, a_shape: np.reshape(g, a_shape), kind="view")
define(np.broadcast_to, "array", lambda g: g, kind="view")
define(np.copy, "a", lambda g: g, kind="linear")
for _function in (np.zeros_like, np.ones_like, np.empty_like):
    define(_function, "a", None)


@composite(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, device=None):
    """Fill; the gradient reaches the value."""
    out = np.empty_like(fill_value if not isinstance(a, Recorded) and isinstance(fill_value, Recorded) else a,
                        dtype=dtype or getattr(a, "dtype", None), shape=shape_of(a) if shape is None else shape)
    out[...] = fill_value
    return out


@composite(np.rollaxis)
def rollaxis(a, axis, start=0):
    """Move an axis before another."""
    n = a.ndim
    axis, start = axis % n, start % (n + 1) if start >= 0 else start + n
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
    axes = range(np.ndim(m)) if axis is None else np.atleast_1d(axis) % np.ndim(m)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(np.ndim(m)))]


composite(np.fliplr)(lambda m: np.flip(m, 1))
composite(np.flipud)(lambda m: np.flip(m, 0))


@composite(np.rot90)
def rot90(m, k=1, axes=(0, 1)):
    """Rotate by 90 degrees in a plane."""
    a, b = (axis % np.ndim(m) for axis in axes)
    k %= 4
    if k == 2:
        return np.flip(m, (a, b))
    return m if k == 0 else np.swapaxes(np.flip(m, b), a, b) if k == 1 else np.flip(np.swapaxes(m, a, b), b)


def roll_adjoint(g, shift, axis):
    """Roll back."""
    return np.roll(g, tuple(-s for s in shift) if isinstance(shift, (tuple, list)) else -np.asarray(shift), axis)


define(np.roll, "a", roll_adjoint, kind="linear")

# --- joining
_concatenate = lambda *arrays, axis=0, **params: np.concatenate(arrays, axis=axis, **params)  # noqa: E731


def concatenate_adjoint(g, position, arrays_shape, axis):
    """Take the part of g that belongs to this array."""
    if axis is None:
        sizes = [int(np.prod(s, dtype=int)) for s in arrays_shape]
        start = sum(sizes[:position])
        return np.reshape(g[start : start + sizes[position]], arrays_shape[position])
    axis = axis % len(arrays_shape[position])
    start = sum(s[axis] for s in arrays_shape[:position])
    return g[(*(slice(None),) * axis, slice(start, start + arrays_shape[position][axis]))]


for _name in ("concatenate", "concat"):
    define(
        getattr(np, _name),
        "*arrays",
        concatenate_adjoint,
        kind="linear",
        bind=lambda arrays, axis=0, out=None, **params: (tuple(arrays), {"axis": axis, "out": out, **params}),
        call=_concatenate,
        name="np.concatenate",
    )


@composite(np.stack)
def stack(arrays, axis=0, *, dtype=None, casting="same_kind"):
    """Join along a new axis."""
    keywords = {} if dtype is None else {"dtype": dtype, "casting": casting}
    return np.concatenate([np.expand_dims(a, axis) for a in arrays], axis=axis, **keywords)


@composite(np.unstack)
def unstack(x, /, *, axis=0):
    """Split along an axis and drop it."""
    return tuple(np.moveaxis(x, axis, 0))


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


@composite(np.append)
def append(arr, values, axis=None):
    """Join two arrays, flattened when there is no axis."""
    return np.concatenate([np.ravel(arr), np.ravel(values)] if axis is None else [arr, values], axis=axis or 0)


# --- splitting
@composite(np.array_split)
def array_split(ary, indices_or_sections, axis=0):
    """Split into views, the first ones longer when the sections are uneven."""
    n = shape_of(ary)[axis]
    if np.ndim(indices_or_sections) == 0:
        k, more = divmod(n, int(indices_or_sections))
        cuts = np.cumsum([0] + more * [k + 1] + (int(indices_or_sections) - more) * [k]).tolist()
    else:
        cuts = [0, *(int(i) for i in indices_or_sections), n]
    before = (slice(None),) * (axis % len(shape_of(ary)))
    return [ary[(*before, slice(a, b))] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


@composite(np.split)
def split(ary, indices_or_sections, axis=0):
    """Split into views of equal length, or at given places."""
    if np.ndim(indices_or_sections) == 0 and shape_of(ary)[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return np.array_split(ary, indices_or_sections, axis)


composite(np.vsplit)(lambda ary, indices_or_sections: np.split(ary, indices_or_sections, 0))
composite(np.hsplit)(lambda ary, indices_or_sections: np.split(ary, indices_or_sections, 1 if np.ndim(ary) > 1 else 0))
composite(np.dsplit)(lambda ary, indices_or_sections: np.split(ary, indices_or_sections, 2))

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
    return SCATTER(g, source, index=(*(slice(None),) * axis, SLOT), shape=a_shape)


define(np.repeat, "a repeats", repeat_adjoint, None)


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


# --- padding


@composite(np.pad)
def pad(array, pad_width, mode="constant", **keywords):
    """Pad: with constants by assignment into a larger array; in the other modes by gathering from positions."""
    widths = pad_pairs(pad_width, np.ndim(array))
    if mode == "constant":
        values = keywords.get("constant_values", 0)
        return PAD_CONSTANT(array, pad_width=widths) if np.ndim(values) == 0 and not isinstance(values, Recorded) and (
            values == 0
        ) else _pad_values(array, widths, values)
    if mode in ("reflect", "symmetric", "wrap", "edge") and keywords.get("reflect_type", "even") == "even":
        for axis, width in enumerate(widths):
            places = np.pad(np.arange(shape_of(array)[axis]), width, mode=mode)
            array = array[(*(slice(None),) * axis, places)]
        return array
    raise NotImplementedError(mode)


def pad_pairs(pad_width, ndim):
    """Return (before, after) for each axis, from any of the forms np.pad takes."""
    if isinstance(pad_width, dict):
        given = {axis % ndim: width for axis, width in pad_width.items()}
        return tuple(tuple(np.broadcast_to(given.get(i, 0), 2).tolist()) for i in range(ndim))
    return tuple(map(tuple, np.broadcast_to(pad_width, (ndim, 2)).tolist()))


def _pad_values(array, widths, values):
    """Pad with given constants, axis after axis."""
    for axis, (before, after) in enumerate(widths):
        low, high = values if np.ndim(values) == 1 and len(values) == 2 else (values, values)
        if np.ndim(values) == 2:
            low, high = values[axis % len(values)]
        shape = shape_of(array)
        blocks = []
        for width, value in ((before, low), (after, high)):
            block = np.empty_like(array, shape=(*shape[:axis], width, *shape[axis + 1 :]))
            block[...] = value
            blocks.append(block)
        array = np.concatenate([blocks[0], array, blocks[1]], axis=axis)
    return array


def unpad(g, pad_width):
    """Cut the padding off."""
    return g[tuple(slice(before, n - after) for (before, after), n in zip(pad_width, shape_of(g), strict=True))]


PAD_CONSTANT = Op(lambda array, *, pad_width: np.pad(array, pad_width), "array", (unpad,), "np.pad", kind="linear")

# --- triangles and diagonals
define(np.tril, "m", lambda g, k: np.tril(g, k), kind="linear")
define(np.triu, "m", lambda g, k: np.triu(g, k), kind="linear")


def diagonal_index(shape, offset, axis1, axis2):
    """Return the index of a diagonal for the array with those two axes moved last."""
    rows, columns = shape[axis1], shape[axis2]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = np.arange(n)
    return start - min(offset, 0), start + max(offset, 0)


@composite(np.diagonal, np.linalg.diagonal)
def diagonal(a, offset=0, axis1=None, axis2=None):
    """Take a diagonal of two axes; it becomes the last axis."""
    axis1, axis2 = (0, 1) if axis1 is None else (axis1, axis2)
    i, j = diagonal_index(shape_of(a), offset, axis1, axis2)
    return np.moveaxis(a, (axis1, axis2), (-2, -1))[..., i, j]


@composite(np.linalg.diagonal)
def linalg_diagonal(x, /, *, offset=0):
    """Take a diagonal of the last two axes."""
    return np.diagonal(x, offset, -2, -1)


@composite(np.trace)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    """Sum a diagonal."""
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@composite(np.linalg.trace)
def linalg_trace(x, /, *, offset=0, dtype=None):
    """Sum a diagonal of the last two axes."""
    return np.trace(x, offset, -2, -1, dtype)


@composite(np.diag)
def diag(v, k=0):
    """Take the diagonal of a matrix, or make a matrix of a diagonal."""
    if np.ndim(v) == 2:
        return np.diagonal(v, k)
    n = shape_of(v)[0] + abs(k)
    i = np.arange(shape_of(v)[0])
    return SCATTER(v, i - min(k, 0), i + max(k, 0), index=(SLOT, SLOT._replace(i=1)), shape=(n, n))


composite(np.diagflat)(lambda v, k=0: np.diag(np.ravel(v), k))


@composite(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    """Assign to the main diagonal, in place."""
    n = min(shape_of(a))
    values = np.ravel(val)[np.arange(n) % np.size(val)] if np.ndim(val) else val
    a[(np.arange(n),) * np.ndim(a)] = values


composite(np.shape)(shape_of)
composite(np.ndim)(lambda a: len(shape_of(a)))
composite(np.size)(lambda a, axis=None: int(np.prod(shape_of(a), dtype=int)) if axis is None else shape_of(a)[axis])
composite(np.iscomplexobj)(lambda x: x.dtype.kind == "c")
composite(np.isrealobj)(lambda x: x.dtype.kind != "c")
composite(np.result_type)(lambda *xs: np.result_type(*(getattr(x, "dtype", x) for x in xs)))
composite(np.can_cast)(lambda from_, to, casting="safe": np.can_cast(from_.dtype, getattr(to, "dtype", to), casting))

from minigrad.rules.index import Slot, scatter as SCATTER  # noqa: E402

SLOT = Slot(0)
