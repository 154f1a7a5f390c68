"""Sorting, quantiles and sets: all gather elements by positions, which are locally constant."""

import numpy as np

from minigrad.errors import unsupported
from minigrad.op import Op, Recorded, as_array, composite, define
from minigrad.require import caution
from minigrad.rules.index import at
from minigrad.shapes import kept_shape, normal_axes, reduced_count, shape_of


@composite(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """Sort by a stable permutation, so that among equal elements the gradient keeps their order."""
    if axis is None:
        a, axis = np.ravel(a), -1
    return np.take_along_axis(a, np.argsort(a, axis=axis, kind="stable"), axis=axis)


@composite(np.sort_complex)
def sort_complex(a):
    """Sort along the last axis, as complex numbers."""
    return np.sort(a.astype(np.sort_complex(np.zeros(0, a.dtype)).dtype))


def _partitioned(a, *, kth, axis):
    """Return the permutation that np.partition applied: equal elements are taken in their order."""
    ranks = np.argsort(np.argsort(np.partition(a, kth, axis=axis), axis=axis, kind="stable"), axis=axis)
    return np.take_along_axis(np.argsort(a, axis=axis, kind="stable"), ranks, axis=axis)


_partition_permutation = Op(_partitioned, "a", (None,), "np.partition")


@composite(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """Gather in the order that np.partition finds."""
    if axis is None:
        a, axis = np.ravel(a), -1
    return np.take_along_axis(a, _partition_permutation(a, kth=kth, axis=axis), axis=axis)


define(np.argsort, "a", None)
define(np.argpartition, "a", None)
define(np.searchsorted, "a v", None, None)
define(np.digitize, "x bins", None, None)
_lexsort = lambda *keys, axis: np.lexsort(keys, axis)
define(np.lexsort, "*keys", None, bind=lambda keys, axis=-1: (tuple(keys), {"axis": axis}), call=_lexsort)


# --- quantiles: elements of the sorted array, and lines between neighbours


def lanes(a, axis):
    """Return the array with the reduced axes moved last and made one."""
    shape, axes = shape_of(a), normal_axes(axis, len(shape_of(a)))
    rest = tuple(i for i in range(len(shape)) if i not in axes)
    return np.reshape(np.transpose(a, (*rest, *axes)), (*(shape[i] for i in rest), reduced_count(shape, axes)))


def sorted_lanes(a, axis, ignore_nan):
    """Return the sorted lanes, NaN last, how many elements of each count, and which lanes have no quantile."""
    ordered = np.sort(lanes(a, axis), axis=-1)
    n = np.sum(~np.isnan(ordered), axis=-1)
    if ignore_nan:
        empty = np.equal(n, 0)
        caution(empty, "All-NaN slice encountered")
        return ordered, n, empty
    size = shape_of(ordered)[-1]
    return ordered, np.full(shape_of(n), size), np.less(n, size)


def pick(ordered, position):
    """Return the element of each lane at its position."""
    return np.take_along_axis(ordered, np.expand_dims(position, -1), axis=-1)[..., 0]


def _median(ignore_nan):
    def median(a, axis=None, overwrite_input=False, keepdims=False):
        """Mean of the middle one or two of the sorted elements."""
        a = as_array(a)
        if not a.size:
            return np.mean(a, axis=axis, keepdims=keepdims)  # NaN and a warning
        ordered, n, bad = sorted_lanes(a, axis, ignore_nan)
        last = np.maximum(n - 1, 0)
        middle = np.mean(np.stack([pick(ordered, last // 2), pick(ordered, np.minimum(n // 2, last))]), axis=0)
        out = np.where(bad, np.nan, middle)
        return np.reshape(out, kept_shape(shape_of(a), axis)) if keepdims else out

    return median


composite(np.median)(_median(ignore_nan=False))
composite(np.nanmedian)(_median(ignore_nan=True))


def virtual_position(q, n, method, dtype):
    """Return where among n sorted elements a quantile lies; 2.25 is a quarter of the way from the third to the fourth.

    NumPy's own quantiles of the positions 0, 1, 2 ... tell, whatever the method.
    """
    return (n - 1) * q if method == "linear" else np.quantile(np.arange(n, dtype=dtype), q, method=method)


def quantile_of_lane(ordered, n, q, method, dtype):
    """Return one quantile of each lane of sorted elements, of which the first n are numbers."""
    longest = shape_of(ordered)[-1]
    table = np.zeros(longest + 1, dtype)
    for size in range(1, longest + 1) if isinstance(n, Recorded) else np.unique(n[n > 0]):  # unknown in a compiled one
        table[size] = virtual_position(q, size, method, dtype)
    position = at(table, n)
    low = np.floor(position).astype(np.intp)
    a, b = pick(ordered, low), pick(ordered, np.minimum(low + 1, np.maximum(n - 1, 0)))
    t = position - low.astype(dtype)
    return np.where(t < 0.5, a + (b - a) * t, b - (b - a) * (1 - t))


def _quantile(function, ignore_nan, percent):
    def quantile(a, q, axis=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
        """Lines between neighbours in the sorted array."""
        if isinstance(q, Recorded) or weights is not None:
            reason = "the derivative is written for the array only, without weights"
            raise unsupported(f"np.{function.__name__} of a Tensor of quantiles, or with weights", reason)
        a = as_array(a)
        dtype = function(np.zeros(1, a.dtype), q, method=method).dtype  # also raises where q is out of range
        q = np.asarray(q, dtype)
        q = q / 100 if percent else q
        if not a.size:
            return function(np.zeros(shape_of(a), a.dtype), q, axis, method=method, keepdims=keepdims)
        ordered, n, bad = sorted_lanes(a, axis, ignore_nan)
        kept = kept_shape(shape_of(a), axis) if keepdims else shape_of(n)
        out = [np.where(bad, np.nan, quantile_of_lane(ordered, n, each, method, dtype)) for each in np.ravel(q)]
        out = [np.reshape(value, kept) for value in out]
        return np.reshape(np.stack(out), (*np.shape(q), *kept)) if np.ndim(q) else out[0]

    return quantile


for _function, _options in (
    (np.quantile, (False, False)),
    (np.percentile, (False, True)),
    (np.nanquantile, (True, False)),
    (np.nanpercentile, (True, True)),
):
    composite(_function)(_quantile(_function, *_options))


# --- sets: of equal elements the first gets the gradient


def _unique_places(a, *, axis, equal_nan):
    """Return the places of the unique elements, their places in the result, and their counts."""
    return np.unique(a, True, True, True, axis, equal_nan=equal_nan)[1:]


_unique = Op(_unique_places, "a", (None,), "np.unique", kind="search")


@composite(np.unique)
def unique(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
    sorted=True,
):
    """Gather the sorted unique elements."""
    ar = as_array(ar)
    index, inverse, counts = _unique(ar, axis=axis, equal_nan=equal_nan)
    values = np.take(np.ravel(ar) if axis is None else ar, index, axis=axis or 0)
    extra = ((return_index, index), (return_inverse, inverse), (return_counts, counts))
    out = (values, *(array for wanted, array in extra if wanted))
    return out if len(out) > 1 else values


def _same_values(function):
    """Return the places of the values that a function such as np.unique_values finds, in the order it has them."""

    def places(a):
        found = function(a)
        values = found[0] if isinstance(found, tuple) else found
        order = np.argsort(np.ravel(a), kind="stable")
        index = order[np.minimum(np.searchsorted(np.ravel(a), values, sorter=order), order.size - 1)]
        return (index, *(found[1:] if isinstance(found, tuple) else ()))

    return Op(places, "a", (None,), f"np.{function.__name__}", kind="search")


def _unique_of_standard(function):
    op = _same_values(function)

    def unique_of_standard(x, /):
        index, *rest = op(x)
        values = np.ravel(x)[index]
        return type(function(np.zeros(1)))(values, *rest) if rest else values

    return unique_of_standard


for _function in (np.unique_values, np.unique_counts, np.unique_inverse, np.unique_all):
    composite(_function)(_unique_of_standard(_function))


@composite(np.union1d)
def union1d(ar1, ar2):
    """The sorted unique elements of both."""
    return np.unique(np.concatenate([np.ravel(ar1), np.ravel(ar2)]))


_common = Op(
    lambda ar1, ar2, *, assume_unique: np.intersect1d(ar1, ar2, assume_unique, return_indices=True)[1:],
    "ar1 ar2",
    (None, None),
    "np.intersect1d",
    kind="search",
)


@composite(np.intersect1d)
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    """The sorted elements of the first that the second has too."""
    first, second = _common(ar1, ar2, assume_unique=assume_unique)
    values = np.ravel(ar1)[first]
    return (values, first, second) if return_indices else values


define(np.isin, "element test_elements", None, None)


@composite(np.setdiff1d)
def setdiff1d(ar1, ar2, assume_unique=False):
    """The elements of the first that the second has not."""
    ar1 = np.ravel(ar1) if assume_unique else np.unique(ar1)
    return ar1[np.isin(ar1, ar2, invert=True)]


@composite(np.setxor1d)
def setxor1d(ar1, ar2, assume_unique=False):
    """The sorted elements that only one of the two has."""
    both = np.sort(np.concatenate([np.ravel(x) if assume_unique else np.unique(x) for x in (ar1, ar2)]))
    new = np.not_equal(both[1:], both[:-1])
    return both[np.concatenate([[True], new]) & np.concatenate([new, [True]])] if both.size else both
