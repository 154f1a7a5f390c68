"""Averages, covariances and histograms."""

import numpy as np

from minigrad.errors import unsupported
from minigrad.op import Op, Recorded, as_array, composite
from minigrad.require import caution, require
from minigrad.rules.index import Slot, scatter
from minigrad.shapes import normal_axes, shape_of


def no_weight():
    """Return what NumPy raises."""
    return ZeroDivisionError("Weights sum to zero, can't be normalized")


@composite(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    """The weighted mean; the gradient reaches the weights too."""
    a = as_array(a)
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keepdims)
        n = a.size / np.size(mean)
        return (mean, np.full(shape_of(mean), n, mean.dtype)) if returned else mean
    weights = as_array(weights)
    axes = normal_axes(axis, a.ndim)
    if weights.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if weights.shape != tuple(a.shape[i] for i in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        weights = np.transpose(weights, np.argsort(axes))
        weights = np.reshape(weights, tuple(n if i in axes else 1 for i, n in enumerate(a.shape)))
    product = a * weights
    total = np.sum(np.broadcast_to(weights, a.shape), axis=axis, keepdims=keepdims, dtype=product.dtype)
    require(np.not_equal(total, 0), no_weight)
    mean = np.sum(product, axis=axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


# Before NumPy 2.2 a matrix of one row was one variable, even with rowvar=False.
ONE_ROW_IS_ONE_VARIABLE = np.lib.NumpyVersion(np.__version__) < "2.2.0"


@composite(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """The covariance matrix of variables in rows."""
    parts = [as_array(x) for x in (m, y) if x is not None]
    dtype = np.result_type(*(x.dtype for x in parts), np.float64) if dtype is None else dtype
    rows = []
    for i, part in enumerate(parts):
        part = np.atleast_2d(part.astype(dtype))
        whole = shape_of(part)[0] != 1 if i or ONE_ROW_IS_ONE_VARIABLE else np.ndim(parts[0]) != 1
        flipped = not rowvar and whole
        rows.append(np.transpose(part) if flipped else part)
    if shape_of(rows[0])[0] == 0:
        return np.array([]).reshape(0, 0)
    x = np.concatenate(rows) if len(rows) > 1 else rows[0]
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            given = as_array(given)
            if shape_of(given) != shape_of(x)[1:]:
                raise RuntimeError("incompatible numbers of samples and weights")
            weights = given if weights is None else weights * given
    if weights is None:
        mean, total = np.mean(x, axis=1), shape_of(x)[1]
    else:
        mean, total = np.average(x, axis=1, weights=weights), np.sum(weights)
    if weights is not None and aweights is not None and ddof != 0:
        factor = total - ddof * np.sum(weights * as_array(aweights)) / total
    else:
        factor = total - ddof
    caution(np.less_equal(factor, 0), "Degrees of freedom <= 0 for slice")
    factor = np.maximum(factor, 0.0)
    x = x - mean[:, None]
    return np.squeeze((x @ np.conj(np.transpose(x if weights is None else x * weights))) * np.true_divide(1, factor))


@composite(np.corrcoef)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """The covariance matrix over the standard deviations of rows and columns."""
    c = np.cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    deviation = np.sqrt(np.real(np.diag(c)))
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)


def sum_by(index, weights, length):
    """Sum the weights that have the same index."""
    return scatter(weights, index, index=(Slot(0),), shape=(length,))


@composite(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    """Count, or sum the weights of, each number."""
    if isinstance(x, Recorded) and x.dtype.kind not in "iu":
        raise unsupported("np.bincount", "it takes integers; of a Tensor, only its weights are differentiated")
    if weights is None:
        return np.bincount(np.asarray(x), minlength=minlength)  # under a trace of fixed values, which may be read
    if np.ndim(weights) != 1 or np.shape(x) != np.shape(weights):
        raise ValueError("The weights and list don't have the same length.")
    length = max(np.max(x, initial=-1) + 1, minlength)
    return sum_by(np.asarray(x), as_array(weights).astype(np.float64), int(length))


_bin = Op(
    lambda a, edges: np.where(a == edges[-1], len(edges) - 1, np.searchsorted(edges, a, "right")) - 1,
    "a edges",
    (None, None),
    "np.digitize",
)


@composite(np.histogram_bin_edges)
def histogram_bin_edges(a, bins=10, range=None, weights=None):
    """Edges that are given, or lie between numbers that are given, depend on no element."""
    if np.ndim(bins) == 1:
        return as_array(bins)
    if not isinstance(a, Recorded) and not isinstance(bins, str):
        return np.histogram_bin_edges(a, bins, range)  # for a Tensor of weights, which have no part in it
    if isinstance(bins, str) or range is None:
        raise unsupported("np.histogram of a Tensor without fixed edges", "pass the bin edges, or range=(low, high)")
    return np.histogram_bin_edges(np.zeros(0, a.dtype), bins, range)


@composite(np.histogram)
def histogram(a, bins=10, range=None, density=None, weights=None):
    """Counts of the elements between edges have no derivative with respect to them; sums of weights have one."""
    a = as_array(a)
    edges = np.histogram_bin_edges(a, bins, range, weights)
    flat = np.ravel(a)
    index = _bin(flat, edges)
    inside = (index >= 0) & (index < len(edges) - 1)
    if weights is None:
        n = np.bincount(index[inside], minlength=len(edges) - 1)
    else:
        n = sum_by(index[inside], np.ravel(weights)[inside], len(edges) - 1)
    return (n / np.diff(edges) / np.sum(n) if density else n), edges
