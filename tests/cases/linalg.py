"""Rows for minigrad/rules/linalg.py, determinant.py and factor.py."""

import numpy as np

from cases import call, real, row

inf = np.inf
la = np.linalg


def apart(x):
    """Add a diagonal that keeps the matrix regular and its eigenvalues apart; NumPy broadcasts it over a stack."""
    n, m = x.shape[-2:]
    return x + np.eye(n, m) * (5 + 4 * np.arange(m)).astype(x.dtype)


def on_apart(function):
    """Call a function of a matrix with one that is far from singular."""
    return lambda a, *args, **kwargs: function(apart(a), *args, **kwargs)


def invariant(v):
    """Return what of vectors in columns does not depend on their signs or phases."""
    return np.abs(v), v[..., :, :1] @ np.conj(np.swapaxes(v[..., :, :1], -1, -2))


def eigh(a, *args):
    w, v = la.eigh(apart(a), *args)
    return w, *invariant(v)


def eig(a):
    w, v = la.eig(apart(a))
    return w, np.abs(v), v @ (w[..., :, None] ** 2 * la.inv(v))


def svd(a, hermitian=False, **kwargs):
    """Return singular values, and of the vectors what does not depend on their phases or on how they are completed."""
    a = apart(a)
    a = a + np.conj(np.swapaxes(a, -1, -2)) if hermitian else a
    if not kwargs.get("compute_uv", True):
        return la.svd(a, hermitian=hermitian, **kwargs)
    u, s, vh = la.svd(a, hermitian=hermitian, **kwargs)
    n = s.shape[-1]
    return np.abs(u[..., :n]), s, np.abs(vh[..., :n, :]), u[..., :, :1] @ vh[..., :1, :]


square = [call(real(3, 3)), call(real(2, 3, 3)), call(real(1, 1))]
oblong = [call(real(3, 3)), call(real(4, 2)), call(real(2, 4)), call(real(2, 4, 3)), call(real(2, 3, 4))]
vector_orders = [1, 2, 3, 2.5, 0.5, -1, -2, inf, -inf]
matrix_orders = [None, "fro", "nuc", 1, -1, 2, -2, inf, -inf]

ROWS = [
    row(
        la.norm,
        call(real(4)),
        call(real(2, 3)),
        call(real(2, 3, 4), keepdims=True),
        call(real()),
        [call(real(4), p) for p in vector_orders],
        [call(real(2, 3), p, axis=1) for p in vector_orders],
        [call(real(2, 3, 2), p, axis=-2, keepdims=True) for p in vector_orders],
        [call(real(3, 4), p) for p in matrix_orders],
        [call(real(3, 2, 4), p, (2, 0)) for p in matrix_orders],
        [call(real(3, 2, 4), p, (0, -1), True) for p in matrix_orders],
        call(real(4), 0),
        complex=True,
        float32=1e-3,
    ),
    row(
        la.matrix_norm,
        call(real(2, 3, 4)),
        [call(real(3, 4), ord=p, keepdims=True) for p in matrix_orders[1:]],
        complex=True,
    ),
    row(
        la.vector_norm,
        call(real(2, 3)),
        [call(real(2, 3), ord=p, axis=0) for p in vector_orders],
        [call(real(2, 3, 2), ord=p, axis=(0, -1), keepdims=True) for p in vector_orders],
        complex=True,
        exact=False,  # NumPy sums over several axes in the order in which they lie in memory
        float32=1e-3,
    ),
    row(
        la.cond,
        square[:2],
        [call(real(3, 3), p) for p in matrix_orders],
        [call(real(2, 3, 3), p) for p in matrix_orders],
        call(real(4, 2)),
        through=on_apart(la.cond),
        complex=True,
        exact=False,
        float32=1e-3,
    ),
    # inverses and linear systems
    row(la.inv, square, through=on_apart(la.inv), analytic=True, complex=True),
    row(
        la.solve,
        call(real(3, 3), real(3)),
        call(real(3, 3), real(3, 2)),
        call(real(2, 3, 3), real(3)),
        call(real(3, 3), real(2, 3, 2)),
        call(real(4, 1, 3, 3), real(2, 3, 2)),
        call(real(3, 3), np.eye(3)),
        call(np.arange(9.0).reshape(3, 3), real(3)),
        through=on_apart(la.solve),
        analytic=True,
        complex=True,
    ),
    row(
        la.pinv,
        oblong,
        call(real(3, 3), hermitian=True),
        call(real(4, 2), 1e-3),
        call(real(4, 2), rtol=1e-3),
        through=on_apart(la.pinv),
        complex=True,
    ),
    row(
        la.lstsq,
        [call(real(m, n), real(m, 2)) for m, n in ((3, 3), (4, 2), (2, 4))],
        call(real(4, 2), real(4)),
        call(real(2, 4), real(2)),
        call(real(4, 2), real(4, 1), rcond=1e-3),
        call(real(4, 2), real(4, 1), rcond=-1),
        through=on_apart(la.lstsq),
        complex=True,
    ),
    row(
        la.tensorinv,
        call(real(2, 3, 6)),
        call(real(6, 2, 3), ind=1),
        through=lambda a, ind=2: la.tensorinv(np.reshape(apart(np.reshape(a, (6, 6))), a.shape), ind),
        analytic=True,
        complex=True,
    ),
    row(
        la.tensorsolve,
        call(real(2, 3, 6), real(2, 3)),
        call(real(2, 6, 3), real(6), axes=(0, 2)),
        through=lambda a, b, axes=None: la.tensorsolve(
            a + 9 * (np.arange(36).reshape(a.shape) % 7 == 0), b, axes
        ),
        complex=True,
    ),
    row(
        la.matrix_power,
        [call(real(3, 3), n) for n in (-3, -1, 0, 1, 2, 3, 4)],
        call(real(2, 2, 2), 3),
        complex=True,
        float32=1e-3,
        exact=False,
    ),
    row(
        la.multi_dot,
        call([real(3), real(3, 4), real(4, 2), real(2)]),
        call([real(3, 2), real(2, 4), real(4, 2)]),
        call([real(2, 3), real(3, 1), real(1, 4), real(4)]),
        call([real(3), real(3)]),
        call([real(2, 3), np.eye(3), real(3, 2)]),
        analytic=True,
        complex=True,
    ),
    row(la.matrix_transpose, call(real(2, 3)), call(real(2, 3, 4)), analytic=True, complex=True),
    row(la.matrix_rank, call(real(3, 4)), call(real(2, 3, 3), 0.1)),
    # determinants
    row(la.det, square, call(real(4, 4)), call(real(2, 2)), complex=True, analytic=True),
    row(la.slogdet, square, call(real(4, 4)), complex=True),
    # factorisations
    row(
        la.cholesky,
        square,
        call(real(3, 3), upper=True),
        call(real(2, 3, 3), upper=True),
        through=on_apart(la.cholesky),
        complex=True,
    ),
    row(
        la.qr,
        oblong,
        [call(real(m, n), mode="r") for m, n in ((3, 3), (4, 2), (2, 4))],
        through=on_apart(la.qr),
        complex=True,
    ),
    row(la.eigh, square, call(real(3, 3), "U"), through=eigh, complex=True),
    row(la.eigvalsh, square, call(real(3, 3), "U"), through=on_apart(la.eigvalsh), complex=True),
    row(la.eig, square, through=eig, complex=True),
    row(la.eigvals, square, through=on_apart(la.eigvals), complex=True, exact=False),
    row(
        la.svd,
        oblong,
        [call(real(m, n), full_matrices=False) for m, n in ((3, 3), (4, 2), (2, 4))],
        [call(real(m, n), compute_uv=False) for m, n in ((3, 3), (4, 2), (2, 4))],
        call(real(3, 3), hermitian=True),
        call(real(3, 3), hermitian=True, compute_uv=False),
        through=svd,
        complex=True,
    ),
    row(la.svdvals, oblong, through=on_apart(la.svdvals), complex=True),
]
