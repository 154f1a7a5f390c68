"""Rows for minigrad/rules/layout.py."""

import numpy as np

from cases import call, real, row


def assigned_diagonal(a, values, **keywords):
    """np.fill_diagonal works in place."""
    a = a * 1.0
    np.fill_diagonal(a, values, **keywords)
    return a


ROWS = [
    row(
        np.reshape,
        call(real(2, 3), (3, 2)),
        call(real(2, 3), -1),
        call(real(2, 3), (3, -1), order="F"),
        call(real(2, 3), (1, 6), "F"),
        call(real(), (1, 1)),
        analytic=True,
        complex=True,
    ),
    row(
        np.ravel,
        [call(real(2, 3)), call(real()), call(real(2, 3), "F")],
        [call(real(2, 3, 2), order=order) for order in "CF"],
        analytic=True,
        complex=True,
    ),
    row(
        np.transpose,
        call(real(2, 3)),
        call(real(2, 3, 4), (1, 2, 0)),
        call(real(2, 3, 4), axes=(-1, 0, 1)),
        call(real(2)),
        analytic=True,
        complex=True,
    ),
    row(np.matrix_transpose, call(real(2, 3)), call(real(2, 3, 4)), analytic=True),
    row(np.swapaxes, call(real(2, 3, 4), 0, -1), call(real(2, 3), 1, 1), analytic=True),
    row(
        np.moveaxis,
        call(real(2, 3, 4), 0, -1),
        call(real(2, 3, 4), (0, 1), (-1, 0)),
        call(real(2, 3, 4), [-1], [0]),
        analytic=True,
    ),
    row(np.rollaxis, call(real(2, 3, 4), 2), call(real(2, 3, 4), 0, 3), call(real(2, 3, 4), -1, 1)),
    row(np.squeeze, call(real(1, 3, 1)), call(real(1, 3, 1), axis=-1), call(real(1, 1)), analytic=True),
    row(np.expand_dims, call(real(2, 3), 0), call(real(2, 3), (0, -1)), call(real(), axis=0), analytic=True),
    row(
        np.broadcast_to,
        call(real(3), (2, 3)),
        call(real(2, 1), (4, 2, 3)),
        call(real(), (2, 2)),
        call(real(3), (3,)),
        call(real(1), (0,)),
        analytic=True,
        complex=True,
    ),
    row(np.broadcast_arrays, call(real(3), real(2, 1)), call(real(), real(2)), analytic=True),
    row(np.copy, call(real(2, 3)), call(real()), call(real(2, 3), order="F"), analytic=True, complex=True),
    row("astype", call(real(2, 3), np.float64), call(real(2), np.complex128), call(real(2), np.int64)),
    *[
        row(
            f,
            call(real(2, 3)),
            call(real(3)),
            call(real()),
            call(real(2, 2, 2)),
            call(real(2), real()),
            analytic=True,
        )
        for f in (np.atleast_1d, np.atleast_2d, np.atleast_3d)
    ],
    row(
        np.flip,
        call(real(2, 3)),
        call(real(2, 3), 0),
        call(real(2, 3, 2), (0, -1)),
        call(real(3)),
        analytic=True,
    ),
    row(np.fliplr, call(real(2, 3))),
    row(np.flipud, call(real(2, 3)), call(real(3))),
    row(np.rot90, [call(real(2, 3), k) for k in range(-1, 4)], call(real(2, 3, 4), 1, (2, 0)), analytic=True),
    row(
        np.roll,
        call(real(5), 2),
        call(real(2, 3), -1),
        call(real(2, 3), 1, axis=1),
        call(real(2, 3), (1, -2), axis=(0, 1)),
        call(real(2, 3), np.array([1, 4]), axis=(1, 1)),
        analytic=True,
        complex=True,
    ),
    row(
        np.repeat,
        call(real(3), 2),
        call(real(2, 3), 2),
        call(real(2, 3), 3, axis=-1),
        call(real(3), [0, 3, 1]),
        call(real(2, 3), np.array([2, 1]), axis=0),
        call(real(3), [2]),
        call(real(), 3),
        call(real(3), 0),
        analytic=True,
        complex=True,
    ),
    row(
        np.tile,
        call(real(3), 2),
        call(real(3), (2, 2)),
        call(real(2, 3), (2, 1)),
        call(real(2, 3, 2), 2),
        call(real(), (2, 2)),
        call(real(3), 0),
        analytic=True,
        complex=True,
    ),
    *[
        row(
            f,
            call(real(3, 3)),
            call(real(2, 4), 1),
            call(real(4, 2), k=-2),
            call(real(2, 3, 3)),
            analytic=True,
        )
        for f in (np.tril, np.triu)
    ],
    row(
        np.diagonal,
        call(real(3, 3)),
        call(real(2, 4), 1),
        call(real(4, 2), offset=-1),
        call(real(2, 3, 2), axis1=0, axis2=2),
        call(real(2, 3, 4), 1, -1, 0),
        call(real(2, 2), 5),
        analytic=True,
        complex=True,
    ),
    row(np.linalg.diagonal, call(real(2, 3, 3)), call(real(2, 3), offset=1), call(real(3, 2), offset=-2)),
    row(
        np.trace,
        call(real(3, 3)),
        call(real(4, 2), -1),
        call(real(3, 2, 3), axis1=0, axis2=2),
        call(real(2, 2), dtype=np.complex128),
        exact=False,
    ),
    row(np.linalg.trace, call(real(2, 3, 3)), call(real(2, 3), offset=1), exact=False),
    row(
        np.diag,
        call(real(3)),
        call(real(3), 1),
        call(real(2), k=-2),
        call(real(3, 3)),
        call(real(4, 3), -1),
        analytic=True,
    ),
    row(np.diagflat, call(real(3)), call(real(2, 2), 1), analytic=True),
    row(
        np.fill_diagonal,
        call(real(3, 3), real()),
        call(real(2, 4), real(2)),
        call(real(7, 3), real(2), wrap=True),
        call(real(7, 3), real(2)),
        call(real(2, 2, 2), 1.5),
        through=assigned_diagonal,
    ),
    row(np.shape, call(real(2, 3))),
    row(np.ndim, call(real(2, 3))),
    row(np.size, call(real(2, 3)), call(real(2, 3), 1)),
    row(np.iscomplexobj, call(real(2)), complex=False),
    row(np.isrealobj, call(real(2))),
    row(np.result_type, call(real(2), np.float32, 1), through=lambda *xs: np.zeros(0, np.result_type(*xs))),
    row(np.can_cast, call(real(2), np.float32), through=lambda x, t: np.can_cast(x.dtype, t)),
]
