"""Rotary position embedding: rotate pairs of channels by an angle that grows with the position.

The dot product of two vectors rotated at positions m and n depends on m - n alone. The tables are plain
arrays, computed in float64; only what they rotate is differentiated. Weights are trained for one pairing.

T time   D channels per head   (...) any leading axes          Su et al. 2021, arXiv:2104.09864
"""

import numpy as np
from numpy.typing import DTypeLike

from minigrad.errors import DtypeError, ShapeError
from minigrad_nn.layers import Array, RangeError

__all__ = ["rope_at", "rope_frequencies", "rope_table", "rotate_half_split", "rotate_interleaved"]


def rope_frequencies(head_dim: int, theta: float = 10000.0) -> np.ndarray:
    """Radians per position of each pair of channels: theta ** (-2 j / D).

    -> (D/2,) float64; ShapeError for an odd D, RangeError unless theta is positive.
    """
    if head_dim < 2 or head_dim % 2:
        raise ShapeError(f"rope_frequencies: head_dim should be even (pairs turn), got {head_dim}")
    if not theta > 0:
        raise RangeError(f"rope_frequencies: theta should be positive, got {theta}")
    return float(theta) ** (np.arange(0, head_dim, 2) / -head_dim)


def rope_at(
    positions: np.ndarray, head_dim: int, theta: float = 10000.0, dtype: DTypeLike = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines for given positions.

    positions (..., T) integers -> cos (..., T, D/2), sin (..., T, D/2) of `dtype`. The angle is float64: at
    position 1e5 a float32 angle is wrong in its third decimal. Positions that differ from row to row of a
    batch go in as (B, 1, T), to meet q (B, H, T, D).

    DtypeError for positions that are not integers; ShapeError for an odd D.
    """
    positions = np.asarray(positions)
    if positions.dtype.kind not in "iu":
        raise DtypeError(f"rope_at: positions should be integers, got {positions.dtype}")
    angle = positions[..., None] * rope_frequencies(head_dim, theta)  # (..., T, D/2)
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def rope_table(
    length: int, head_dim: int, theta: float = 10000.0, offset: int = 0, dtype: DTypeLike = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines for the positions offset..offset+length-1; `offset` counts the tokens in a cache.

    -> cos (T, D/2), sin (T, D/2) of `dtype`, with T = length; ShapeError for an odd D.
    """
    return rope_at(np.arange(offset, offset + length), head_dim, theta, dtype)


def rotate_half_split(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate the pairs (j, j + D/2), the layout of GPT-NeoX and of Llama files on the Hugging Face hub.

        [x1 cos - x2 sin, x2 cos + x1 sin]    with x1, x2 the halves of the last axis

    x (..., T, D), cos and sin (T, D/2) or (..., T, D/2) -> (..., T, D); ShapeError.
    """
    _check_table("rotate_half_split", x, cos, sin)
    half = x.shape[-1] // 2
    x1, x2 = x[..., :half], x[..., half:]
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def rotate_interleaved(x: Array, cos: Array, sin: Array) -> Array:
    """Rotate the pairs (2j, 2j + 1), the layout of the paper, GPT-J and Meta's own Llama files.

    x (..., T, D), cos and sin (T, D/2) or (..., T, D/2) -> (..., T, D); ShapeError.
    """
    _check_table("rotate_interleaved", x, cos, sin)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).reshape(x.shape)


def _check_table(function: str, x: Array, cos: Array, sin: Array) -> None:
    """Raise ShapeError unless there is one row per position of x and one angle per pair of channels.

    A table of one row would broadcast, and give every position the same angle.
    """
    wanted = (*x.shape[-2:-1], x.shape[-1] // 2)
    if x.shape[-1] % 2 or cos.shape[-2:] != wanted or sin.shape != cos.shape:
        raise ShapeError(
            f"{function}: cos and sin should be (..., T, D/2) for x (..., T, D) with an even D, "
            f"got cos {cos.shape} and sin {sin.shape} for x {x.shape}"
        )
