"""Attention for long sequences: memory grows with the length, not with its square.

The scores are computed a tile at a time, with a running maximum and a running sum, and thrown away. Each block of
queries is a checkpoint: its backward pass computes its tiles again. Tiles that the causal mask hides are skipped.

H query heads   K key heads   T time of the queries   S time of the keys   D channels per head   (...) leading axes
"""

import numpy as np

from minigrad import checkpoint, stop_gradient
from minigrad.errors import ShapeError
from minigrad_nn.attention import attention_scores, fold_groups, unfold_groups
from minigrad_nn.layers import Array
from minigrad_nn.precision import in_float32, is_half

__all__ = ["tiled_attention"]

MOST_TILES = 16  # for a block of queries


def tiled_attention(
    q: Array, k: Array, v: Array, causal: bool = True, queries: int = 256, keys: int | None = None
) -> Array:
    """Return softmax(q @ k^T / sqrt(D)) @ v, as `scaled_dot_product_attention` does, in memory linear in T and S.

    q (..., H, T, D), k (..., K, S, D), v (..., K, S, D') -> (..., H, T, D'), with H / K query heads to a key head.

    Rabe & Staats 2021, arXiv:2112.05682; Dao et al. 2022, arXiv:2205.14135

    Parameters
    ----------
    causal
        Query i sees keys 0..i + S - T. Otherwise every query sees every key.
    queries, keys
        The size of a tile. By default each block of queries has at most sixteen tiles, of 256 keys or more: a compiled
        program lists every tile, so their number too must grow with the length, not with its square.

    Raises
    ------
    ShapeError
        If there are fewer keys than queries in causal attention, or a tile without a query or key.
    """
    if is_half(q.dtype, k.dtype, v.dtype):
        return in_float32(tiled_attention, q, k, v, causal, queries, keys)
    length, past = q.shape[-2], k.shape[-2] - q.shape[-2]
    if causal and past < 0:
        raise ShapeError(f"tiled_attention: causal queries need a key each, got q {q.shape} and k {k.shape}")
    if keys is None:
        keys = max(256, -(-k.shape[-2] // MOST_TILES))
    if queries < 1 or keys < 1:
        raise ShapeError(f"tiled_attention: wanted tiles of at least 1 x 1, got {queries} x {keys}")
    block = checkpoint(_attend)
    parts = []
    for start in range(0, length, queries):
        rows = q[..., start : start + queries, :]
        first = past + start  # the last key that the first of these queries sees
        seen = min(first + queries, k.shape[-2]) if causal else k.shape[-2]
        parts.append(block(rows, k[..., :seen, :], v[..., :seen, :], first if causal else None, keys))
    return np.concatenate(parts, axis=-2)


def _attend(q: Array, k: Array, v: Array, first: int | None, keys: int) -> Array:
    """Attention of one block of queries, over tiles of keys; query i of the block sees the keys up to first + i."""
    length, seen = q.shape[-2], k.shape[-2]
    groups = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    top: Array = None
    total: Array = None
    out: Array = None
    for start in range(0, seen, keys):
        stop = min(start + keys, seen)
        scores = attention_scores(q, k[..., start:stop, :])  # (..., H, T, keys)
        if first is not None and stop - 1 > first:
            visible = np.arange(start, stop) <= first + np.arange(length)[:, None]
            scores = np.where(visible, scores, -np.inf)
        # Softmax does not change when its row is shifted, so the running maximum needs no gradient.
        highest = np.max(stop_gradient(scores), axis=-1, keepdims=True)
        if top is None:
            e = np.exp(scores - highest)
            total = np.sum(e, axis=-1, keepdims=True)
            out = _mix(e, v[..., start:stop, :], groups)
        else:
            highest = np.maximum(top, highest)
            kept = np.exp(top - highest)
            e = np.exp(scores - highest)
            total = total * kept + np.sum(e, axis=-1, keepdims=True)
            out = out * kept + _mix(e, v[..., start:stop, :], groups)
        top = highest
    return out / total


def _mix(weights: Array, v: Array, groups: int) -> Array:
    return unfold_groups(fold_groups(weights, groups) @ v, groups)
