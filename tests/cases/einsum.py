"""Rows for minigrad/rules/einsum.py."""

import numpy as np

from cases import call, real, row


def e(subscripts, *shapes, **keywords):
    """Return a call of np.einsum."""
    return call(subscripts, *(real(*shape) for shape in shapes), **keywords)


ROWS = [
    row(
        np.einsum,
        e("ij,jk->ik", (2, 3), (3, 4)),
        e("ij,jk", (2, 3), (3, 4)),
        e("ba", (2, 3)),
        e("ij->", (2, 3)),
        e("ij->i", (2, 3)),
        e("i,j->", (3,), (2,)),  # each summed away on its own
        e("ij,kj", (2, 3), (4, 3)),
        e("ii->", (3, 3)),  # diagonals
        e("ii", (3, 3)),
        e("iji->j", (3, 2, 3)),
        e("iij,jj->i", (2, 2, 3), (3, 3)),
        e("ijji,kji,jj->kj", (2, 2, 2, 2), (3, 2, 2), (2, 2)),
        e("nd,nn->d", (4, 2), (4, 4)),
        e("...ij,...jk->...ik", (1, 3, 4), (2, 4, 5)),  # an ellipsis, broadcast
        e("...ij,jk", (2, 3, 4), (4, 5)),
        e("...i->...", (2, 3, 4)),
        e("i...,i...->i...", (2, 3), (2, 1)),
        e("b...d,d...->b...", (2, 3, 4), (4, 3)),
        e("ij,ij->ij", (1, 3), (2, 3)),  # a letter of length 1, broadcast
        e(",ij->ij", (), (2, 3)),
        e(",->", (), ()),
        e("i,i,i->i", (3,), (3,), (3,)),
        e("i,ij,jk->k", (2,), (2, 3), (3, 2), optimize=True),
        e("i,ij,jk->k", (2,), (2, 3), (3, 2), optimize=["einsum_path", (0, 1), (0, 1)]),
        e("abc,cd,def->abef", (2, 2, 3), (3, 2), (2, 2, 2), optimize="greedy"),
        e(" ij , jk -> ik ", (2, 3), (3, 2)),
        call(real(2, 3), [0, 1], real(3, 2), [1, 2], [0, 2]),
        call(real(2, 3), [0, 1], real(3, 2), [1, 2]),
        call(real(2, 3, 3), [..., 0, 0], [..., 0]),
        call("ij,jk->ik", real(2, 3), np.ones((3, 2))),
        analytic=True,
        complex=True,
    ),
    row(
        np.einsum_path,
        call("ij,jk,kl->il", real(2, 3), real(3, 4), real(4, 2)),
        through=lambda *a: len(np.einsum_path(*a)[1]),
    ),
]
