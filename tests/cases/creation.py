"""Rows for minigrad/rules/creation.py."""

import numpy as np

from cases import call, only, positive, real, row


def filled(x):
    """Assign to every element."""
    x[...] = 1.0
    return x


ROWS = [
    *[
        row(f, call(real(2, 3)), call(real(2, 3), dtype=np.float32, shape=(3,)), call(real()))
        for f in (np.zeros_like, np.ones_like)
    ],
    # What it holds is undefined, so its elements are assigned before they are looked at.
    row(
        np.empty_like,
        call(real(2, 3)),
        call(real(3), shape=(2,)),
        through=lambda x, **k: filled(np.empty_like(x, **k)),
    ),
    row(
        np.full_like,
        call(real(2, 3), 1.5),
        call(real(2, 3), real()),
        call(real(2), real(3, 1), shape=(3, 2)),
        call(real(2), 1.0, dtype=np.float32),
    ),
    row(
        np.linspace,
        call(real(), real(), 5),
        call(real(3), real(3), 4),
        call(real(2, 1), real(3), 4, axis=-1),
        call(0.0, real(2), num=5, endpoint=False),
        call(real(), 2.0, 4, retstep=True),
        call(real(), real(), 1),
        call(real(), real(), 0),
        analytic=True,
        exact=False,
    ),
    row(
        np.logspace,
        call(real(), real(), 5),
        call(real(3), real(3), 4, base=2.0),
        call(real(), real(), 4, base=positive()),
        call(real(2), 1.0, 4, base=positive(2), axis=1),
        exact=False,
    ),
    row(
        np.geomspace,
        call(positive(), positive(), 5),
        call(positive(3), 2.0, 4, axis=-1),
        call(only(-3, -2)(), only(-1, -0.5)(), 4, endpoint=False),
        call(positive(), positive(), 1),
        exact=False,
    ),
    row(
        np.meshgrid,
        call(real(3), real(2)),
        call(real(3), real(2), real(4), indexing="ij"),
        call(real(3), real(2), sparse=True, copy=False),
        call(real(3)),
        call(real(), real(2)),
        analytic=True,
        complex=True,
    ),
    row(np.ix_, call(real(3), real(2)), call(real(3))),
    *[row(f, call(real(3, 3)), call(real(2, 4), k=1)) for f in (np.tril_indices_from, np.triu_indices_from)],
    row(np.diag_indices_from, call(real(3, 3))),
]
