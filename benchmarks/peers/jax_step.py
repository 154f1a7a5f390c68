"""The training step in JAX: one jitted function, its parameters and optimiser state donated."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.work import B1, B2, DECAY, EPS, RATE, Params, Run, Work
from minigrad_nn.model import Config
from minigrad_nn.rope import rope_table

__all__ = ["jit"]

jax.devices()  # starts the backend, which belongs to the import and not to the step

Array = jax.Array


def jit(**sizes: int) -> Run:
    """Run the step through jax.jit."""
    work = Work(**sizes)
    params = jax.tree.map(jnp.asarray, work.params())
    state = [params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.int32(0)]
    del params
    batches = [(jnp.asarray(ids, jnp.int32), jnp.asarray(targets, jnp.int32)) for ids, targets in work.batches]
    step = jax.jit(partial(_step, work.config), donate_argnums=(0, 1, 2, 3))

    def run(i: int) -> float:
        loss, *state[:] = step(*state, *batches[i % len(batches)])
        jax.block_until_ready(state)
        return float(loss)

    return run


def _step(c: Config, params: Params, mean: Params, square: Params, t: Array, ids: Array, targets: Array) -> Any:
    loss, grads = jax.value_and_grad(_loss)(params, ids, targets, c)
    t = t + 1
    mean = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, mean, grads)
    square = jax.tree.map(lambda s, g: B2 * s + (1 - B2) * g * g, square, grads)

    def new(p: Array, m: Array, s: Array) -> Array:
        kept = (1 - RATE * DECAY) * p if p.ndim >= 2 else p
        return kept - RATE * (m / (1 - B1**t)) / (jnp.sqrt(s / (1 - B2**t)) + EPS)

    return loss, jax.tree.map(new, params, mean, square), mean, square, t


def _loss(params: Params, ids: Array, targets: Array, c: Config) -> Array:
    rope = rope_table(c.context, c.head_dim, c.theta)
    x = params["embedding"][ids]
    for block in params["blocks"]:
        x = x + _attention(_norm(x, block["attention_norm"], c), block["attention"], rope, c)
        h, mlp = _norm(x, block["mlp_norm"], c), block["mlp"]
        x = x + (jax.nn.silu(h @ mlp["gate"]) * (h @ mlp["up"])) @ mlp["down"]
    logits = _norm(x, params["norm"], c) @ params["embedding"].T
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def _norm(x: Array, weight: Array, c: Config) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + c.norm_eps) * weight


def _attention(x: Array, p: dict[str, Array], rope: tuple[Any, Any], c: Config) -> Array:
    """Attend, the queries that share a key head folded into one product.

    That is 5 % of the step faster here than jax.nn.dot_product_attention.
    """
    batch, length, groups = *x.shape[:-1], c.n_head // c.n_kv_head

    def heads(weight: Array) -> Array:
        return (x @ weight).reshape(batch, length, -1, c.head_dim).swapaxes(1, 2)  # (B, H, T, D)

    q = _rotate(_norm(heads(p["q"]), p["q_norm"], c), *rope)
    k = _rotate(_norm(heads(p["k"]), p["k_norm"], c), *rope)
    q = q.reshape(batch, c.n_kv_head, groups * length, c.head_dim)
    scores = (q @ k.mT / math.sqrt(c.head_dim)).reshape(batch, c.n_head, length, length)
    weights = jax.nn.softmax(jnp.where(np.tri(length, dtype=bool), scores, -jnp.inf))
    out = weights.reshape(batch, c.n_kv_head, groups * length, length) @ heads(p["v"])
    return out.reshape(batch, c.n_head, length, c.head_dim).swapaxes(1, 2).reshape(batch, length, -1) @ p["o"]


def _rotate(x: Array, cos: Any, sin: Any) -> Array:
    x1, x2 = jnp.split(x, 2, -1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)
