"""Adjoints of attention, from its scores to grouped queries.

T queries   S keys   D channels per head   H query heads   Hkv key heads   C channels   (...) leading axes

Attention is  scores = q k' / sqrt(D),  weights = softmax(scores),  out = weights v.  Back through each:

    dweights = g v'                      dv = weights' g
    dscores  = weights (dweights - rowsum(weights dweights))
    dq       = dscores k / sqrt(D)       dk = dscores' q / sqrt(D)

Vaswani et al. 2017, arXiv:1706.03762. A mask takes no gradient.
"""

import math

import numpy as np

from minigrad_nn.adjoints.broadcast import like
from minigrad_nn.adjoints.dense import matmul_adjoint, transposed
from minigrad_nn.adjoints.tokens import dropout_adjoint

Mask = np.ndarray | None


def repeat_kv(x: np.ndarray, groups: int) -> np.ndarray:
    """Each head `groups` times in a row: (..., Hkv, S, D) -> (..., Hkv * groups, S, D)"""
    return x if groups == 1 else np.repeat(x, groups, axis=-3)


def repeat_kv_adjoint(g: np.ndarray, x: np.ndarray, groups: int) -> np.ndarray:
    """Adjoint of `attention.repeat_kv`.   g (..., Hkv * groups, S, D) -> dx (..., Hkv, S, D)

    Copies h groups ... h groups + groups - 1 all came from head h, whose gradient is their sum. Grouped
    queries need nothing else below: each gets its own copy of its keys.
    Ainslie et al. 2023, arXiv:2305.13245
    """
    return g.reshape(*x.shape[:-2], groups, *x.shape[-2:]).sum(-3)


def group_size(q: np.ndarray, k: np.ndarray) -> int:
    """How many query heads share a key head; 1 where there is no axis of heads."""
    return q.shape[-3] // k.shape[-3] if q.ndim > 2 and k.ndim > 2 else 1


def attention_scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """q k' / sqrt(D)   (..., H, T, D), (..., Hkv, S, D) -> (..., H, T, S)"""
    return q @ transposed(repeat_kv(k, group_size(q, k))) * (1 / math.sqrt(q.shape[-1]))


def attention_scores_adjoint(g: np.ndarray, q: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adjoint of `attention.attention_scores`.   g (..., H, T, S) -> dq (..., H, T, D), dk (..., Hkv, S, D)

    A product of q with k transposed, so what comes back for k comes back transposed.
    """
    groups = group_size(q, k)
    scaled = g * (1 / math.sqrt(q.shape[-1]))
    dq, dk_transposed = matmul_adjoint(scaled, q, transposed(repeat_kv(k, groups)))
    return dq, repeat_kv_adjoint(transposed(dk_transposed), k, groups)


def masked_softmax(scores: np.ndarray, mask: Mask = None) -> np.ndarray:
    """Softmax of the last axis over the allowed entries; a row with none is all zeros."""
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(scores.dtype)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def masked_softmax_adjoint(g: np.ndarray, scores: np.ndarray, mask: Mask = None) -> np.ndarray:
    """Adjoint of `attention.masked_softmax`.   g (..., T, S), scores (..., T, S) -> dscores (..., T, S)

    dscores = p (g - p . g) as for any softmax. Where p is 0, at what the mask forbids and in a row with
    nothing to attend to, no score matters and dscores is 0 whatever g is there, even NaN.
    """
    p = masked_softmax(scores, mask)
    g = np.where(p == 0, 0, g)
    return p * (g - (p * g).sum(-1, keepdims=True))


def zero_unseen(x: np.ndarray, q: np.ndarray, mask: Mask) -> np.ndarray:
    """Zeros for the keys or values which the mask hides from every query, since 0 * NaN is NaN.

    x (..., H, S, D), q (..., H, T, D), mask broadcastable to (..., H, T, S)
    """
    if mask is None:
        return x
    allowed = mask if mask.dtype == bool else mask != -np.inf
    leading = np.broadcast_shapes(q.shape[:-2], x.shape[:-2])
    everywhere = np.broadcast_to(allowed, (*leading, q.shape[-2], x.shape[-2]))         # (..., H, T, S)
    seen = np.expand_dims(everywhere.any(-2), -1)                                       # (..., H, S, 1)
    return np.where(seen, x, 0)


def attention_weights(q: np.ndarray, k: np.ndarray, mask: Mask = None) -> np.ndarray:
    """The masked softmax of the scores: (..., H, T, S)"""
    k_copies = repeat_kv(k, group_size(q, k))
    return masked_softmax(attention_scores(q, zero_unseen(k_copies, q, mask)), mask)


def attention_weights_adjoint(
    g: np.ndarray, q: np.ndarray, k: np.ndarray, mask: Mask = None
) -> tuple[np.ndarray, np.ndarray]:
    """Adjoint of `attention.attention_weights`.   g (..., H, T, S) -> dq (..., H, T, D), dk (..., Hkv, S, D)

    Back through the softmax, the scores, and the copying of heads. From the softmax, unseen keys get zero.
    """
    groups = group_size(q, k)
    k_copies = repeat_kv(k, groups)
    seen = zero_unseen(k_copies, q, mask)
    dscores = masked_softmax_adjoint(g, attention_scores(q, seen), mask)
    dq, dseen = attention_scores_adjoint(dscores, q, seen)
    return dq, repeat_kv_adjoint(like(dseen, k_copies), k, groups)


def scaled_dot_product_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Mask = None
) -> np.ndarray:
    """The forward values, for the adjoints that contain attention: (..., H, T, D)"""
    v_copies = repeat_kv(v, group_size(q, k))
    return attention_weights(q, k, mask) @ zero_unseen(v_copies, q, mask)


def scaled_dot_product_attention_adjoint(
    g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Mask = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `attention.scaled_dot_product_attention`.

    g (..., H, T, D), q (..., H, T, D), k and v (..., Hkv, S, D) -> dq, dk, dv

    out = weights v: dweights = g v' goes on back into q and k as above, and dv = weights' g is summed over
    the query heads that share a value head.
    """
    groups = group_size(q, k)
    v_copies = repeat_kv(v, groups)
    seen = zero_unseen(v_copies, q, mask)
    dweights, dseen = matmul_adjoint(g, attention_weights(q, k, mask), seen)
    dq, dk = attention_weights_adjoint(dweights, q, k, mask)
    return dq, dk, repeat_kv_adjoint(like(dseen, v_copies), v, groups)


def attention_with_dropout_adjoint(
    g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Mask = None, *, rate: float,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `attention.attention_with_dropout`, with an rng in the state the forward found.   Shapes as above.

    out = (kept * weights) v, with kept drawn once: it multiplies the weights for dv, and dweights on their way back.
    """
    groups = group_size(q, k)
    v_copies = repeat_kv(v, groups)
    seen = zero_unseen(v_copies, q, mask)
    weights = attention_weights(q, k, mask)
    kept = dropout_adjoint(np.ones_like(weights), weights, rate, rng)                   # 0 or 1 / (1 - rate)
    ddropped, dseen = matmul_adjoint(g, kept * weights, seen)
    dq, dk = attention_weights_adjoint(kept * ddropped, q, k, mask)
    return dq, dk, repeat_kv_adjoint(like(dseen, v_copies), v, groups)


def causal(length: int) -> np.ndarray:
    """True where position i may look at position j, j <= i: (T, T)"""
    return np.tri(length, dtype=bool)


def causal_attention_weights_adjoint(
    g: np.ndarray, x: np.ndarray, wq: np.ndarray, wk: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `attention.causal_attention_weights`.

    g (..., T, T), x (..., T, C), wq and wk (C, D) -> dx, dwq, dwk

    x makes the queries and the keys: dx is the sum of what comes back through both.
    """
    dq, dk = attention_weights_adjoint(g, x @ wq, x @ wk, causal(x.shape[-2]))
    dx_q, dwq = matmul_adjoint(dq, x, wq)
    dx_k, dwk = matmul_adjoint(dk, x, wk)
    return dx_q + dx_k, dwq, dwk


def causal_attention_adjoint(
    g: np.ndarray, x: np.ndarray, wq: np.ndarray, wk: np.ndarray, wv: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `attention.causal_attention`.

    g (..., T, D), x (..., T, C), wq wk wv (C, D) -> dx, dwq, dwk, dwv

    out = weights v: g goes back into the weights, and from there into x as above, and into v = x wv.
    """
    weights = attention_weights(x @ wq, x @ wk, causal(x.shape[-2]))
    dweights, dv = matmul_adjoint(g, weights, x @ wv)
    dx_weights, dwq, dwk = causal_attention_weights_adjoint(dweights, x, wq, wk)
    dx_v, dwv = matmul_adjoint(dv, x, wv)
    return dx_weights + dx_v, dwq, dwk, dwv
