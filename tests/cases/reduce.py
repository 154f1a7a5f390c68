"""Rows for minigrad/rules/reduce.py."""

import numpy as np

from cases import call, real, row

MASK = np.array([[True, False, True], [False, True, True]])
# Whatever the reduction: all axes, one, several, none of them, dimensions kept, and a scalar.
AXES = [
    call(real(2, 3)),
    call(real(2, 3), axis=0),
    call(real(2, 3), axis=-1, keepdims=True),
    call(real(2, 3, 2), (0, 2)),
    call(real(2, 3, 2), axis=(1, -1), keepdims=True),
    call(real(2, 3), axis=()),
    call(real()),
]
ONE_AXIS = [call(real(2, 3)), call(real(4)), call(real(2, 3), axis=0), call(real(2, 3, 2), -2)]


def holes(x):
    return np.sum(np.indices(x.shape), axis=0) % 3 == 1


def with_holes(function):
    """Return the function of an array in which some elements have become NaN."""
    return lambda x, *args, **kwargs: function(np.where(holes(x), np.nan, x), *args, **kwargs)


NAN = [
    call(real(2, 3)),
    call(real(2, 3), axis=0),
    call(real(2, 3), axis=-1, keepdims=True),
    call(real(2, 3), (0, 1)),
]

ROWS = [
    row(
        np.sum,
        AXES,
        call(real(2, 3), where=MASK),
        call(real(2, 3), axis=0, where=MASK, initial=2.0, keepdims=True),
        call(real(2, 3), where=np.array([True, False, True])),
        analytic=True,
        complex=True,
    ),
    row(
        np.mean,
        AXES,
        call(real(2, 3), where=MASK),
        call(real(2, 3), axis=1, where=MASK, keepdims=True),
        analytic=True,
        complex=True,
    ),
    *[
        row(
            f,
            AXES,
            call(real(2, 3), where=MASK, initial=value),
            call(real(2, 3), axis=1, initial=0.0),
        )
        for f, value in ((np.max, -9.0), (np.amax, -9.0), (np.min, 9.0), (np.amin, 9.0))
    ],
    row(
        np.prod,
        AXES,
        call(real(2, 3), where=MASK),
        call(real(2, 3), axis=0, where=MASK, initial=2.0),
        call(real(4), initial=3.0),
        analytic=True,
        complex=True,
    ),
    row(
        np.var,
        AXES[:5],
        call(real(4, 3), axis=0, ddof=1),
        call(real(4, 3), axis=0, correction=2),
        call(real(2, 3), axis=1, where=MASK),
        call(real(2, 3), axis=1, where=MASK, ddof=1),
        call(real(2, 3), axis=1, mean=real(2, 1), keepdims=True),
        call(real(2, 3), mean=np.array([[0.5]]), ddof=1),
        complex=True,
    ),
    row(
        np.std,
        AXES[:5],
        call(real(4, 3), axis=0, ddof=1),
        call(real(4, 3), axis=0, correction=2),
        call(real(2, 3), axis=1, where=MASK),
        call(real(2, 3), axis=1, mean=real(2, 1)),
        complex=True,
    ),
    row(np.any, AXES),
    row(np.all, AXES, call(real(2, 3), where=MASK)),
    *[row(f, ONE_AXIS, call(real(2, 3), axis=1, keepdims=True)) for f in (np.argmax, np.argmin)],
    row(np.count_nonzero, ONE_AXIS),
    row(np.ptp, AXES[:5], call(real(2, 3), 0, None, True)),
    row(np.cumsum, ONE_AXIS, analytic=True, complex=True),
    row(np.cumprod, ONE_AXIS, analytic=True, complex=True),
    row(
        "cumulative_sum",
        call(real(4)),
        call(real(2, 3), axis=0),
        call(real(2, 3), axis=1, include_initial=True),
        analytic=True,
        complex=True,
    ),
    row(
        "cumulative_prod",
        call(real(4)),
        call(real(2, 3), axis=0),
        call(real(2, 3), axis=1, include_initial=True),
        analytic=True,
        complex=True,
    ),
    row(np.nansum, NAN, through=with_holes(np.nansum)),
    row(np.nanprod, NAN, through=with_holes(np.nanprod)),
    row(np.nanmean, NAN, through=with_holes(np.nanmean), exact=False),
    row(np.nanvar, NAN, through=with_holes(np.nanvar), exact=False),
    row(np.nanstd, NAN, through=with_holes(np.nanstd), exact=False),
    row(np.nanmax, NAN, through=with_holes(np.nanmax)),
    row(np.nanmin, NAN, through=with_holes(np.nanmin)),
    row(np.nancumsum, call(real(2, 3)), call(real(2, 3), axis=1), through=with_holes(np.nancumsum)),
    row(np.nancumprod, call(real(2, 3)), call(real(2, 3), axis=1), through=with_holes(np.nancumprod)),
    row(np.nanargmax, call(real(2, 3)), call(real(2, 3), axis=1), through=with_holes(np.nanargmax)),
    row(np.nanargmin, call(real(2, 3)), call(real(2, 3), axis=1), through=with_holes(np.nanargmin)),
]
