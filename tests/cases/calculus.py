"""Rows for minigrad/rules/calculus.py."""

import numpy as np

from cases import call, real, row

rising = np.array([0.003, 0.706, 1.113, 2.404, 3.002])


ROWS = [
    row(
        np.diff,
        call(real(5)),
        call(real(2, 4), n=2),
        call(real(3, 2), axis=0),
        call(real(3), prepend=real(), append=real(2)),
        call(real(2, 3), prepend=0.0),
        call(real(3), n=0),
        analytic=True,
        complex=True,
    ),
    row(np.ediff1d, call(real(2, 3)), call(real(4), to_end=real(2), to_begin=real()), analytic=True),
    row(
        np.gradient,
        call(real(5)),
        call(real(5), edge_order=2),
        call(real(5), 0.5),
        call(real(3, 4)),
        call(real(3, 4), 0.5, rising[:4], edge_order=2),
        call(real(5), rising),
        call(real(3, 5), rising, axis=1, edge_order=2),
        call(real(3, 4), axis=(1, 0)),
        call(real(3, 4), 2.0, axis=-1),
        exact=False,
        analytic=True,
        complex=True,
    ),
    row(
        np.trapezoid,
        call(real(5)),
        call(real(2, 4), dx=0.5),
        call(real(4, 2), axis=0),
        call(real(2, 4), real(4)),
        call(real(2, 4), x=real(2, 4)),
        call(real(4, 2), real(4), axis=0),
        analytic=True,
        complex=True,
    ),
    row(np.unwrap, call(real(7, low=-9, high=9)), call(real(2, 5, low=-9, high=9), axis=0, period=3.0)),
    row(
        np.interp,
        call(real(6, low=-0.4, high=3.4), rising, real(5)),
        call(real(2, 3, low=0.1, high=2.9), rising, real(5), left=-1.0, right=2.0),
        call(real(), rising, real(5)),
        call(real(6, low=-9, high=9), rising, real(5), period=3.5),
        call(real(3), np.array([0.5]), real(1)),
        call(real(4, low=0.1, high=0.9), [real(1, low=-1, high=-0.5), real(1, low=1, high=2)], real(2)),
        through=lambda x, xp, fp, **keywords: np.interp(
            x, np.concatenate(xp) if isinstance(xp, list) else xp, fp, **keywords
        ),
        exact=False,
    ),
    row(
        np.convolve,
        call(real(5), real(3)),
        call(real(3), real(5), "same"),
        call(real(5), real(2), mode="same"),
        call(real(5), real(3), mode="valid"),
        call(real(2), real(5), mode="valid"),
        call(real(4), np.array([1.0, 2.0])),
        analytic=True,
        complex=True,
    ),
    row(
        np.correlate,
        [
            call(real(n), real(m), mode)
            for n, m in ((5, 3), (3, 5), (4, 4), (2, 4), (4, 1))
            for mode in ("full", "same", "valid")
        ],
        call(real(5), real(3)),
        complex=True,
        exact=False,
    ),
]
