"""Functions of samples along an axis: differences, integrals, interpolation, convolution."""

import numpy as np

from minigrad.op import Op, as_array, composite, define
from minigrad.rules.index import at
from minigrad.shapes import normal_axes, normal_axis, shape_of


def along(ndim, axis, *parts):
    """Return the indices that take each part (a slice or a number) of one axis."""
    return [(*(slice(None),) * normal_axis(axis, ndim), part) for part in parts]


@composite(np.diff)
def diff(a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
    """Neighbours subtracted, n times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = as_array(a)
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = normal_axis(axis, a.ndim)
    parts = []
    for part in (prepend, a, append):
        if part is not np._NoValue:
            edge = tuple(1 if i == axis else n for i, n in enumerate(a.shape))
            parts.append(part if np.ndim(part) else np.broadcast_to(part, edge))
    if n == 0:
        return a
    a = np.concatenate(parts, axis=axis) if len(parts) > 1 else a
    later, earlier = along(a.ndim, axis, slice(1, None), slice(None, -1))
    minus = np.not_equal if a.dtype.kind == "b" else np.subtract
    for _ in range(n):
        a = minus(a[later], a[earlier])
    return a


@composite(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of the flattened array, with given ends."""
    flat = np.ravel(ary)
    parts = [to_begin, flat[1:] - flat[:-1], to_end]
    return np.concatenate([np.ravel(p) for p in parts if p is not None])


def _one_sided(f0, f1, f2, near, far):
    """Return the slope at the first of three points of the parabola through them."""
    both = near + far
    return -(near + both) / (near * both) * f0 + both / (near * far) * f1 - near / (far * both) * f2


def _slopes(f, h, edge_order):
    """Return the derivative of f along its first axis; h is the distance of the points, or their distances."""
    if np.ndim(h) == 0:
        inside = (f[2:] - f[:-2]) / (2.0 * h)
        first = second = last_but_one = last = h
    else:
        h = np.reshape(h, (-1,) + (1,) * (f.ndim - 1))
        left, right = h[:-1], h[1:]
        outer = right / left * f[:-2] - left / right * f[2:]
        inside = (right - left) / (left * right) * f[1:-1] - outer / (left + right)
        first, second, last_but_one, last = h[0], h[:2][-1], h[-2:][0], h[-1]
    if edge_order == 1:
        ends = (f[1] - f[0]) / first, (f[-1] - f[-2]) / last
    else:
        ends = (
            _one_sided(f[0], f[1], f[2], first, second),
            -_one_sided(f[-1], f[-2], f[-3], last, last_but_one),
        )
    return np.concatenate([ends[0][None], inside, ends[1][None]])


@composite(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    """Central differences inside, one-sided ones at the ends; the gradient reaches the coordinates too."""
    f = as_array(f)
    axes = normal_axes(axis, f.ndim)
    if len(varargs) not in (0, 1, len(axes)) or (len(varargs) == 1 < len(axes) and np.ndim(varargs[0])):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    spacings = list(varargs) * len(axes) if len(varargs) == 1 != len(axes) else list(varargs) or [1.0] * len(axes)
    out = []
    for k, h in zip(axes, spacings, strict=True):
        if np.ndim(h) > 1 or (np.ndim(h) == 1 and len(h) != f.shape[k]):
            raise ValueError("distances must be scalars, or 1d of the length of the corresponding dimension")
        if f.shape[k] < edge_order + 1:
            raise ValueError("Shape of array too small to calculate a numerical gradient")
        h = np.diff(h) if np.ndim(h) else h
        slopes = np.moveaxis(_slopes(np.moveaxis(f, k, 0), h, edge_order), 0, k)
        out.append(slopes.astype(f.dtype, copy=False) if f.dtype.kind in "fc" else slopes)
    return out[0] if len(out) == 1 else tuple(out)


@composite(np.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """The integral of the lines between the samples."""
    y = as_array(y)
    if x is None:
        width = dx
    else:
        x = as_array(x)
        width = np.diff(x, axis=axis if x.ndim > 1 else -1)
        if x.ndim == 1:
            width = np.reshape(width, [-1 if i == axis % y.ndim else 1 for i in range(y.ndim)])
    later, earlier = along(y.ndim, axis, slice(1, None), slice(None, -1))
    return np.sum(width * (y[later] + y[earlier]) / 2.0, axis=axis)


# Whole periods are added, and whole periods are locally constant.
define(np.unwrap, "p", lambda g: g)


@composite(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    """Lines between the points (xp, fp); the gradient reaches all three. At a point, x moves to the right."""
    x, xp, fp = as_array(x), as_array(xp), as_array(fp)
    if np.ndim(xp) != 1 or shape_of(xp) != shape_of(fp):
        raise ValueError("fp and xp should be of one dimension and of the same length")
    if not xp.size:  # NumPy refuses, or from 2.5 on accepts that there are no x either
        return np.interp(np.zeros(x.shape), np.zeros(0), np.zeros(0, fp.dtype), left, right, period)
    x, xp, fp = x.astype(np.float64), xp.astype(np.float64), fp.astype(np.result_type(fp.dtype, np.float64))
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
        x, xp = np.remainder(x, period), np.remainder(xp, period)
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
    if shape_of(xp)[0] == 1:
        inside = np.broadcast_to(fp, x.shape)
    else:
        j = np.clip(np.searchsorted(xp, x, "right") - 1, 0, shape_of(xp)[0] - 2)
        x0, y0, x1, y1 = (at(points, k) for k in (j, j + 1) for points in (xp, fp))
        inside = (y1 - y0) / (x1 - x0) * (x - x0) + y0
    below = np.where(np.less(x, xp[0]), fp[0] if left is None else left, inside)
    return np.where(np.greater(x, xp[-1]), fp[-1] if right is None else right, below)


# --- convolution: every mode is a part of the full one


def _valid(a, v):
    """Return the part of a convolution where v lies wholly within a."""
    n = shape_of(v)[0]
    return _full(a, v)[n - 1 : shape_of(a)[0]]


_full = Op(
    np.convolve,
    "a v",
    (lambda g, v: _valid(g, v[::-1]), lambda g, a: _valid(g, a[::-1])),
    "np.convolve",
)


@composite(np.convolve)
def convolve(a, v, mode="full"):
    """Sum of a[k] v[n - k]."""
    a, v = np.atleast_1d(as_array(a)), np.atleast_1d(as_array(v))
    if not a.size or not v.size:
        raise ValueError("a and v cannot be empty")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode should be 'full', 'same' or 'valid', got {mode!r}")
    long, short = max(a.size, v.size), min(a.size, v.size)
    start, length = {
        "full": (0, long + short - 1),
        "same": ((short - 1) // 2, long),
        "valid": (short - 1, long - short + 1),
    }[mode]
    return _full(a, v)[start : start + length]


@composite(np.correlate)
def correlate(a, v, mode="valid"):
    """Sum of a[n + k] conj(v[k])."""
    a, v = np.atleast_1d(as_array(a)), np.atleast_1d(as_array(v))
    # NumPy swaps the arrays when the second is longer; with an even first one, the middle is then one place off.
    if mode == "same" and a.size < v.size and a.size % 2 == 0:
        return np.conj(np.convolve(np.conj(a)[::-1], v, mode))[::-1]
    return np.convolve(a, np.conj(v[::-1]), mode)
