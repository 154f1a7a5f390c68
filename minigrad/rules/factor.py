"""Matrix factorisations: Cholesky, QR, eigenvalues and eigenvectors, singular values and vectors.

Giles 2008, "Collected matrix derivative results"; Murray 2016, arXiv:1602.07527 (Cholesky); Walter & Lehmann 2010,
arXiv:1001.1654 (QR, eigenvectors); Boeddeker et al. 2017, arXiv:1701.00392 and Wan & Zhang 2019, arXiv:1909.02659
(complex). Two conventions:

Where NumPy reads one triangle of a matrix (cholesky, eigh, eigvalsh, hermitian=True) the gradient is on that triangle,
as finite differences see it. For the gradient among Hermitian matrices, symmetrise it: (g + g^H) / 2.

Eigenvectors (singular vectors) that belong to equal values are not determined, and the derivative of one towards
another is infinite. Such pairs contribute 0: gradients stay finite, and are right for a loss that uses the values only.
"""

from functools import partial

import numpy as np

from minigrad.errors import UnsupportedError
from minigrad.op import Op, composite, define
from minigrad.require import require
from minigrad.rules.linalg import adjointed, column, lower_half, on_triangle, tolerance, transposed
from minigrad.shapes import shape_of


def diagonal(x):
    """Return the diagonal of matrices."""
    return np.diagonal(x, axis1=-2, axis2=-1)


def diagonal_matrix(x):
    """Return matrices with x on the diagonal."""
    return column(x) * np.eye(shape_of(x)[-1], dtype=x.dtype)


def inverse_or_zero(x, scale):
    """Return 1 / x, and 0 where x is 0 but for rounding."""
    zero = np.abs(x) <= float(np.finfo(x.dtype).eps) * 10 * shape_of(x)[-1] * scale
    return np.where(zero, 0, 1 / np.where(zero, 1, x))


def inverse_gaps(w):
    """Return 1 / (w_j - w_i), and 0 for a tied pair."""
    return inverse_or_zero(w[..., None, :] - column(w), np.max(np.abs(w), axis=-1, initial=0)[..., None, None])


PHASES = {
    name: partial(
        UnsupportedError,
        f"the loss depends on the phases of the complex vectors of {name}, which are arbitrary, so that it has "
        "no gradient: use what does not change when a vector is multiplied by exp(i t), such as np.abs(v) or "
        "v @ diag(f(w)) @ v^H",
    )
    for name in ("np.linalg.eigh", "np.linalg.eig", "np.linalg.svd")
}


def refuse_phase(k, name):
    """Raise if the loss depends on the phase of complex eigenvectors, which is arbitrary: `k` is v^T g."""
    if k.dtype.kind == "c":
        turned = np.max(np.abs(np.imag(diagonal(k))), initial=0)
        bound = float(np.finfo(k.dtype).eps) ** 0.5 * np.max(np.abs(k), initial=0)
        require(~np.greater(turned, bound), PHASES[name])


# --- Cholesky and QR


def cholesky_adjoint(g, out, upper):
    """l^-T lower_half(l^T g) conj(l)^-1."""
    l, g = (adjointed(out), adjointed(g)) if upper else (out, g)
    inverse = np.linalg.inv(l)
    return on_triangle(transposed(inverse) @ lower_half(transposed(l) @ g) @ np.conj(inverse), upper)


define(np.linalg.cholesky, "a", cholesky_adjoint)


def qr_adjoint(g, out):
    """(g_q + conj(q) (lower_half(k - k^H) - k)) r^-T with k = q^T g_q - g_r r^T, for at least as many rows as columns.

    Columns beyond the square, if any, are q times theirs of r: they add to the gradients of q.
    """
    (g_q, g_r), (q, r) = g, out
    n = shape_of(q)[-1]
    wide = shape_of(r)[-1] > n
    if wide:
        g_q = g_q + np.conj(q) @ np.conj(r[..., n:]) @ adjointed(g_r[..., n:])
        g_rest, g_r, r = np.conj(q) @ g_r[..., n:], g_r[..., :n], r[..., :n]
    k = transposed(q) @ g_q - g_r @ transposed(r)
    inner = g_q + np.conj(q) @ (lower_half(k - adjointed(k)) - k)
    g_a = transposed(np.linalg.solve(r, transposed(inner)))
    return np.concatenate([g_a, g_rest], axis=-1) if wide else g_a


reduced_qr = Op(lambda a: np.linalg.qr(a), "a", (qr_adjoint,), "np.linalg.qr")


@composite(np.linalg.qr)
def qr(a, mode="reduced"):
    """The reduced factors. The further columns of q in the complete ones are arbitrary."""
    rows, columns = shape_of(a)[-2:]
    if mode == "raw" or (mode == "complete" and rows > columns):
        raise UnsupportedError(
            f"np.linalg.qr(a, {mode!r}) of a {rows} x {columns} matrix is not differentiated: use mode='reduced'"
        )
    out = reduced_qr(a)
    return out[1] if mode == "r" else out


# --- eigenvalues and eigenvectors


def eigh_adjoint(g, out, UPLO):
    """conj(v) (diag(g_w) + v^T g_v / gaps) v^T."""
    (g_w, g_v), (w, v) = g, out
    k = transposed(v) @ g_v
    refuse_phase(k, "np.linalg.eigh")
    inner = k * inverse_gaps(w) + diagonal_matrix(g_w)
    return on_triangle(np.conj(v) @ inner @ transposed(v), UPLO.upper() == "U")


def eigvalsh_adjoint(g, a, UPLO):
    """conj(v) diag(g) v^T."""
    v = np.linalg.eigh(a, UPLO)[1]
    return on_triangle((np.conj(v) * g[..., None, :]) @ transposed(v), UPLO.upper() == "U")


def eig_adjoint(g, out):
    """v^-T (diag(g_w) + (v^T g_v - v^T conj(v) diag(Re(v^T g_v))) / gaps) v^T: the columns of v have length 1."""
    (g_w, g_v), (w, v) = g, out
    k = transposed(v) @ g_v
    refuse_phase(k, "np.linalg.eig")
    k = k - transposed(v) @ np.conj(v) * np.real(diagonal(k))[..., None, :]
    inner = k * inverse_gaps(w) + diagonal_matrix(g_w)
    return np.linalg.solve(transposed(v), inner @ transposed(v))


define(np.linalg.eigh, "a", eigh_adjoint)
define(np.linalg.eigvalsh, "a", eigvalsh_adjoint)
define(np.linalg.eig, "a", eig_adjoint)
# Not a rule of its own: without eigenvectors LAPACK may return the eigenvalues in another order.
composite(np.linalg.eigvals)(lambda a: np.linalg.eig(a)[0])

# --- singular values and vectors


COMPLETED = partial(
    UnsupportedError,
    "the loss depends on the columns of u or rows of vh that np.linalg.svd(a, full_matrices=True) adds to "
    "complete the basis; they are arbitrary, so that it has no gradient: use full_matrices=False",
)


def svd_adjoint(g, out):
    """The frames turn by k / gaps of the squares; what leaves the span of u or of v does so by 1 / s."""
    (g_u, g_s, g_vh), (u, s, vh) = g, out
    n = shape_of(s)[-1]
    for beyond in (g_u[..., n:], g_vh[..., n:, :]):
        if beyond.size:
            require(np.equal(beyond, 0), COMPLETED)
    u, g_u, vh, g_vh = u[..., :n], g_u[..., :n], vh[..., :n, :], g_vh[..., :n, :]
    row, g_v = s[..., None, :], adjointed(g_vh)
    k_u, k_v = transposed(u) @ g_u, np.conj(vh) @ g_v
    refuse_phase(k_u + k_v, "np.linalg.svd")
    high = np.max(s, axis=-1, initial=0)[..., None]
    gaps = inverse_gaps(s) * inverse_or_zero(row + column(s), high[..., None])
    inverse = inverse_or_zero(s, high)
    turn_u, turn_v = k_u * gaps, k_v * gaps
    inner = (turn_u + adjointed(turn_u)) * row + column(s) * (turn_v + adjointed(turn_v)) + diagonal_matrix(g_s)
    if u.dtype.kind == "c":
        inner = inner + diagonal_matrix(1j * np.imag(diagonal(k_u)) * inverse)
    beyond_u = (g_u - np.conj(u) @ k_u) * inverse[..., None, :]
    beyond_v = (g_vh - adjointed(k_v) @ np.conj(vh)) * column(inverse)
    return (np.conj(u) @ inner + beyond_u) @ np.conj(vh) + np.conj(u) @ beyond_v


def singular_values_adjoint(g, a, out):
    """conj(u) diag(g) conj(vh), and 0 for a value of 0, where there is a kink as that of abs."""
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    cut = tolerance(a.shape, a.dtype) * np.max(out, axis=-1, initial=0)[..., None]
    return (np.conj(u) * np.where(out > cut, g, 0)[..., None, :]) @ np.conj(vh)


singular_values = Op(lambda a: np.linalg.svd(a, compute_uv=False), "a", (singular_values_adjoint,), "np.linalg.svdvals")
singular_vectors = Op(
    lambda a, *, full_matrices: np.linalg.svd(a, full_matrices=full_matrices), "a", (svd_adjoint,), "np.linalg.svd"
)


@composite(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Singular values and vectors; of a Hermitian matrix, by its eigenvalues, as NumPy does."""
    if not hermitian:
        return singular_vectors(a, full_matrices=full_matrices) if compute_uv else singular_values(a)
    if not compute_uv:
        return np.flip(np.sort(np.abs(np.linalg.eigvalsh(a)), axis=-1), axis=-1)
    w, u = np.linalg.eigh(a)
    order = np.flip(np.argsort(np.abs(w), axis=-1), axis=-1)
    w, u = np.take_along_axis(w, order, axis=-1), np.take_along_axis(u, order[..., None, :], axis=-1)
    return RESULT(u, np.abs(w), adjointed(u * np.sign(w)[..., None, :]))


RESULT = type(np.linalg.svd(np.eye(1)))  # NumPy's named tuple
composite(np.linalg.svdvals)(lambda x, /: singular_values(x))
