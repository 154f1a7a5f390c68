"""The pseudo-inverse and least squares.

Golub & Pereyra 1973, doi:10.1137/0710036: the derivative for changes that keep the rank of the matrix.
"""

import numpy as np

from minigrad.errors import UnsupportedError
from minigrad.op import define
from minigrad.rules.factor import singular_values_adjoint
from minigrad.rules.linalg import adjointed, column, lower_half, on_triangle, tolerance, transposed


def refuse_truncation(a, inverse, name):
    """Raise if the pseudo-inverse left out more than rounding: its derivative then has further terms."""
    left_out = np.max(np.abs(a - a @ inverse @ a), initial=0)
    if left_out > np.finfo(a.dtype).eps ** 0.5 * np.max(np.abs(a), initial=0):
        raise UnsupportedError(
            f"{name} with a cut-off (rcond or rtol) that drops singular values which are not zero is not "
            "differentiated: lower the cut-off, or write the truncation with np.linalg.svd"
        )


def pinv_adjoint(g, a, out, hermitian, rcond, rtol):
    """-p^T g p^T, and what turns the row and column spaces of a."""
    if a.size == 0:
        return np.zeros_like(a)
    if hermitian:
        half = lower_half(a)
        a = half + adjointed(half)
    if rcond is not None or rtol is not None:
        refuse_truncation(a, out, "np.linalg.pinv")
    h = adjointed(g)
    whole = (
        (h - np.conj(a @ out) @ h) @ np.conj(out @ adjointed(out))
        + np.conj(adjointed(out) @ out) @ (h - h @ np.conj(out @ a))
        - transposed(out) @ g @ transposed(out)
    )
    return on_triangle(whole, upper=False) if hermitian else whole


define(np.linalg.pinv, "a", pinv_adjoint)


def inverse_of_lstsq(a, rcond):
    """Return the pseudo-inverse with the cut-off of np.linalg.lstsq."""
    default, eps = tolerance(a.shape, a.dtype), float(np.finfo(a.dtype).eps)
    inverse = np.linalg.pinv(a, rcond=default if rcond is None else max(rcond, eps))
    if rcond is not None and rcond > default:
        refuse_truncation(a, inverse, "np.linalg.lstsq")
    return inverse


def columns(g, out, b):
    """Return the gradients of x and of the squared residuals, x, and b, all as matrices, and that of s."""
    (g_x, g_squares, _, g_s), x = g, out[0]
    g_x, x, b = (m if np.ndim(m) == 2 else column(m) for m in (g_x, x, b))
    return g_x, g_squares if g_squares.shape[0] else np.zeros_like(g_x, shape=x.shape[1]), x, b, g_s


def right_side_adjoint(g, a, b, out, rcond):
    """p^T g_x, and 2 conj(r) of the squares of r = b - a x: x is where they are smallest, so it may stand still."""
    g_x, g_squares, x, whole, _ = columns(g, out, b)
    back = transposed(inverse_of_lstsq(a, rcond)) @ g_x + 2 * np.conj(whole - a @ x) * g_squares
    return back if np.ndim(b) == 2 else back[:, 0]


def matrix_adjoint(g, a, b, out, rcond):
    """As `pinv_adjoint` with g b^T for g, multiplied out so that b appears in x and in the residual only."""
    inverse = inverse_of_lstsq(a, rcond)
    g_x, g_squares, x, b, g_s = columns(g, out, b)
    h, residual = adjointed(g_x), np.conj(b - a @ x)
    return (
        residual @ (h @ np.conj(inverse @ adjointed(inverse)))
        + np.conj(adjointed(inverse) @ x) @ (h - h @ np.conj(inverse @ a))
        - (transposed(inverse) @ g_x + 2 * residual * g_squares) @ transposed(x)
        + singular_values_adjoint(g_s, a, out[3])
    )


define(np.linalg.lstsq, "a b", matrix_adjoint, right_side_adjoint)
