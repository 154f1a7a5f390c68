"""Polynomials as arrays of coefficients, the highest power first."""

import numpy as np

from minigrad.errors import unsupported
from minigrad.op import as_array, composite
from minigrad.require import caution
from minigrad.shapes import shape_of


def _padded(p, n):
    return np.concatenate([np.zeros(n - shape_of(p)[0], p.dtype), p])


def _same_length(a1, a2):
    a1, a2 = np.atleast_1d(as_array(a1)), np.atleast_1d(as_array(a2))
    n = max(a1.size, a2.size)
    return _padded(a1, n), _padded(a2, n)


composite(np.polyadd)(lambda a1, a2: np.add(*_same_length(a1, a2)))
composite(np.polysub)(lambda a1, a2: np.subtract(*_same_length(a1, a2)))


def _trimmed(p):
    """Return the coefficients without leading zeros, as np.poly1d keeps them."""
    p = np.trim_zeros(np.atleast_1d(as_array(p)), "f")
    return p if p.size else np.zeros(1, p.dtype)


composite(np.polymul)(lambda a1, a2: np.convolve(_trimmed(a1), _trimmed(a2)))


@composite(np.polyval)
def polyval(p, x):
    """Horner's rule."""
    p, x = as_array(p), as_array(x)
    y = np.zeros_like(x)
    for coefficient in p:
        y = y * x + coefficient
    return y


@composite(np.polyder)
def polyder(p, m=1):
    """The coefficients of a derivative."""
    p = as_array(p)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(m):
        p = p[:-1] * np.arange(shape_of(p)[0] - 1, 0, -1)
    return p


@composite(np.polyint)
def polyint(p, m=1, k=None):
    """The coefficients of an integral, with constants k."""
    p = as_array(p)
    k = np.zeros(m) if k is None else np.atleast_1d(as_array(k))
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    if shape_of(k)[0] not in (1, m) and shape_of(k)[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        constant = k[i] if shape_of(k)[0] > 1 else k[0]
        p = np.concatenate([p / np.arange(shape_of(p)[0], 0, -1), np.reshape(constant, 1)])
    return p


@composite(np.polydiv)
def polydiv(u, v):
    """Quotient and remainder, by long division."""
    u, v = np.atleast_1d(as_array(u)) + 0.0, np.atleast_1d(as_array(v)) + 0.0
    scale, n = 1.0 / v[0], shape_of(v)[0]
    quotient = []
    for k in range(shape_of(u)[0] - n + 1):
        d = scale * u[k]
        quotient.append(d)
        u = np.concatenate([u[:k], u[k : k + n] - d * v, u[k + n :]])
    quotient = np.stack(quotient) if quotient else np.zeros(1, (u[:1] + v[:1]).dtype)
    while shape_of(u)[0] > 1 and np.allclose(u[0], 0, rtol=1e-14):
        u = u[1:]
    return quotient, u.astype(quotient.dtype)


@composite(np.poly)
def poly(seq_of_zeros):
    """The polynomial with these roots, or the characteristic polynomial of a matrix."""
    zeros = np.atleast_1d(as_array(seq_of_zeros))
    if zeros.ndim == 2:
        zeros = np.linalg.eigvals(zeros)
    zeros = zeros.astype(np.mintypecode(zeros.dtype.char), copy=False)
    p = np.ones(1, zeros.dtype)
    for zero in zeros:
        p = np.convolve(p, np.stack([np.ones((), zeros.dtype), -zero]))
    if zeros.dtype.kind == "c" and np.array_equal(np.sort(zeros), np.sort(np.conj(zeros))):
        p = np.real(p)
    return p


@composite(np.roots)
def roots(p):
    """The eigenvalues of the companion matrix, and a zero for each trailing zero."""
    p = np.atleast_1d(as_array(p))
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    places = np.flatnonzero(p)
    if not places.size:
        return np.array([])
    trailing = p.size - places[-1] - 1
    p = p[places[0] : places[-1] + 1]
    if p.size == 1:
        return np.zeros(trailing)
    companion = np.concatenate([(-p[1:] / p[0])[None], np.eye(p.size - 2, p.size - 1, dtype=p.dtype)])
    values = np.linalg.eigvals(companion)
    if p.dtype.kind != "c" and not np.any(np.imag(values)):  # np.linalg.eigvals says so only until NumPy 2.4
        values = np.real(values)
    return np.concatenate([values, np.zeros(trailing, values.dtype)])


@composite(np.vander)
def vander(x, N=None, increasing=False):
    """Powers of x in columns."""
    x = as_array(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = shape_of(x)[0] if N is None else N
    x = x.astype(np.promote_types(x.dtype, int))
    powers = [np.ones_like(x)]
    while len(powers) < n:
        powers.append(powers[-1] * x)
    columns = np.stack(powers, axis=1)[:, :n]
    return columns if increasing else columns[:, ::-1]


@composite(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Least squares on the powers of x, each scaled to length 1."""
    if full or cov:
        raise unsupported("np.polyfit(full=True) or (cov=True)", "only the coefficients are differentiated")
    x, y = as_array(x) + 0.0, as_array(y) + 0.0
    left = np.vander(x, int(deg) + 1)
    if w is not None:
        w = as_array(w) + 0.0
        left, y = left * w[:, None], y * (w if y.ndim == 1 else w[:, None])
    scale = np.sqrt(np.sum(left * left, axis=0))
    rcond = shape_of(x)[0] * np.finfo(x.dtype).eps if rcond is None else rcond
    c, _, rank, _ = np.linalg.lstsq(left / scale, y, rcond)
    caution(np.not_equal(rank, int(deg) + 1), "Polyfit may be poorly conditioned", np.exceptions.RankWarning)
    return np.transpose(np.transpose(c) / scale)
