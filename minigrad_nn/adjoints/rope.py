"""Adjoints of the rotary embedding, in both pairings.

T time   D channels per head   (...) any leading axes

A pair (x1, x2) turns by the angle whose cosine and sine are c and s:

    y1 = x1 c - x2 s          dx1 =  g1 c + g2 s          dc = g1 x1 + g2 x2
    y2 = x2 c + x1 s          dx2 =  g2 c - g1 s          ds = g2 x1 - g1 x2

The inverse of a rotation is its transpose, so (dx1, dx2) is (g1, g2) turned back by the same angle.
Su et al. 2021, arXiv:2104.09864
"""

import numpy as np

from minigrad_nn.adjoints.broadcast import like


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Channels j and j + D/2: (..., D) -> (..., D/2), (..., D/2)"""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def neighbours(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Channels 2j and 2j + 1: (..., D) -> (..., D/2), (..., D/2)"""
    return x[..., ::2], x[..., 1::2]


def from_halves(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The inverse of `halves`."""
    return np.concatenate([first, second], axis=-1)


def from_neighbours(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The inverse of `neighbours`."""
    return np.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)


def rotate_half_split(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """The forward values, for the adjoints that contain a rotation."""
    x1, x2 = halves(x)
    return from_halves(x1 * cos - x2 * sin, x2 * cos + x1 * sin)


def rotate_half_split_adjoint(
    g: np.ndarray, x: np.ndarray, cos: np.ndarray, sin: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `rope.rotate_half_split`.   g, x (..., T, D), cos, sin (T, D/2) -> dx, dcos, dsin"""
    g1, g2 = halves(g)
    x1, x2 = halves(x)
    dx = from_halves(g1 * cos + g2 * sin, g2 * cos - g1 * sin)
    return like(dx, x), like(g1 * x1 + g2 * x2, cos), like(g2 * x1 - g1 * x2, sin)


def rotate_interleaved_adjoint(
    g: np.ndarray, x: np.ndarray, cos: np.ndarray, sin: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `rope.rotate_interleaved`.   g, x (..., T, D), cos, sin (T, D/2) -> dx, dcos, dsin"""
    g1, g2 = neighbours(g)
    x1, x2 = neighbours(x)
    dx = from_neighbours(g1 * cos + g2 * sin, g2 * cos - g1 * sin)
    return like(dx, x), like(g1 * x1 + g2 * x2, cos), like(g2 * x1 - g1 * x2, sin)
