"""Attention: every position takes a weighted mean of the values, weighted by how its query meets the keys.

Multi-head, grouped-query and multi-query attention are one function: what differs is the number of key heads.
A mask is boolean (True = attend) or is added to the scores, and broadcasts against them.

B batch   T time of the queries   S time of the keys   C channels   H query heads   K key and value heads
D channels per head   G = H / K query heads that share a key head   (...) any leading axes
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from minigrad import Tensor, stop_gradient
from minigrad.errors import DtypeError, MinigradError, ShapeError
from minigrad_nn.layers import Array, dropout, linear, rms_norm, softmax
from minigrad_nn.masks import causal_mask
from minigrad_nn.precision import in_float32, is_half
from minigrad_nn.rope import rotate_half_split

__all__ = [
    "attention_scores",
    "attention_with_dropout",
    "attention_weights",
    "causal_attention",
    "causal_attention_weights",
    "masked_softmax",
    "multi_head_attention",
    "repeat_kv",
    "scaled_dot_product_attention",
]


def attention_scores(q: Array, k: Array) -> Array:
    """How well each query meets each key: q @ k^T / sqrt(D).

    q (..., T, D), k (..., S, D) -> (..., T, S), or with shared keys
    q (..., H, T, D), k (..., K, S, D) -> (..., H, T, S); ShapeError.

    Vaswani et al. 2017, arXiv:1706.03762
    """
    if is_half(q.dtype, k.dtype):
        return in_float32(attention_scores, q, k)
    groups = _groups("attention_scores", q, k)
    scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]))
    return unfold_groups(scores, groups)


def masked_softmax(scores: Array, mask: np.ndarray | None = None) -> Array:
    """Softmax over the keys that the mask allows; a row with nothing to attend to is all zeros, not NaN.

    scores (..., T, S), mask broadcastable to them -> (..., T, S).

    ShapeError for a mask that does not broadcast to the scores, DtypeError for one that is neither boolean
    nor floating: an integer mask could mean either.
    """
    if is_half(scores.dtype):
        return in_float32(masked_softmax, scores, mask=mask)
    if mask is not None:
        _check_mask("masked_softmax", mask, scores.shape)
    if not scores.shape[-1]:
        return scores  # of no key there are no weights, and a mean of nothing is zeros
    if mask is None:
        return softmax(scores)
    hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(scores.dtype)
    top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))  # -inf - -inf would be NaN
    total = np.sum(e, axis=-1, keepdims=True)
    return e / (total + (total == 0))


def attention_weights(q: Array, k: Array, mask: np.ndarray | None = None) -> Array:
    """Where each position looks: the masked softmax of the scores.

    q (..., H, T, D), k (..., K, S, D) -> (..., H, T, S), rows summing to one, or to zero where all is masked.
    """
    if is_half(q.dtype, k.dtype):
        return in_float32(attention_weights, q, k, mask=mask)
    if mask is not None:
        _check_mask("attention_weights", mask, (*q.shape[:-1], k.shape[-2]))
        k = _zero_unseen(k, mask)
    return masked_softmax(attention_scores(q, k), mask)


def repeat_kv(x: Array, groups: int) -> Array:
    """Copy each key or value head for the `groups` query heads that share it: query head h uses h // groups.

    x (..., K, S, D) -> (..., K * groups, S, D).     Ainslie et al. 2023, arXiv:2305.13245

    `scaled_dot_product_attention` does without the copies.
    """
    return x if groups == 1 else np.repeat(x, groups, axis=-3)


def scaled_dot_product_attention(q: Array, k: Array, v: Array, mask: np.ndarray | None = None) -> Array:
    """softmax(q @ k^T / sqrt(D)) @ v, with H / K query heads to each key head.

    q (..., H, T, D), k (..., K, S, D), v (..., K, S, D') -> (..., H, T, D'), without a head axis too.

    A key that no query may see counts for nothing, in the result or in a gradient, even when it or its value
    is NaN: a cache may have unwritten rows behind its mask. A query that sees no key gets zeros.

    ShapeError.     Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245
    """
    if is_half(q.dtype, k.dtype, v.dtype):
        return in_float32(scaled_dot_product_attention, q, k, v, mask=mask)
    groups = _groups("scaled_dot_product_attention", q, k, v)
    if mask is not None:
        _check_mask("scaled_dot_product_attention", mask, (*q.shape[:-1], k.shape[-2]))
        k, v = _zero_unseen(k, mask), _zero_unseen(v, mask)
    weights = masked_softmax(attention_scores(q, k), mask)
    return unfold_groups(fold_groups(weights, groups) @ v, groups)


def attention_with_dropout(
    q: Array, k: Array, v: Array, mask: np.ndarray | None = None, *, rate: float, rng: np.random.Generator
) -> Array:
    """dropout(softmax(q @ k^T / sqrt(D))) @ v, for training: what a query looks at is dropped, not part of a value.

    Shapes and errors of `scaled_dot_product_attention` and of `layers.dropout`.
    In a layer: `multi_head_attention(..., attend=partial(attention_with_dropout, rate=0.1, rng=rng))`.
    """
    if is_half(q.dtype, k.dtype, v.dtype):
        return in_float32(attention_with_dropout, q, k, v, mask=mask, rate=rate, rng=rng)
    groups = _groups("attention_with_dropout", q, k, v)
    weights = dropout(attention_weights(q, k, mask), rate, rng)
    if mask is not None:
        v = _zero_unseen(v, mask)
    return unfold_groups(fold_groups(weights, groups) @ v, groups)


def causal_attention(x: Array, wq: Array, wk: Array, wv: Array) -> Array:
    """One head that looks only backwards.     x (..., T, C), wq and wk (C, D), wv (C, D') -> (..., T, D')"""
    q, k, v = linear(x, wq), linear(x, wk), linear(x, wv)
    return scaled_dot_product_attention(q, k, v, causal_mask(x.shape[-2]))


def causal_attention_weights(x: Array, wq: Array, wk: Array) -> Array:
    """Where `causal_attention` looks: the same numbers.     x (..., T, C), wq and wk (C, D) -> (..., T, T)"""
    return attention_weights(linear(x, wq), linear(x, wk), causal_mask(x.shape[-2]))


def multi_head_attention(
    x: Array,
    weights: Mapping[str, Array],
    head_dim: int,
    mask: np.ndarray | None = None,
    q_rope: tuple[Array, Array] | None = None,
    k_rope: tuple[Array, Array] | None = None,
    cache: tuple[Array, Array] | None = None,
    context: Array | None = None,
    rotate: Callable[[Array, Array, Array], Array] = rotate_half_split,
    norm: Callable[[Array, Array], Array] = rms_norm,
    attend: Callable[[Array, Array, Array, np.ndarray | None], Array] = scaled_dot_product_attention,
) -> tuple[Array, tuple[Array, Array]]:
    """Project to heads, attend, project back.

    Parameters
    ----------
    x
        (..., T, C).
    weights
        "q" (C, H*D), "k" (C, K*D), "v" (C, K*D), "o" (H*D, C); the numbers of heads follow from these.
        Applied where present: biases "q_bias", "k_bias", "v_bias", "o_bias", and the gains "q_norm" (D,),
        "k_norm" (D,) of a QK-norm before RoPE (Henry et al. 2020, arXiv:2010.04245; Qwen3).
    head_dim
        D.
    mask
        Broadcastable to (..., H, T, S), S counting the past; None: all see all.
    q_rope, k_rope
        (cos, sin) for the positions of x and of the new keys, from `rope.rope_table`; None: no rotation. To
        rotate the keys only, leave q_rope out.
    cache
        (k, v) of the past, each (..., K, past, D), keys after RoPE, as this function returned them.
    context
        (..., S, C) to take keys and values from: cross-attention. None: x itself.
    rotate
        `rope.rotate_half_split` or `rope.rotate_interleaved`.
    norm
        The QK-norm: `layers.rms_norm` or `layers.zero_centred_rms_norm`.
    attend
        `attend(q, k, v, mask)`, with H query heads and K heads of keys and values: `scaled_dot_product_attention`, or
        `attention_with_dropout` with a rate and a generator.

    Returns
    -------
    (..., T, C), and (k, v) with the new rows after those of the cache: the next call's `cache`.

    Raises
    ------
    ShapeError
        With the name of the weight, or of the argument, the wanted and the given shape.
    """
    _check_weights(weights, head_dim)
    source = x if context is None else context
    q = _split_heads(linear(x, weights["q"], weights.get("q_bias")), head_dim)  # (..., H, T, D)
    k = _split_heads(linear(source, weights["k"], weights.get("k_bias")), head_dim)  # (..., K, S, D)
    v = _split_heads(linear(source, weights["v"], weights.get("v_bias")), head_dim)  # (..., K, S, D)
    if "q_norm" in weights:
        q = norm(q, weights["q_norm"])
    if "k_norm" in weights:
        k = norm(k, weights["k_norm"])
    if q_rope is not None:
        q = rotate(q, *q_rope)
    if k_rope is not None:
        k = rotate(k, *k_rope)
    if cache is not None:
        k, v = _append(cache, k, v)
    out = _merge_heads(attend(q, k, v, mask))  # (..., T, H*D)
    return linear(out, weights["o"], weights.get("o_bias")), (k, v)


# ---- the shapes of heads -------------------------------------------------------------------------


def _split_heads(x: Array, head_dim: int) -> Array:
    """(..., T, H*D) -> (..., H, T, D)"""
    return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2, -3)


def _merge_heads(x: Array) -> Array:
    """(..., H, T, D) -> (..., T, H*D)"""
    x = np.swapaxes(x, -2, -3)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def fold_groups(x: Array, groups: int) -> Array:
    """(..., K*G, T, D) -> (..., K, G*T, D): the queries that share a key head, one after the other."""
    if groups == 1:
        return x
    *leading, heads, length, width = x.shape
    return x.reshape(*leading, heads // groups, groups * length, width)


def unfold_groups(x: Array, groups: int) -> Array:
    """(..., K, G*T, D) -> (..., K*G, T, D)"""
    if groups == 1:
        return x
    *leading, heads, length, width = x.shape
    return x.reshape(*leading, heads * groups, length // groups, width)


def _append(cache: tuple[Array, Array], k: Array, v: Array) -> tuple[Array, Array]:
    """Put the new keys and values after those of the cache."""
    for name, past, new in zip(("k", "v"), cache, (k, v), strict=True):
        if (*past.shape[:-2], past.shape[-1]) != (*new.shape[:-2], new.shape[-1]):
            wanted = (*new.shape[:-2], "past", new.shape[-1])
            raise ShapeError(
                f"multi_head_attention: {name} of the cache should be ({', '.join(map(str, wanted))}) "
                f"to take the new rows {new.shape}, got {past.shape}"
            )
    return np.concatenate([cache[0], k], axis=-2), np.concatenate([cache[1], v], axis=-2)


def _zero_unseen(x: Array, mask: np.ndarray) -> Array:
    """Put zeros where a key, or its value, is hidden from every query: 0 * NaN is NaN, in both directions.

    x (..., K, S, D), mask broadcastable to (..., H, T, S).
    """
    allowed = mask if mask.dtype == bool else mask != -np.inf
    seen = np.any(np.atleast_2d(allowed), axis=-2)  # (..., H, S)
    if not isinstance(seen, Tensor) and seen.all():  # an argument of a compiled function is known at each run only
        return x
    if seen.ndim > 1 and x.ndim > 2 and seen.shape[-2] not in (1, x.shape[-3]):
        *leading, heads, length = seen.shape
        groups = heads // x.shape[-3]
        seen = np.any(seen.reshape(*leading, x.shape[-3], groups, length), axis=-2)  # (..., K, S)
    return np.where(seen[..., None], x, 0)


# ---- what can be wrong ---------------------------------------------------------------------------


def _groups(function: str, q: Array, k: Array, v: Array | None = None) -> int:
    """Return how many query heads share a key head; raise ShapeError for shapes that do not meet."""
    if q.ndim < 2 or k.ndim < 2 or q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"{function}: q should be (..., T, D) and k (..., S, D) with one D, got {q.shape} and {k.shape}"
        )
    if v is not None and v.shape[:-1] != k.shape[:-1]:
        raise ShapeError(f"{function}: v should have the axes of k {k.shape} but the last, got {v.shape}")
    if q.ndim < 3 or k.ndim < 3 or q.shape[-3] == k.shape[-3]:
        return 1
    if not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ShapeError(
            f"{function}: the heads of q should be a multiple of those of k, "
            f"got {q.shape[-3]} in q {q.shape} and {k.shape[-3]} in k {k.shape}"
        )
    return int(q.shape[-3] // k.shape[-3])


def _check_mask(function: str, mask: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise unless the mask is boolean or floating and broadcasts to `shape`."""
    if mask.dtype.kind not in "bf":
        raise DtypeError(
            f"{function}: mask should be bool (True = attend) or floating (added to the scores), "
            f"got {mask.dtype}; if 1 means attend: mask.astype(bool)"
        )
    aligned = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.ndim > len(shape) or any(have not in (1, want) for have, want in aligned):
        raise ShapeError(f"{function}: mask should broadcast to the scores {shape}, got {mask.shape}")


_NEEDED = frozenset({"q", "k", "v", "o"})
_OPTIONAL = frozenset({"q_bias", "k_bias", "v_bias", "o_bias", "q_norm", "k_norm"})


def _check_weights(weights: Mapping[str, Array], head_dim: int) -> None:
    """Raise unless the weights have the right names, and whole heads; `linear` and `norm` check the rest."""
    names = weights.keys()
    if not _NEEDED <= names or not names <= _NEEDED | _OPTIONAL:
        raise MinigradError(
            f"multi_head_attention: weights should have {sorted(_NEEDED)}, and may have {sorted(_OPTIONAL)}, "
            f"got {sorted(names)}"
        )
    if head_dim < 1:
        raise ShapeError(f"multi_head_attention: head_dim should be at least 1, got {head_dim}")
    for name in ("q", "k", "v"):
        if weights[name].ndim != 2 or weights[name].shape[1] % head_dim:
            raise ShapeError(
                f"multi_head_attention: weights[{name!r}] should be (C, heads * head_dim) "
                f"with head_dim {head_dim}, got {weights[name].shape}"
            )
