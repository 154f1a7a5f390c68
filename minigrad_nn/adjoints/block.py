"""Adjoints of multi-head attention and of the transformer block, by the chain rule from those of their parts.

T queries   S keys   C channels   H query heads   Hkv key heads   D channels per head   (...) any leading axes
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import numpy as np

from minigrad_nn.adjoints.attention import (
    attention_with_dropout_adjoint,
    scaled_dot_product_attention,
    scaled_dot_product_attention_adjoint,
)
from minigrad_nn.adjoints.dense import linear, linear_adjoint, swiglu_adjoint
from minigrad_nn.adjoints.norms import rms_norm, rms_norm_adjoint, zero_centred_rms_norm_adjoint
from minigrad_nn.adjoints.rope import rotate_half_split, rotate_half_split_adjoint, rotate_interleaved_adjoint

Weights = dict[str, np.ndarray]
Rope = tuple[np.ndarray, np.ndarray] | None

# multi_head_attention is given its norm, rotation and attention as functions; their adjoints are found by name.
ADJOINTS: dict[str, Callable] = {
    "attention_with_dropout": attention_with_dropout_adjoint,
    "rms_norm": rms_norm_adjoint,
    "zero_centred_rms_norm": zero_centred_rms_norm_adjoint,
    "rotate_half_split": rotate_half_split_adjoint,
    "rotate_interleaved": rotate_interleaved_adjoint,
    "scaled_dot_product_attention": scaled_dot_product_attention_adjoint,
}


def adjoint_of(forward: Callable) -> Callable:
    """The adjoint of a norm, a rotation or an attention, which may be a partial, such as a norm with another eps.

    Raises ValueError for a function which has none here.
    """
    if isinstance(forward, partial):
        return partial(adjoint_of(forward.func), **forward.keywords)
    name = getattr(forward, "__name__", repr(forward))
    if name not in ADJOINTS:
        raise ValueError(
            f"norm, rotate and attend should have a reference adjoint, as {', '.join(ADJOINTS)} do, got {name}; "
            "write its adjoint by hand and add it to minigrad_nn.adjoints.block.ADJOINTS"
        )
    return ADJOINTS[name]


def split_heads(x: np.ndarray, head_dim: int) -> np.ndarray:
    """(..., T, H*D) -> (..., H, T, D)"""
    return x.reshape(*x.shape[:-1], -1, head_dim).swapaxes(-2, -3)


def join_heads(x: np.ndarray) -> np.ndarray:
    """(..., H, T, D) -> (..., T, H*D): the inverse of `split_heads`; as entries just move, its adjoint."""
    x = x.swapaxes(-2, -3)
    return x.reshape(*x.shape[:-2], -1)


def heads_of(
    x: np.ndarray, weights: Weights, name: str, head_dim: int, rope: Rope, rotate: Callable, norm: Callable
) -> np.ndarray:
    """x as the heads of "q", "k" or "v": projected, and normalised and turned if weights and rope say so.

    x (..., T, C) -> (..., heads, T, D)
    """
    heads = split_heads(linear(x, weights[name], weights.get(f"{name}_bias")), head_dim)
    if f"{name}_norm" in weights:
        heads = norm(heads, weights[f"{name}_norm"])
    return heads if rope is None else rotate(heads, *rope)


def heads_of_adjoint(
    g: np.ndarray, x: np.ndarray, weights: Weights, name: str, head_dim: int, rope: Rope, rotate: Callable,
    norm: Callable,
) -> tuple[np.ndarray, Weights]:
    """The steps of `heads_of` backwards.   g (..., heads, T, D) -> dx (..., T, C), dweights of `name`"""
    dweights: Weights = {}
    gain = weights.get(f"{name}_norm")
    if rope is not None:
        g, _, _ = adjoint_of(rotate)(g, heads_of(x, weights, name, head_dim, None, rotate, norm), *rope)
    if gain is not None:
        projected = split_heads(linear(x, weights[name], weights.get(f"{name}_bias")), head_dim)
        g, dweights[f"{name}_norm"] = adjoint_of(norm)(g, projected, gain)
    dx, dlinear = named_linear_adjoint(join_heads(g), x, weights, name)
    return dx, dweights | dlinear


def named_linear_adjoint(
    g: np.ndarray, x: np.ndarray, weights: Weights, name: str
) -> tuple[np.ndarray, Weights]:
    """Adjoint of x @ weights[name], plus a bias if there is one: dx, and the gradients under their names."""
    bias = weights.get(f"{name}_bias")
    dx, *rest = linear_adjoint(g, x, weights[name], bias)
    return dx, dict(zip([name] if bias is None else [name, f"{name}_bias"], rest, strict=True))


def multi_head_attention(
    x: np.ndarray, weights: Weights, head_dim: int, mask: np.ndarray | None = None,
    rope: Rope = None, norm: Callable = rms_norm,
) -> np.ndarray:
    """The forward values of self-attention, for the adjoint of the block."""
    q = heads_of(x, weights, "q", head_dim, rope, rotate_half_split, norm)
    k = heads_of(x, weights, "k", head_dim, rope, rotate_half_split, norm)
    v = heads_of(x, weights, "v", head_dim, None, rotate_half_split, norm)
    joined = join_heads(scaled_dot_product_attention(q, k, v, mask))
    return linear(joined, weights["o"], weights.get("o_bias"))


def multi_head_attention_adjoint(
    g: np.ndarray, x: np.ndarray, weights: Weights, head_dim: int, mask: np.ndarray | None = None,
    q_rope: Rope = None, k_rope: Rope = None, *, context: np.ndarray | None = None,
    rotate: Callable = rotate_half_split, norm: Callable = rms_norm, attend: Callable = scaled_dot_product_attention,
) -> tuple:
    """Adjoint of the first result of `attention.multi_head_attention`, without a cache.

    g (..., T, C), x (..., T, C), context (..., S, C) -> dx, dweights, and dcontext where there is a context

    Backwards: the output projection, the joining of heads, attention, then three ways from heads to their
    source: x for the queries; context, or else x, for keys and values. The ways to one source add up.
    """
    source = x if context is None else context
    q = heads_of(x, weights, "q", head_dim, q_rope, rotate, norm)                       # (..., H, T, D)
    k = heads_of(source, weights, "k", head_dim, k_rope, rotate, norm)                  # (..., Hkv, S, D)
    v = heads_of(source, weights, "v", head_dim, None, rotate, norm)
    # on a copy: the adjoint must find a generator in the state that the forward found
    joined = join_heads(deepcopy(attend)(q, k, v, mask))                                # (..., T, H*D)

    djoined, dw_o = named_linear_adjoint(g, joined, weights, "o")
    dq, dk, dv = adjoint_of(attend)(split_heads(djoined, head_dim), q, k, v, mask)
    dx_q, dw_q = heads_of_adjoint(dq, x, weights, "q", head_dim, q_rope, rotate, norm)
    dx_k, dw_k = heads_of_adjoint(dk, source, weights, "k", head_dim, k_rope, rotate, norm)
    dx_v, dw_v = heads_of_adjoint(dv, source, weights, "v", head_dim, None, rotate, norm)

    gathered = dw_q | dw_k | dw_v | dw_o
    dweights = {name: gathered[name] for name in weights}                               # in their order
    if context is None:
        return dx_q + dx_k + dx_v, dweights
    return dx_q, dweights, dx_k + dx_v


def block_adjoint(
    g: np.ndarray, x: np.ndarray, params: dict, head_dim: int, mask: np.ndarray | None = None,
    rope: Rope = None, *, eps: float = 1e-6,
) -> tuple[np.ndarray, dict]:
    """Adjoint of the first result of `model.block`, without a cache.   g, x (..., T, C) -> dx, dparams

    h = x + attention(norm(x)),  out = h + mlp(norm(h)).  Each sum hands g to both of its terms, so g
    reaches x along the residual path unchanged and gains what comes back through each branch.
    """
    norm, norm_adjoint = partial(rms_norm, eps=eps), partial(rms_norm_adjoint, eps=eps)
    weights, mlp = params["attention"], params["mlp"]
    normed_x = norm(x, params["attention_norm"])
    h = x + multi_head_attention(normed_x, weights, head_dim, mask, rope, norm)
    normed_h = norm(h, params["mlp_norm"])

    dnormed_h, dgate, dup, ddown = swiglu_adjoint(g, normed_h, mlp["gate"], mlp["up"], mlp["down"])
    dh_branch, dmlp_norm = norm_adjoint(dnormed_h, h, params["mlp_norm"])
    dh = g + dh_branch
    dnormed_x, dattention = multi_head_attention_adjoint(
        dh, normed_x, weights, head_dim, mask, rope, rope, norm=norm
    )
    dx_branch, dattention_norm = norm_adjoint(dnormed_x, x, params["attention_norm"])
    dx = dh + dx_branch

    return dx, {
        "attention_norm": dattention_norm,
        "attention": dattention,
        "mlp_norm": dmlp_norm,
        "mlp": {"gate": dgate, "up": dup, "down": ddown},
    }
