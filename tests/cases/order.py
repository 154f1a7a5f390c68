"""Rows for minigrad/rules/order.py."""

import numpy as np

from cases import call, real, row
from cases.reduce import with_holes

ONE_AXIS = [call(real(5)), call(real(3, 4)), call(real(3, 4), axis=0), call(real(2, 3), axis=None)]
METHODS = [
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]
MANY = [
    call(real(7)),
    call(real(4)),
    call(real(3, 4), axis=0),
    call(real(3, 4), axis=-1, keepdims=True),
    call(real(2, 3, 2), axis=(0, -1)),
    call(real(3, 2), axis=1, out=None),
]


def quantiles(scale):
    """Return calls of np.quantile (scale 1) or np.percentile (100)."""
    return [
        call(real(5), 0.3 * scale),
        call(real(3, 4), 0.8 * scale, axis=0),
        call(real(3, 4), [0.1 * scale, 0.5 * scale], axis=-1, keepdims=True),
        call(real(2, 3, 2), np.array([0.0, 1 * scale, 0.6 * scale]), axis=(0, 2)),
        *[call(real(2, 5), 0.37 * scale, axis=1, method=method) for method in METHODS],
    ]


ROWS = [
    row(np.sort, ONE_AXIS, call(real(4), kind="stable"), complex=True),
    row(np.sort_complex, call(real(5)), call(real(2, 3)), complex=True),
    row(np.partition, [call(real(6), 2), call(real(3, 4), 1, axis=0), call(real(2, 3), (1, 3), axis=None)]),
    row(np.argsort, ONE_AXIS),
    row(np.argpartition, call(real(6), 2)),
    row(np.searchsorted, call(np.array([-1.0, 0.0, 1.0]), real(4)), call(real(1), real(3), side="right")),
    row(np.digitize, call(real(4), np.array([-1.0, 0.0, 1.0]))),
    row(np.lexsort, call((real(4), real(4))), call((real(2, 3), real(2, 3)), axis=0)),
    row(np.median, MANY),
    row(np.nanmedian, MANY, call(real(3, 3)), through=with_holes(np.nanmedian)),
    row(np.quantile, quantiles(1), call(real(2, 3), np.array([[0.1], [0.7]])), exact=False),
    row(np.percentile, quantiles(100), exact=False),
    row(np.nanquantile, quantiles(1), through=with_holes(np.nanquantile), exact=False),
    row(np.nanpercentile, quantiles(100), through=with_holes(np.nanpercentile), exact=False),
    row(
        np.unique,
        call(real(5)),
        call(real(2, 3), return_index=True, return_inverse=True, return_counts=True),
        call(real(3, 2), axis=0),
        complex=True,
    ),
    *[
        row(f, call(real(2, 3)))
        for f in (np.unique_values, np.unique_counts, np.unique_inverse, np.unique_all)
    ],
    row(np.union1d, call(real(3), real(2, 2))),
    row(
        np.intersect1d,
        call(real(4)),
        call(real(4), return_indices=True),
        through=lambda x, **kwargs: np.intersect1d(x, x[1:3], **kwargs),
    ),
    row(np.setdiff1d, call(real(4)), through=lambda x: np.setdiff1d(x, x[1:3])),
    row(np.setxor1d, call(real(4), real(3)), through=lambda x, y: np.setxor1d(x, np.append(x[1:3], y))),
    row(np.isin, call(real(4), real(3)), call(real(2, 2), np.array([1.0]))),
]
