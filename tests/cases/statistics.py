"""Rows for minigrad/rules/statistics.py."""

import numpy as np

from cases import call, positive, real, row

EDGES = np.array([-2.5, -1.0, 0.05, 1.02, 2.5])

ROWS = [
    row(
        np.average,
        call(real(4)),
        call(real(2, 3), axis=0),
        call(real(2, 3), weights=positive(2, 3)),
        call(real(2, 3), axis=1, weights=positive(3)),
        call(real(2, 3), axis=1, weights=positive(2, 3), keepdims=True),
        call(real(2, 3, 4), axis=(2, 0), weights=positive(4, 2)),
        call(real(2, 3), axis=0, weights=positive(2), returned=True),
        call(real(2, 3), axis=0, returned=True),
        analytic=True,
        complex=True,
    ),
    row(
        np.cov,
        call(real(3, 5)),
        call(real(4)),
        call(real(2, 5), real(5)),
        call(real(5, 2), rowvar=False, bias=True),
        call(real(2, 5), fweights=np.array([1, 2, 1, 1, 3])),
        call(real(2, 5), aweights=positive(5)),
        call(real(2, 5), fweights=np.array([1, 2, 1, 1, 3]), aweights=positive(5), ddof=0),
        complex=True,
        exact=False,
    ),
    row(np.corrcoef, call(real(3, 5)), call(real(2, 5), real(5)), exact=False),
    row(
        np.bincount,
        call(np.array([0, 2, 2, 1]), weights=real(4)),
        call(np.array([0, 1, 1]), real(3), 5),
    ),
    row(
        np.histogram,
        call(real(6), EDGES),
        call(real(6), bins=4, range=(-3, 3)),
        call(np.array([-2.0, 0.0, 0.5, 1.5]), EDGES, weights=real(4)),
        call(np.array([-2.0, 0.0, 0.5, 1.5]), 3, weights=real(4), density=True),
        exact=False,
    ),
    row(np.histogram_bin_edges, call(real(6), EDGES), call(real(6), 4, (-3, 3))),
]
