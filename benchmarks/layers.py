"""Layers: the generated and compiled gradient against the adjoint of the same layer written by hand in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np

from benchmarks.bars import Row, row_of_ratio
from benchmarks.race import FAST, Contender, Hall, disagreement, race
from benchmarks.step import open_all
from benchmarks.work import SIZES, Run, Work
from minigrad import vjp
from minigrad.compiler import compile
from minigrad_nn import adjoints, layers
from minigrad_nn.attention import scaled_dot_product_attention
from minigrad_nn.masks import additive_mask, causal_mask

__all__ = ["BARS", "compiled", "hand", "measure_layers"]

BARS = {"rms_norm": 0.35, "softmax": 0.35, "swiglu": 0.35, "cross_entropy": 0.35, "grouped_query_attention": 0.60}
HAND, NUMPY, LLVM = "by hand", "compiled, NumPy", "compiled, LLVM"
AGREEMENT = 1e-3  # of each gradient's product with random numbers, in float32

Gradient = Callable[..., Any]  # (g, *inputs) -> one gradient for each input


def hand(layer: str, size: str) -> Run:
    """Run the hand-written adjoint."""
    _, gradient, arguments = case(layer, size)
    return lambda i: gradient(*arguments)


def compiled(layer: str, size: str, backend: str) -> Run:
    """Run the generated one, compiled."""
    forward, _, arguments = case(layer, size)

    def gradient(g: Any, *inputs: Any) -> Any:
        return vjp(forward, *inputs)[1](g)

    run = compile(gradient, backend=backend)
    return lambda i: run(*arguments)


def case(layer: str, size: str) -> tuple[Callable[..., Any], Gradient, list[np.ndarray]]:
    """Return a layer, its hand-written adjoint, and arguments for that, (g, *inputs), at the sizes of a model."""
    batch, length = SIZES[size]["batch"], SIZES[size]["length"]
    config = Work(**SIZES[size]).config
    rng = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    x = array(batch, length, config.width)
    if layer == "rms_norm":
        return layers.rms_norm, adjoints.rms_norm_adjoint, [array(*x.shape), x, array(config.width)]
    if layer == "softmax":
        scores = array(batch, config.n_head, length, length)
        return layers.softmax, adjoints.softmax_adjoint, [array(*scores.shape), scores]
    if layer == "swiglu":
        into = [array(config.width, config.hidden_size) for _ in range(2)]
        return layers.swiglu, adjoints.swiglu_adjoint, [array(*x.shape), x, *into, array(*into[0].shape[::-1])]
    if layer == "cross_entropy":
        targets = rng.integers(0, config.vocab_size, (batch, length))
        logits = array(batch, length, config.vocab_size)
        return (
            lambda z: layers.cross_entropy(z, targets),
            lambda g, z: adjoints.cross_entropy_adjoint(g, z, targets),
            [array()[()], logits],
        )
    if layer == "grouped_query_attention":
        mask = additive_mask(causal_mask(length))
        q = array(batch, config.n_head, length, config.head_dim)
        k, v = (array(batch, config.n_kv_head, length, config.head_dim) for _ in range(2))
        return (
            lambda q, k, v: scaled_dot_product_attention(q, k, v, mask),
            lambda g, q, k, v: adjoints.scaled_dot_product_attention_adjoint(g, q, k, v, mask),
            [array(*q.shape), q, k, v],
        )
    raise ValueError(f"no layer {layer!r}; there are {', '.join(BARS)}")


def contenders(layer: str, size: str) -> list[Contender]:
    """Return the three for one layer."""
    what = {"layer": layer, "size": size}
    return [
        Contender(HAND, "benchmarks.layers:hand", what),
        Contender(NUMPY, "benchmarks.layers:compiled", {**what, "backend": "numpy"}),
        Contender(LLVM, "benchmarks.layers:compiled", {**what, "backend": "llvm"}, FAST),
    ]


def measure_layers(
    hall: Hall, sizes: list[str], rounds: int, only: Iterable[str] = tuple(BARS)
) -> tuple[dict[str, Any], list[Row]]:
    """Return the times of each layer at each size, and the rows of the table.

    Raises
    ------
    AssertionError
        If a compiled gradient is not the one written by hand.
    """
    data: dict[str, Any] = {}
    rows: list[Row] = []
    for size in sizes:
        for layer in only:
            with ExitStack() as stack:
                workers, _ = open_all(stack, hall, contenders(layer, size), f"{layer} {size}")
                for name, worker in workers.items():
                    got, wanted = worker.first["numbers"], workers[HAND].first["numbers"]
                    if not disagreement(got, wanted) <= AGREEMENT:
                        raise AssertionError(f"{layer} {size}, {name}: gradients give {got}, by hand {wanted}")
                times = race(workers, rounds, turn=0.1)
            data[f"{layer} {size}"] = {"seconds": times}
            for name in (LLVM, NUMPY):
                for row in row_of_ratio(times, name, HAND, size, BARS[layer] if name == LLVM else None):
                    rows.append(Row(f"{layer}: {row.what}", size, row.bar, row.measured, spread=row.spread))
            print(f"{layer} {size} done", flush=True)
    return data, rows
