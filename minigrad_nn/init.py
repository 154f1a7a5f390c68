"""The first parameters of a model, and the shapes they have."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad_nn.model import Config

__all__ = ["init", "template"]


def init(config: Config, rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Any]:
    """Return random parameters.

        {"embedding": (V, C), "blocks": [...], "norm": (C,)}, and "head": (C, V) unless tied

    Every gain is 1. A matrix (in, out) is normal with standard deviation 1 / sqrt(in), so that it keeps the
    scale of its input; the two that add to the residual stream are sqrt(2 n_layer) times smaller, so that the
    stream keeps its scale however deep the model is (Radford et al. 2019). The embedding is normal with
    deviation 1 / sqrt(C): as the head it then gives logits of scale 1.
    """

    def matrix(rows: int, columns: int, fan: int, residual: bool) -> np.ndarray:
        deviation = 1 / math.sqrt(fan * (2 * config.n_layer if residual else 1))
        return (rng.standard_normal((rows, columns)) * deviation).astype(dtype)

    return _assemble(config, matrix, lambda size: np.ones(size, dtype))


def template(config: Config) -> dict[str, Any]:
    """Return the structure of the parameters, with arrays of the right shapes that hold nothing."""
    zero = np.float32(0)
    return _assemble(
        config,
        lambda rows, columns, fan, residual: np.broadcast_to(zero, (rows, columns)),
        lambda size: np.broadcast_to(zero, (size,)),
    )


def _assemble(
    config: Config, matrix: Callable[[int, int, int, bool], np.ndarray], gain: Callable[[int], np.ndarray]
) -> dict[str, Any]:
    width, hidden = config.width, config.hidden_size

    def linear(n_in: int, n_out: int, residual: bool = False) -> np.ndarray:
        return matrix(n_in, n_out, n_in, residual)

    def block() -> dict[str, Any]:
        attention = {
            "q": linear(width, config.q_size),
            "k": linear(width, config.kv_size),
            "v": linear(width, config.kv_size),
            "o": linear(config.q_size, width, residual=True),
        }
        if config.qk_norm:
            attention |= {"q_norm": gain(config.head_dim), "k_norm": gain(config.head_dim)}
        mlp = {
            "gate": linear(width, hidden),
            "up": linear(width, hidden),
            "down": linear(hidden, width, residual=True),
        }
        return {"attention_norm": gain(width), "attention": attention, "mlp_norm": gain(width), "mlp": mlp}

    params = {
        "embedding": matrix(config.vocab_size, width, width, False),
        "blocks": [block() for _ in range(config.n_layer)],
        "norm": gain(width),
    }
    return params if config.tied else params | {"head": linear(width, config.vocab_size)}
