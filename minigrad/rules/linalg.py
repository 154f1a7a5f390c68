"""numpy.linalg without determinants and factorisations: norms, inverses, linear systems, products.

Formulas: Giles 2008, "Collected matrix derivative results"; Petersen & Pedersen 2012, "The Matrix Cookbook". With the
convention dL = Re(sum(g dx)) a linear map is undone by its plain transpose, so a^T stands where they have a^H.
"""

from functools import partial
from math import prod

import numpy as np

from minigrad.op import Op, composite, define
from minigrad.rules.reduce import spread
from minigrad.shapes import normal_axes, normal_axis, shape_of


def transposed(x):
    """Swap the last two axes."""
    return np.swapaxes(x, -1, -2)


def adjointed(x):
    """Swap the last two axes and conjugate."""
    return np.conj(np.swapaxes(x, -1, -2))


def column(x):
    """Make the last axis a column."""
    return np.expand_dims(x, -1)


def tolerance(shape, dtype):
    """Return what, relative to the largest singular value, counts as 0: NumPy's choice in matrix_rank and lstsq."""
    return max(shape[-2:]) * float(np.finfo(dtype).eps)


def lower_half(x):
    """Return the lower triangle with half the diagonal."""
    n = shape_of(x)[-1]
    return x * (np.tri(n, dtype=x.dtype) - np.eye(n, dtype=x.dtype) / 2)


def on_triangle(x, upper):
    """Return the gradient with respect to the triangle that NumPy read of a Hermitian matrix."""
    half = lower_half(x + adjointed(x))
    return adjointed(half) if upper else half


# --- norms


def norm_adjoint(g, x, out, ord, axis):
    """conj(x) |x|**(p-2) / norm**(p-1), and 0 where the norm is 0."""
    g, norm = spread(g, shape_of(x), axis), spread(out, shape_of(x), axis)
    if ord in (None, 2, "fro", "f"):
        return g * (np.conj(x) / np.where(np.equal(norm, 0), 1, norm))
    size, sign = np.abs(x), np.conj(np.sign(x))
    if ord == 1:
        return g * sign
    if ord in (np.inf, -np.inf):
        hit = np.equal(size, norm)
        ties = np.sum(hit, axis=axis, keepdims=True).astype(norm.dtype)
        return g * sign * np.where(hit, 1 / np.maximum(ties, 1), 0)
    zero = np.equal(size, 0) | np.equal(norm, 0)
    ratio = np.where(zero, 1, size) / np.where(np.equal(norm, 0), 1, norm)
    return g * sign * np.where(zero, 0, np.power(ratio, ord - 1))


elements_norm = Op(
    lambda x, *, ord, axis, keepdims=False: np.linalg.norm(x, ord=ord, axis=axis, keepdims=keepdims),
    "x",
    (norm_adjoint,),
    "np.linalg.norm",
)


nonzero_elements = Op(lambda x, *, axis, keepdims: np.linalg.norm(x, 0, axis, keepdims), "x", (None,), "np.linalg.norm")


@composite(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    """The norm of vectors (axis a number, or a one-dimensional x) or of matrices (two axes)."""
    if ord is None and axis is None:
        return elements_norm(x, ord=None, axis=None, keepdims=keepdims)
    n = len(shape_of(x))
    axes = tuple(range(n)) if axis is None else (axis,) if np.ndim(axis) == 0 else tuple(axis)
    if len(axes) == 1 and ord == 0:
        return nonzero_elements(x, axis=axes[0], keepdims=keepdims)
    if len(axes) == 1 or (len(axes) == 2 and ord in (None, "fro", "f")):
        return elements_norm(x, ord=ord, axis=axes[0] if len(axes) == 1 else axes, keepdims=keepdims)
    if len(axes) != 2 or ord not in (1, -1, 2, -2, np.inf, -np.inf, "nuc"):
        raise ValueError(f"np.linalg.norm: no norm of order {ord!r} over {len(axes)} axes")
    rows, columns = (normal_axis(a, n) for a in axes)
    extremum = np.sum if ord == "nuc" else np.max if ord > 0 else np.min
    if extremum is np.max and 0 in shape_of(x):
        np.linalg.norm(np.zeros(shape_of(x)), ord, axes)  # raises where this NumPy raises
        extremum = partial(np.max, initial=0)
    if ord == "nuc" or abs(ord) == 2:
        values = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False)
        out = extremum(values, axis=-1)
        return np.expand_dims(out, (rows, columns)) if keepdims else out
    sums = np.sum(np.abs(x), axis=rows if abs(ord) == 1 else columns, keepdims=True)
    return extremum(sums, axis=(rows, columns), keepdims=keepdims)


@composite(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of the matrices in the last two axes."""
    return np.linalg.norm(x, ord, (-2, -1), keepdims)


@composite(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norm of the vectors along the axes together."""
    n = len(shape_of(x))
    axes = normal_axes(axis, n)
    rest = tuple(i for i in range(n) if i not in axes)
    shape = [shape_of(x)[i] for i in (*rest, *axes)]
    flat = np.reshape(np.transpose(x, (*rest, *axes)), (*shape[: len(rest)], prod(shape[len(rest) :])))
    out = np.linalg.norm(flat, ord, -1)
    return np.expand_dims(out, axes) if keepdims else out


@composite(np.linalg.cond)
def cond(x, p=None):
    """The norm of a matrix times the norm of its inverse."""
    if p in (None, 2, -2):
        values = np.linalg.svd(x, compute_uv=False)
        with np.errstate(all="ignore"):  # a singular matrix has an infinite condition number
            return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, (-2, -1))


# --- inverses and linear systems
define(np.linalg.inv, "a", lambda g, out: -(transposed(out) @ g @ transposed(out)))


def right_side_adjoint(g, a, b_shape):
    """a^-T g. A one-dimensional b is a vector, any other a stack of matrices."""
    if len(b_shape) == 1:
        return np.linalg.solve(transposed(a), column(g))[..., 0]
    return np.linalg.solve(transposed(a), g)


def matrix_adjoint(g, a, b_shape, out):
    """-(a^-T g) x^T."""
    g = right_side_adjoint(g, a, b_shape)
    return -(column(g) * out[..., None, :]) if len(b_shape) == 1 else -(g @ transposed(out))


define(np.linalg.solve, "a b", matrix_adjoint, right_side_adjoint)


@composite(np.linalg.tensorinv)
def tensorinv(a, ind=2):
    """The inverse of a matrix whose rows are the first `ind` axes."""
    shape = shape_of(a)
    size = prod(shape[ind:])
    return np.reshape(np.linalg.inv(np.reshape(a, (size, size))), (*shape[ind:], *shape[:ind]))


@composite(np.linalg.tensorsolve)
def tensorsolve(a, b, axes=None):
    """Solve a linear system whose unknowns are the last axes of a."""
    if axes is not None:
        n = np.ndim(a)
        a = np.moveaxis(a, axes, range(n - len(axes), n))
    unknown = shape_of(a)[np.ndim(b) :]
    size = prod(unknown)
    return np.reshape(np.linalg.solve(np.reshape(a, (size, size)), np.ravel(b)), unknown)


@composite(np.linalg.matrix_power)
def matrix_power(a, n):
    """Multiply by repeated squaring."""
    if len(shape_of(a)) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise np.linalg.LinAlgError(f"np.linalg.matrix_power: the matrices should be square, got shape {shape_of(a)}")
    if n < 0:
        a, n = np.linalg.inv(a), -n
    out = None
    while n:
        if n % 2:
            out = a if out is None else out @ a
        n //= 2
        a = a @ a if n else a
    return np.zeros_like(a) + np.eye(shape_of(a)[-1], dtype=a.dtype) if out is None else out


def multi_dot_adjoint(g, arrays, arrays_shape, position):
    """(the product of those before)^T g (the product of those behind)^T, in the cheapest order again."""
    last = len(arrays) - 1
    matrices = list(arrays)
    if len(arrays_shape[0]) == 1:
        matrices[0], g = matrices[0][None, :], np.expand_dims(g, 0)
    if len(arrays_shape[last]) == 1:
        matrices[last], g = column(matrices[last]), column(g)
    before = [transposed(m) for m in reversed(matrices[:position])]
    behind = [transposed(m) for m in reversed(matrices[position + 1 :])]
    return np.reshape(np.linalg.multi_dot([*before, g, *behind]), arrays_shape[position])


define(
    np.linalg.multi_dot,
    "*arrays",
    multi_dot_adjoint,
    bind=lambda arrays: (tuple(arrays), {}),
    call=lambda *arrays: np.linalg.multi_dot(arrays),
)
define(np.linalg.matrix_rank, "A", None)
define(np.linalg.matrix_transpose, "x", lambda g: transposed(g), kind="view")
