"""Determinants: right for singular matrices too, whose determinant has a gradient though they have no inverse."""

import numpy as np

from minigrad.op import Op, define
from minigrad.rules.linalg import adjointed, column, transposed
from minigrad.rules.reduce import products_of_others
from minigrad.shapes import shape_of


def frames(a):
    """Return u, s, vh of a square matrix, and the determinant of u vh."""
    u, s, vh = np.linalg.svd(a)
    return u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def cofactors(a):
    """Return the cofactors from the singular values, without dividing: a may be singular, of any rank."""
    if a.size == 0:
        return np.zeros_like(a)
    u, s, vh, det = frames(a)
    return det * ((np.conj(u) * products_of_others(s, (-1,))[..., None, :]) @ np.conj(vh))


def cofactors_slope(h, a):
    """Return the adjoint of `cofactors`, which is its derivative too: the Hessian of det, times h.

    In the frame of the singular vectors a is diagonal, and the second derivatives of its determinant are the products
    of all singular values but two.
    """
    if a.size == 0 or a.shape[-1] == 1:
        return np.zeros_like(a)
    u, s, vh, det = frames(a)
    one = np.eye(a.shape[-1], dtype=bool)
    others = np.where(one, 0, products_of_others(np.where(one, 1, s[..., None, :]), (-1,)))
    h = adjointed(u) @ h @ adjointed(vh)
    h = one * (others @ column(np.diagonal(h, axis1=-2, axis2=-1))) - others * transposed(h)
    return det * (np.conj(u) @ h @ np.conj(vh))


def third_slope(g, h, a):
    """The third derivative of det along g and h. From here on a must be regular."""
    inverse = np.linalg.inv(a)
    one = np.eye(shape_of(a)[-1], dtype=a.dtype)
    g, h = inverse @ g, inverse @ h
    tg, th, tgh = (np.linalg.trace(m)[..., None, None] for m in (g, h, g @ h))
    inner = (tg * th - tgh) * one - tg * h - th * g + g @ h + h @ g
    return np.linalg.det(a)[..., None, None] * transposed(inner @ inverse)


slope = Op(cofactors_slope, "h a", (lambda g, a: slope(g, a), third_slope), "the derivative of cofactors")
cofactor = Op(cofactors, "a", (lambda g, a: slope(g, a),), "cofactors")
define(np.linalg.det, "a", lambda g, a: g[..., None, None] * cofactor(a))


def slogdet_adjoint(g, a, out):
    """a^-T; the sign of a complex matrix turns with the imaginary part of the logarithm of the determinant."""
    g_sign, g_log = g
    if a.dtype.kind == "c":
        g_log = g_log + 1j * np.imag(g_sign * out[0])
    return g_log[..., None, None] * transposed(np.linalg.inv(a))


define(np.linalg.slogdet, "a", slogdet_adjoint)
