"""Which key each query may attend to: boolean arrays, True = attend, and what follows from them.

Masks are plain arrays that broadcast against the scores (B, H, T, S); combine them with `&` and `|`.

B batch   H heads   T time of the queries   S time of the keys, the past included
"""

import numpy as np
from numpy.typing import DTypeLike

from minigrad import require
from minigrad.errors import DtypeError, ShapeError
from minigrad_nn.layers import RangeError

__all__ = ["additive_mask", "causal_mask", "padding_mask", "position_ids", "sliding_window_mask"]


def causal_mask(length: int, past: int = 0) -> np.ndarray:
    """Position i of `length` attends to keys 0..i+past, of which the first `past` are in a cache.

    -> (T, S) bool with T = length, S = past + length; RangeError for a negative size.
    """
    if length < 0 or past < 0:
        raise RangeError(f"causal_mask: length and past should not be negative, got {length} and {past}")
    return np.tri(length, past + length, past, dtype=bool)


def sliding_window_mask(length: int, window: int, past: int = 0) -> np.ndarray:
    """The query at position p attends to `window` keys, its own included: p - window < j <= p.

    -> (T, S) bool as from `causal_mask`; RangeError for a window below 1 or a negative size. A rolling cache
    of `window` keys shows exactly these.     Beltagy et al. 2020, arXiv:2004.05150
    """
    if not isinstance(window, int | np.integer) or window < 1:
        raise RangeError(
            f"sliding_window_mask: window should be at least 1, the query itself, and whole, got {window}"
        )
    too_old = np.tri(length, past + length, past - window, dtype=bool)
    return causal_mask(length, past) & ~too_old


def padding_mask(tokens: np.ndarray, pad_id: int) -> np.ndarray:
    """Every query attends to the keys that are not padding.

    tokens (B, S) -> (B, 1, 1, S) bool; ShapeError. With `causal_mask`: `causal_mask(T) & padding_mask(...)`.
    """
    tokens = np.asarray(tokens)
    if tokens.ndim != 2:
        raise ShapeError(f"padding_mask: tokens should be (B, S), got {tokens.shape}")
    return (tokens != pad_id)[:, None, None, :]


def additive_mask(mask: np.ndarray, dtype: DTypeLike = np.float32) -> np.ndarray:
    """The same mask as numbers to add to the scores: 0 where True, -inf where False.

    mask (...) bool -> (...) of `dtype`; DtypeError for a mask that is not boolean.
    """
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise DtypeError(f"additive_mask: mask should be bool (True = attend), got {mask.dtype}")
    return np.where(mask, 0.0, -np.inf).astype(dtype)


def position_ids(attended: np.ndarray) -> np.ndarray:
    """Positions that count real tokens only: a prompt padded on the left is rotated as if it were not.

        max(cumsum(attended) - 1, 0)

    attended (..., T), True (or 1) at real tokens, as in `tokens != pad_id` -> (..., T) int64, for
    `rope.rope_at`. The next token of a row padded on the left is at `position_ids(attended)[..., -1] + 1`.

    RangeError for other numbers than 0 and 1, such as the tokens themselves, or a mask of 0 and -inf.
    """
    if not hasattr(attended, "dtype"):
        attended = np.asarray(attended)
    require((attended == 0) | (attended == 1), _not_a_mask, attended)
    return np.maximum(np.cumsum(attended, axis=-1, dtype=np.int64) - 1, 0)


def _not_a_mask(attended: np.ndarray) -> RangeError:
    wrong = attended[(attended != 0) & (attended != 1)].ravel()[0]
    return RangeError(f"position_ids: attended should be True or 1 at real tokens, False or 0 at padding, got {wrong}")
