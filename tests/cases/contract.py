"""Rows for minigrad/rules/contract.py."""

import numpy as np

from cases import call, real, row


def pairs(*shapes, **keywords):
    """Return calls with two arrays of these shapes."""
    return [call(real(*a), real(*b), **keywords) for a, b in shapes]


MATMUL = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 2, 3), (3, 4)),
    ((2, 3), (2, 3, 4)),
    ((2, 1, 2, 3), (4, 3, 2)),
    ((3,), (2, 3, 4)),
    ((2, 2, 3), (3,)),
    ((3, 3), (3, 3)),
    ((1, 3), (3, 1)),
    ((2, 0), (0, 3)),
]
KINDS = {"analytic": True, "complex": True}

ROWS = [
    row(np.matmul, pairs(*MATMUL), call(real(2, 3), np.ones((3, 2))), **KINDS),
    row(np.linalg.matmul, pairs(*MATMUL[:1], *MATMUL[4:7]), **KINDS),
    row(
        np.dot,
        pairs(*MATMUL[:5], ((2, 3), (2, 3, 4)), ((3,), (2, 3, 4)), ((2, 2, 3), (2, 3, 2)), ((2, 2, 3), (3,))),
        pairs(((), (2, 3)), ((2,), ()), ((), ())),
        call(real(2, 3), [1.0, 2.0, 3.0]),
        exact=False,
        **KINDS,
    ),
    row(
        np.inner,
        pairs(((3,), (3,)), ((2, 3), (4, 3)), ((2, 3), (3,)), ((2, 1, 3), (2, 3)), ((), (2,))),
        exact=False,
        **KINDS,
    ),
    row(np.vdot, pairs(((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (6,))), complex=True, exact=False),
    row(np.outer, pairs(((3,), (2,)), ((2, 2), (3,)), ((), (2,))), **KINDS),
    row(np.linalg.outer, pairs(((3,), (2,))), **KINDS),
    row(
        np.tensordot,
        pairs(((2, 3, 4), (3, 4, 5))),
        pairs(((2, 3), (3, 4)), axes=1),
        pairs(((2,), (3,)), axes=0),
        pairs(((2, 3, 4), (4, 5, 3)), axes=([2, 1], [0, 2])),
        pairs(((2, 3), (3, 4)), axes=[[-1], [0]]),
        pairs(((3, 2), (3,)), axes=(0, 0)),
        pairs(((2, 2), (2, 2)), axes=((0, 1), (1, 0))),
        exact=False,
        **KINDS,
    ),
    row(np.linalg.tensordot, pairs(((2, 3), (3, 4)), axes=1), exact=False, **KINDS),
    row(
        np.vecdot,
        pairs(((3,), (3,)), ((2, 3), (2, 3)), ((2, 1, 3), (4, 3))),
        pairs(((3, 2), (3, 2)), axis=0),
        complex=True,
        exact=False,
    ),
    row(np.linalg.vecdot, pairs(((2, 3), (3,))), pairs(((3, 2), (3, 2)), axis=0), complex=True, exact=False),
    row("matvec", pairs(((2, 3), (3,)), ((4, 2, 3), (3,)), ((2, 3), (5, 3))), exact=False, **KINDS),
    row("vecmat", pairs(((3,), (3, 2)), ((4, 3), (3, 2)), ((3,), (5, 3, 2))), exact=False, complex=True),
    row(
        np.kron,
        pairs(((2, 2), (2, 3)), ((3,), (2,)), ((2,), (2, 2)), ((2, 1, 2), (2, 2)), ((), (2,))),
        **KINDS,
    ),
    row(
        np.cross,
        pairs(((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 3))),
        pairs(((3, 2), (3, 2)), axis=0),
        pairs(((3, 2), (2, 3)), axisa=0, axisc=0),
        exact=False,
        **KINDS,
    ),
    row(np.linalg.cross, pairs(((2, 3), (2, 3))), pairs(((3, 2), (3, 2)), axis=0), **KINDS),
]
