"""New arrays of given shapes and values."""

import operator

import numpy as np

from minigrad.op import as_array, composite, define
from minigrad.require import require
from minigrad.shapes import shape_of

for _function in (np.zeros_like, np.ones_like, np.empty_like):
    define(_function, "a", None)


@composite(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, device=None):
    """Fill; the gradient reaches the value."""
    out = np.empty_like(a, dtype=dtype, shape=shape)
    out[...] = fill_value
    return out


@composite(np.linspace)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """Evenly spaced numbers; the gradient reaches both ends."""
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    kind = np.result_type(*(getattr(x, "dtype", x) for x in (start, stop)))
    kind = kind if kind.kind in "fc" else np.dtype(np.float64)
    start, stop = (as_array(x).astype(kind) for x in (start, stop))
    delta = stop - start
    places = np.reshape(np.arange(num, dtype=kind), (-1,) + (1,) * np.ndim(delta))
    gaps = num - 1 if endpoint else num
    step = delta / gaps if gaps > 0 else np.nan
    y = (places * step if gaps > 0 else places * delta) + start
    if endpoint and num > 1:
        y = np.concatenate([y[:-1], np.broadcast_to(stop, shape_of(y[-1:])).astype(y.dtype)])
    y = y if dtype is None else y.astype(dtype)
    y = np.moveaxis(y, 0, axis) if axis else y
    return (y, step) if retstep else y


@composite(np.logspace)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """The base to the power of evenly spaced numbers; the gradient reaches the base too."""
    start, stop = as_array(start), as_array(stop)
    if np.ndim(base):
        n = len(np.broadcast_shapes(shape_of(start), shape_of(stop), shape_of(base)))
        start, stop, base = (np.reshape(x, (1,) * (n - np.ndim(x)) + shape_of(x)) for x in (start, stop, base))
        base = np.expand_dims(base, axis)
    y = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)


@composite(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """Numbers of evenly spaced logarithms; the ends are exact."""
    start, stop = as_array(start), as_array(stop)
    require(np.not_equal(start, 0) & np.not_equal(stop, 0), "Geometric sequence cannot include zero")
    kind = np.result_type(start.dtype, stop.dtype, float(num), np.zeros((), dtype))
    start, stop = np.broadcast_arrays(start.astype(kind), stop.astype(kind))
    sign = np.sign(start)
    start, stop = start / sign, stop / sign
    y = np.logspace(np.log10(start), np.log10(stop), num, endpoint)
    parts = [start[None], y[1:-1] if endpoint else y[1:], *([stop[None]] if endpoint else [])]
    y = (np.concatenate(parts[: 1 if num == 1 else None]) if num > 0 else y) * sign
    y = np.moveaxis(y, 0, axis) if axis else y
    return y if dtype is None else y.astype(dtype)


@composite(np.meshgrid)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Grids of coordinates."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    grids = [np.reshape(x, [-1 if order[i] == j else 1 for j in range(n)]) for i, x in enumerate(xi)]
    grids = grids if sparse else np.broadcast_arrays(*grids)
    return tuple(np.copy(grid) if copy else grid for grid in grids)


@composite(np.ix_)
def ix_(*args):
    """One-dimensional arrays made ready to broadcast against each other."""
    if any(np.ndim(a) != 1 for a in args):
        raise ValueError("Cross index must be 1 dimensional")
    n = len(args)
    return tuple(np.reshape(a, [-1 if i == j else 1 for j in range(n)]) for i, a in enumerate(args))


composite(np.tril_indices_from)(lambda arr, k=0: np.tril_indices_from(np.empty(shape_of(arr)), k))
composite(np.triu_indices_from)(lambda arr, k=0: np.triu_indices_from(np.empty(shape_of(arr)), k))
composite(np.diag_indices_from)(lambda arr: np.diag_indices_from(np.empty(shape_of(arr))))
