"""A decoder-only transformer in plain NumPy: it runs on arrays and on Tensors alike.

B batch   T time   S keys, past ones included   C width   H heads   D channels per head   V vocabulary
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from minigrad.errors import MinigradError, ShapeError
from minigrad_nn.attention import multi_head_attention
from minigrad_nn.layers import cross_entropy, embedding, rms_norm, swiglu, swiglu_hidden_size
from minigrad_nn.masks import additive_mask, causal_mask, position_ids
from minigrad_nn.rope import rope_at, rope_table

__all__ = ["Cache", "Config", "ConfigError", "block", "decode", "logits", "loss"]

Array = Any  # an ndarray or a Tensor
Rope = tuple[np.ndarray, np.ndarray]  # cos and sin, each (..., T, D/2)
KeysValues = tuple[np.ndarray, np.ndarray]  # the cache of one layer: each (B, Hkv, S, D), keys after RoPE


class ConfigError(MinigradError, ValueError):
    """Sizes that do not make a model."""


@dataclass(frozen=True)
class Config:
    """The sizes of a model, by default those of the main job. `head_dim` does not depend on the width."""

    vocab_size: int
    n_layer: int = 4
    width: int = 128  # C, the residual stream
    n_head: int = 4  # query heads
    n_kv_head: int = 2  # heads of keys and values, each shared by n_head / n_kv_head query heads
    head_dim: int = 32  # D
    hidden: int | None = None  # between the MLP's matrices; None: 8/3 of the width, rounded up to 64
    context: int = 64  # the longest sequence the model is trained on and generates from
    theta: float = 10000.0  # base of the rotary wavelengths
    qk_norm: bool = True  # RMSNorm over D on queries and keys
    tied: bool = True  # the embedding is also the output head
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("vocab_size", "n_layer", "width", "n_head", "n_kv_head", "head_dim", "context"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"Config: {name} should be a positive integer, got {value!r}")
        if self.n_head % self.n_kv_head:
            raise ConfigError(
                "Config: each key head serves a whole group of query heads, so n_head should be a multiple "
                f"of n_kv_head; got {self.n_head} and {self.n_kv_head}"
            )
        if self.head_dim % 2:
            raise ConfigError(f"Config: RoPE rotates pairs, so head_dim should be even, got {self.head_dim}")
        if self.hidden is not None and (not isinstance(self.hidden, int) or self.hidden < 1):
            raise ConfigError(f"Config: hidden should be a positive integer or None, got {self.hidden!r}")
        if not (0 < self.theta < math.inf and 0 < self.norm_eps < math.inf):
            raise ConfigError(
                f"Config: theta and norm_eps should be positive and finite, got {self.theta!r} and {self.norm_eps!r}"
            )
        for name in ("qk_norm", "tied"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"Config: {name} should be True or False, got {getattr(self, name)!r}")

    @property
    def hidden_size(self) -> int:
        """The MLP's inner width."""
        return swiglu_hidden_size(self.width) if self.hidden is None else self.hidden

    @property
    def q_size(self) -> int:
        """All query heads side by side: H * D."""
        return self.n_head * self.head_dim

    @property
    def kv_size(self) -> int:
        """All key heads side by side."""
        return self.n_kv_head * self.head_dim


def block(
    x: Array,
    params: dict[str, Any],
    head_dim: int,
    mask: np.ndarray | None = None,
    rope: Rope | None = None,
    cache: KeysValues | None = None,
    eps: float = 1e-6,
) -> tuple[Array, tuple[Array, Array]]:
    """Attention, then the MLP, each normalising its input and adding to the residual stream.

        h = x + attention(rms_norm(x));     h + swiglu(rms_norm(h))

    x (B, T, C) -> (B, T, C) and this layer's keys and values, past ones included.
    Xiong et al. 2020, arXiv:2002.04745

    Parameters
    ----------
    params
        {"attention_norm": (C,), "attention": weights of `multi_head_attention`, "mlp_norm": (C,),
        "mlp": {"gate": (C, hidden), "up": (C, hidden), "down": (hidden, C)}}
    """
    norm, mlp = partial(rms_norm, eps=eps), params["mlp"]
    attended, keys_values = multi_head_attention(
        norm(x, params["attention_norm"]),
        params["attention"],
        head_dim,
        mask=mask,
        q_rope=rope,
        k_rope=rope,
        cache=cache,
        norm=norm,
    )
    h = x + attended
    return h + swiglu(norm(h, params["mlp_norm"]), mlp["gate"], mlp["up"], mlp["down"]), keys_values


def logits(params: dict[str, Any], ids: np.ndarray, config: Config) -> Array:
    """Return the scores of every next token: ids (..., T) integers -> (..., T, V)."""
    length, dtype = ids.shape[-1], params["embedding"].dtype
    rope = _rope(length, config.head_dim, config.theta, dtype)
    return _run(params, ids, config, _causal(length, dtype), rope, [None] * config.n_layer)[0]


def loss(params: dict[str, Any], ids: np.ndarray, targets: np.ndarray, config: Config) -> Array:
    """Return the mean cross-entropy, in nats, of targets (B, T): targets[t] is what follows ids[t]."""
    return cross_entropy(logits(params, ids, config), targets)


class Cache(NamedTuple):
    """What decoding keeps of the tokens it has read."""

    layers: list[KeysValues]
    position: int  # of the next token: it counts the evicted ones too, so it is not the number of rows held

    @property
    def held(self) -> int:
        """The number of tokens whose keys and values are there."""
        return self.layers[0][0].shape[-2]

    def last(self, n: int) -> "Cache":
        """Return the cache without all but the last n tokens; positions stay what they were."""
        if n >= self.held:
            return self
        at = self.held - n
        return Cache([(k[..., at:, :], v[..., at:, :]) for k, v in self.layers], self.position)


def decode(
    params: dict[str, Any],
    ids: np.ndarray,
    config: Config,
    cache: Cache | None = None,
    real: np.ndarray | None = None,
) -> tuple[np.ndarray, Cache]:
    """Return the logits of the new tokens, and the cache for the next call.

    Fed in pieces of any lengths, the logits are those of the whole. The cache is returned, never changed.

    Parameters
    ----------
    ids
        The new tokens, (B, T).
    cache
        What the previous call returned. None at the beginning.
    real
        Which tokens, from the first one on, are not padding: bool (B, position + T). A row's positions count its
        real tokens only, so a prompt padded on the left gets the logits it gets alone.

    Raises
    ------
    ShapeError
        If `real` has another shape or dtype.
    """
    past, held = (0, 0) if cache is None else (cache.position, cache.held)
    length, dtype = ids.shape[-1], params["embedding"].dtype
    if real is not None and (real.dtype != bool or real.shape != (*ids.shape[:-1], past + length)):
        raise ShapeError(
            f"decode: real should be {(*ids.shape[:-1], past + length)} bool, one for each token from the first on, "
            f"got {real.shape} {real.dtype}"
        )
    mask = None if length == 1 else causal_mask(length, held)  # a single new token sees everything
    if real is None:
        rope = rope_table(length, config.head_dim, config.theta, past, dtype)
    else:
        positions = position_ids(real)[:, None, past:]  # (B, 1, T)
        rope = rope_at(positions, config.head_dim, config.theta, dtype)
        seen = real[:, None, None, past - held :]  # (B, 1, 1, S)
        mask = seen if mask is None else mask & seen
    caches = [None] * config.n_layer if cache is None else cache.layers
    scores, layers = _run(params, ids, config, mask, rope, caches)
    return scores, Cache(layers, past + length)


def _run(
    params: Any,
    ids: np.ndarray,
    config: Config,
    mask: np.ndarray | None,
    rope: Rope,
    caches: Sequence[KeysValues | None],
) -> tuple[Any, list[Any]]:
    x = embedding(params["embedding"], ids)  # (..., T, C)
    kept = []
    for layer, cache in zip(params["blocks"], caches, strict=True):
        x, keys_values = block(x, layer, config.head_dim, mask, rope, cache, config.norm_eps)
        kept.append(keys_values)
    head = params["embedding"].T if config.tied else params["head"]  # (C, V)
    return rms_norm(x, params["norm"], config.norm_eps) @ head, kept


# Every layer of every step uses the same few tables, so they are made once per length, and read-only.


@lru_cache(maxsize=8)
def _rope(length: int, head_dim: int, theta: float, dtype: np.dtype) -> Rope:
    cos, sin = rope_table(length, head_dim, theta, dtype=dtype)
    cos.flags.writeable = sin.flags.writeable = False
    return cos, sin


@lru_cache(maxsize=8)
def _causal(length: int, dtype: np.dtype) -> np.ndarray:
    mask = additive_mask(causal_mask(length), dtype)  # a sum, and its gradient, is cheaper than a choice
    mask.flags.writeable = False
    return mask
