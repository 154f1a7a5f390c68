"""Products that sum over shared axes: matmul, dot, einsum and their relatives."""

from math import prod

import numpy as np

from minigrad.op import available, composite, define
from minigrad.shapes import normal_axis, shape_of


def flat(x):
    """Return x as a matrix: all axes but the last become one."""
    *leading, last = shape_of(x)
    return x.reshape((prod(leading), last))


def matmul_left_adjoint(g, x_shape, y):
    """g y^T; for one matrix y and a batch of g, as one product."""
    if y.ndim == 1:
        return np.expand_dims(g, -1) * y
    if len(x_shape) == 1:
        return np.matmul(y, np.expand_dims(g, -1))[..., 0]
    if y.ndim == 2 and len(x_shape) > 2:
        return np.matmul(flat(g), y.T).reshape(x_shape)
    return np.matmul(g, y.swapaxes(-1, -2))


def matmul_right_adjoint(g, x, y_shape):
    """x^T g. With one matrix y for a batch, the batch is folded before the product, not summed after it."""
    if len(y_shape) == 1:
        return np.sum(x * np.expand_dims(g, -1), axis=tuple(range(x.ndim - 1)))
    if x.ndim == 1:
        return np.expand_dims(x, -1) * np.expand_dims(g, -2)
    if len(y_shape) == 2:
        return np.matmul(flat(x).T, flat(g))
    return np.matmul(x.swapaxes(-1, -2), g)


define(np.matmul, "x y", matmul_left_adjoint, matmul_right_adjoint)


@composite(np.dot)
def dot(a, b):
    """Sum over the last axis of a and the last but one of b."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return np.multiply(a, b)
    if np.ndim(b) <= 2:
        return np.matmul(a, b)
    return np.tensordot(a, b, ((-1,), (-2,)))


@composite(np.inner)
def inner(a, b):
    """Sum over the last axes of both."""
    return np.multiply(a, b) if np.ndim(a) == 0 or np.ndim(b) == 0 else np.tensordot(a, b, ((-1,), (-1,)))


composite(np.vdot)(lambda a, b: np.matmul(np.conj(np.ravel(a)), np.ravel(b)))
composite(np.outer)(lambda a, b: np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1)))
composite(np.linalg.outer)(lambda x1, x2: np.reshape(x1, (-1, 1)) * np.reshape(x2, (1, -1)))
composite(np.linalg.matmul)(lambda x1, x2: np.matmul(x1, x2))


@composite(np.tensordot)
def tensordot(a, b, axes=2):
    """Sum over pairs of axes: move them together, and multiply matrices."""
    na, nb = np.ndim(a), np.ndim(b)
    if np.ndim(axes) == 0 and not isinstance(axes, (list, tuple)):
        of_a, of_b = range(-axes, 0), range(axes)
    else:
        of_a, of_b = ([k] if np.ndim(k) == 0 else list(k) for k in axes)
    of_a, of_b = [normal_axis(k, na) for k in of_a], [normal_axis(k, nb) for k in of_b]
    rest_a, rest_b = ([k for k in range(n) if k not in of] for n, of in ((na, of_a), (nb, of_b)))
    shape_a, shape_b = shape_of(a), shape_of(b)
    if [shape_a[k] for k in of_a] != [shape_b[k] for k in of_b]:
        raise ValueError("shape-mismatch for sum")
    width = int(np.prod([shape_a[k] for k in of_a], dtype=int))
    left = np.reshape(np.transpose(a, rest_a + of_a), (int(np.prod([shape_a[k] for k in rest_a], dtype=int)), width))
    right = np.reshape(np.transpose(b, of_b + rest_b), (width, int(np.prod([shape_b[k] for k in rest_b], dtype=int))))
    return np.reshape(left @ right, [shape_a[k] for k in rest_a] + [shape_b[k] for k in rest_b])


@composite(np.linalg.tensordot)
def linalg_tensordot(x1, x2, /, *, axes=2):
    """As np.tensordot."""
    return np.tensordot(x1, x2, axes)


for _vecdot in (np.vecdot, np.linalg.vecdot):

    @composite(_vecdot)
    def vecdot(x1, x2, /, *, axis=-1):
        """Sum of the products along an axis, the first conjugated."""
        if shape_of(x1)[axis] != shape_of(x2)[axis]:
            raise ValueError(f"vecdot: the axes have lengths {shape_of(x1)[axis]} and {shape_of(x2)[axis]}")
        return np.sum(np.conj(np.moveaxis(x1, axis, -1)) * np.moveaxis(x2, axis, -1), axis=-1)


composite(*available("matvec"))(lambda x1, x2: np.matmul(x1, np.expand_dims(x2, -1))[..., 0])
composite(*available("vecmat"))(lambda x1, x2: np.matmul(np.expand_dims(np.conj(x1), -2), x2)[..., 0, :])


@composite(np.kron)
def kron(a, b):
    """Every element of a times the whole of b."""
    n = max(np.ndim(a), np.ndim(b))
    sa, sb = ((1,) * (n - np.ndim(x)) + shape_of(x) for x in (a, b))
    left = np.reshape(a, tuple(k for size in sa for k in (size, 1)))
    right = np.reshape(b, tuple(k for size in sb for k in (1, size)))
    return np.reshape(left * right, tuple(p * q for p, q in zip(sa, sb, strict=True)))


@composite(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector product of three-vectors."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if shape_of(a)[-1] != 3 or shape_of(b)[-1] != 3:
        raise ValueError("np.cross of a Tensor takes three-vectors")
    one, two = [1, 2, 0], [2, 0, 1]
    return np.moveaxis(a[..., one] * b[..., two] - a[..., two] * b[..., one], -1, axisc)


composite(np.linalg.cross)(lambda x1, x2, /, *, axis=-1: np.cross(x1, x2, axis=axis))
