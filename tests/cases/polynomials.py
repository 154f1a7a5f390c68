"""Rows for minigrad/rules/polynomials.py."""

import numpy as np

from cases import call, only, real, row

TIMES = np.array([-1.0, 0.2, 0.9, 1.7, 2.5])

ROWS = [
    row(np.polyadd, call(real(3), real(3)), call(real(2), real(4)), call(real(4), [1.0, 2.0]), analytic=True),
    row(np.polysub, call(real(3), real(3)), call(real(2), real(4)), call(real(), real(2)), analytic=True),
    row(
        np.polymul,
        call(real(3), real(3)),
        call(real(2), real(4)),
        call(real(2), [0.0, 2.0]),
        analytic=True,
        exact=False,
    ),
    # How many leading zeros of the remainder are cut off depends on the rounding.
    row(np.polydiv, call(real(4), real(2)), call(real(2), real(3)), call(real(3), real(3)), float32=None),
    row(
        np.polyval,
        call(real(3), real(2, 2)),
        call(real(3), 2.0),
        call([1.0, 2.0], real()),
        analytic=True,
        complex=True,
    ),
    row(np.polyder, call(real(4)), call(real(4), 2), call(real(3), m=0), analytic=True),
    row(
        np.polyint,
        call(real(3)),
        call(real(3), 2),
        call(real(3), 2, k=[1.0, 2.0]),
        call(real(3), k=real(1)),
        analytic=True,
    ),
    row(np.poly, call(real(3)), analytic=True, exact=False),
    row(
        np.roots,
        call([1.0, real(), real(low=-9, high=-5)]),
        through=lambda p: np.roots(np.stack(p)),
        exact=False,
    ),
    row(
        np.vander,
        call(real(3)),
        call(real(3), 5),
        call(real(4), N=2, increasing=True),
        analytic=True,
        complex=True,
    ),
    row(
        np.polyfit,
        call(TIMES, real(5), 2),
        call(only(0.5, 3.0)(5), real(5, 2), 1),
        call(TIMES, real(5), 1, w=only(0.5, 2.0)(5)),
        exact=False,
    ),
]
