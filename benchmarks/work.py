"""The work that is timed: one training step of the decoder, forward, backward and AdamW, in float32.

A contender is a function that gets the sizes and returns `run(i)`, which does step i and returns its loss. All start
from the same weights and see the same tokens, so their losses must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minigrad
from minigrad import tree
from minigrad.compiler import compile
from minigrad_nn import model
from minigrad_nn.init import init
from minigrad_nn.process import keep_freed_memory

__all__ = ["SIZES", "Run", "Work", "adamw", "compiled_llvm", "compiled_numpy", "eager"]

Run = Callable[[int], Any]
Params = Any  # a tree of arrays

SIZES: dict[str, dict[str, int]] = {
    "XS": {"batch": 4, "length": 32, "n_layer": 2, "width": 64, "n_head": 2, "n_kv_head": 1, "hidden": 192},
    "S": {"batch": 12, "length": 64, "n_layer": 4, "width": 128, "n_head": 4, "n_kv_head": 2, "hidden": 384},
    "M": {
        "batch": 4, "length": 256, "n_layer": 6, "width": 384, "n_head": 6, "n_kv_head": 2, "hidden": 1024,
        "head_dim": 64,
    },
}  # fmt: skip

RATE, B1, B2, EPS, DECAY = 1e-3, 0.9, 0.95, 1e-8, 0.1
BATCHES = 16  # different ones; step i sees the i-th, modulo this
VOCABULARY = 96


class Work:
    """The weights and the tokens of a size.

    Parameters
    ----------
    batch, length
        Sequences a step, and tokens in each.
    **sizes
        Those of `minigrad_nn.model.Config`.
    """

    def __init__(self, batch: int, length: int, **sizes: int) -> None:
        self.config = model.Config(vocab_size=VOCABULARY, context=length, **sizes)
        rng = np.random.default_rng(1)
        tokens = rng.integers(0, VOCABULARY, (BATCHES, batch, length + 1))
        self.batches = [(np.ascontiguousarray(t[:, :-1]), np.ascontiguousarray(t[:, 1:])) for t in tokens]

    def params(self) -> Params:
        """Return the first weights, new arrays at each call: {"embedding", "blocks", "norm"}, all float32."""
        return init(self.config, np.random.default_rng(0))

    def batch(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and targets of step i, each (batch, length) int64."""
        return self.batches[i % BATCHES]


def adamw(
    grads: Params, params: Params, mean: Params, square: Params, factors: np.ndarray
) -> tuple[Params, Params, Params]:
    """Return new params, mean and square; only matrices decay.

    The step appears in the factors only, an array, so that a compiled step serves all steps: see `adamw_factors`.
    """
    mean = tree.map(lambda m, g: B1 * m + (1 - B1) * g, mean, grads)
    square = tree.map(lambda s, g: B2 * s + (1 - B2) * (g * g), square, grads)

    def new(p: Any, m: Any, s: Any) -> Any:
        kept = factors[2] * p if p.ndim >= 2 else p
        return kept - factors[0] * (m / (np.sqrt(s) + factors[1]))

    return tree.map(new, params, mean, square), mean, square


def adamw_factors(i: int) -> np.ndarray:
    """Return rate and eps of step i, counted from 0, corrected for means that began at 0, and what decay keeps."""
    t = i + 1
    correction = (1 - B2**t) ** 0.5
    return np.array([RATE * correction / (1 - B1**t), EPS * correction, 1 - RATE * DECAY], np.float32)


def training_step(config: model.Config) -> Callable[..., tuple[Any, Params, Params, Params]]:
    """Return step(params, mean, square, ids, targets, factors) -> loss, params, mean, square."""

    def step(params: Params, mean: Params, square: Params, ids: Any, targets: Any, factors: Any) -> Any:
        loss, grads = minigrad.value_and_grad(model.loss, params, ids, targets, config)
        return loss, *adamw(grads, params, mean, square, factors)

    return step


def eager(**sizes: int) -> Run:
    """Run the tape at every step, with the setting of the C library's allocator that `minigrad_nn train` has."""
    keep_freed_memory()
    work = Work(**sizes)
    return _run(work, training_step(work.config))


def compiled_numpy(**sizes: int) -> Run:
    """Run the compiled step in NumPy alone."""
    work = Work(**sizes)
    return _run(work, compile(training_step(work.config), donate=(0, 1, 2), backend="numpy"))


def compiled_llvm(**sizes: int) -> Run:
    """Run the compiled step with kernels of machine code."""
    work = Work(**sizes)
    return _run(work, compile(training_step(work.config), donate=(0, 1, 2), backend="llvm"))


def _run(work: Work, step: Callable[..., tuple[Any, Params, Params, Params]]) -> Run:
    params = work.params()
    state = [params, tree.map(np.zeros_like, params), tree.map(np.zeros_like, params)]
    del params

    def run(i: int) -> float:
        ids, targets = work.batch(i)
        loss, *state[:] = step(*state, ids, targets, adamw_factors(i))
        return float(loss)

    return run
