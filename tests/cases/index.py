"""Rows for minigrad/rules/index.py. Indexing itself is in tests/test_indexing.py."""

import numpy as np

from cases import call, real, row


def in_place(function):
    """Return the function of a copy of its first argument, which it writes to; the copy is the result."""

    def written(a, *args, **kwargs):
        a = a * 1.0
        function(a, *args, **kwargs)
        return a

    return written


CHOICES = np.array([[0, 1, 2], [2, 0, 1]])
MASK = np.array([[True, False, True], [False, False, True]])

ROWS = [
    row(
        np.take,
        call(real(2, 3), [4, 0, 4]),
        call(real(2, 3), np.array([[0, 1], [1, 1]]), axis=1),
        call(real(3), 1),
        call(real(3), [-1, 5, 7], mode="wrap"),
        call(real(2, 3), [-2, 9], 1, mode="clip"),
        call(real(2, 3), [], axis=0),
        analytic=True,
        complex=True,
    ),
    row(
        np.take_along_axis,
        call(real(2, 3), np.array([[2, 2], [0, 1]]), 1),
        call(real(2, 3), np.array([[1, 0, 0]]), axis=0),
        call(real(1, 3), np.array([[0], [2], [2]]), axis=-1),
        call(real(4), np.array([3, 3, 0]), axis=None),
        analytic=True,
        complex=True,
    ),
    row(
        np.put_along_axis,
        call(real(2, 3), np.array([[2, 1], [0, 2]]), real(2, 2), 1),
        call(real(2, 3), np.array([[1, 0, 0]]), real(), axis=0),
        call(real(2, 3), np.array([4, 0]), real(), axis=None),
        through=in_place(np.put_along_axis),
        analytic=True,
        complex=True,
    ),
    row(
        np.choose,
        call(CHOICES, [real(2, 3), real(3), real()]),
        call(np.array([3, -1]), [real(2), real(2)], mode="wrap"),
        call(np.array([3, -1]), [real(2), 1.5], mode="clip"),
        analytic=True,
        complex=True,
    ),
    row(
        np.compress,
        call([True, False, True], real(3)),
        call([False, True], real(2, 3), axis=1),
        call([True, False, True], real(2, 3)),
        analytic=True,
    ),
    row(np.extract, call(MASK, real(2, 3)), analytic=True, complex=True),
    row(
        np.select,
        call([MASK, ~MASK], [real(2, 3), real(3)]),
        call([MASK, MASK], [real(2, 3), real(2, 3)], default=real()),
        call([np.array([True, False])], [real(2)], 1.5),
        analytic=True,
    ),
    row(
        np.copyto,
        call(real(2, 3), real(3)),
        call(real(2, 3), real(2, 3), where=MASK),
        call(real(3), 1.5),
        through=in_place(np.copyto),
        analytic=True,
        complex=True,
    ),
    row(
        np.put,
        call(real(2, 3), [1, 4], real(2)),
        call(real(2, 3), [1, -1, 3], real(2)),
        call(real(3), [1, 1], real(2)),
        call(real(3), [4, -4], real(2), mode="wrap"),
        call(real(3), [9, -4], real(2), mode="clip"),
        call(real(3), 1, 2.5),
        through=in_place(np.put),
        analytic=True,
        complex=True,
    ),
    row(
        np.putmask,
        call(real(2, 3), MASK, real(2, 3)),
        call(real(2, 3), MASK, real(2)),
        call(real(2, 3), MASK, 0.5),
        through=in_place(np.putmask),
        analytic=True,
    ),
    row(
        np.place,
        call(real(2, 3), MASK, real(2)),
        call(real(2, 3), MASK, [1.5]),
        through=in_place(np.place),
        analytic=True,
    ),
    *[row(f, call(real(2, 3))) for f in (np.nonzero, np.flatnonzero, np.argwhere)],
    row(
        np.lib.stride_tricks.sliding_window_view,
        call(real(5), 3),
        call(real(3, 4), (2, 2)),
        call(real(3, 4), 2, axis=0),
        call(real(3, 4), (2, 3), axis=(0, 1)),
        call(real(3, 4), (2, 2), (0, 0)),
        analytic=True,
        complex=True,
    ),
]
