"""Attention over long sequences: time against PyTorch's, and memory from 512 to 8192 tokens."""

from __future__ import annotations

from contextlib import ExitStack
from math import log2
from typing import Any

import numpy as np

from benchmarks.bars import Row, row_of_ratio
from benchmarks.race import FAST, Contender, Hall, Worker, disagreement, race
from benchmarks.step import open_all
from benchmarks.work import Run
from minigrad import vjp
from minigrad.compiler import compile
from minigrad_nn.process import keep_freed_memory
from minigrad_nn.tiled import tiled_attention

__all__ = ["LENGTHS", "compiled", "eager", "inputs", "measure_attention"]

LENGTHS = (512, 1024, 2048, 4096, 8192)
TIMED = 4096
HEADS, HEAD_DIM = 4, 64  # width 256, batch 1
EAGER, NUMPY, LLVM = "tiled, eager", "tiled, compiled, NumPy", "tiled, compiled, LLVM"
TORCH = "PyTorch SDPA"
LINEAR = 1.1  # bytes ~ tokens ** exponent: the most that a line has, give or take what does not grow evenly
AGREEMENT = 1e-3


def inputs(length: int) -> list[np.ndarray]:
    """Return the gradient of the result, q, k and v, each (1, heads, length, channels) float32."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((1, HEADS, length, HEAD_DIM), np.float32) for _ in range(4)]


def eager(length: int) -> Run:
    """Run the tape over `tiled_attention`."""
    keep_freed_memory()
    arguments = inputs(length)
    return lambda i: _forward_and_back(*arguments)


def compiled(length: int, backend: str) -> Run:
    """Run it compiled."""
    arguments, run = inputs(length), compile(_forward_and_back, backend=backend)
    return lambda i: run(*arguments)


def _forward_and_back(g: Any, q: Any, k: Any, v: Any) -> list[Any]:
    out, pull = vjp(tiled_attention, q, k, v)
    return [out, *pull(g)]


def contenders(length: int) -> list[Contender]:
    """Return all of them."""
    what = {"length": length}
    return [
        Contender(EAGER, "benchmarks.attention:eager", what),
        Contender(NUMPY, "benchmarks.attention:compiled", {**what, "backend": "numpy"}),
        Contender(LLVM, "benchmarks.attention:compiled", {**what, "backend": "llvm"}, FAST),
        Contender(TORCH, "benchmarks.peers.torch_attention:sdpa", what, ("torch",)),
    ]


def measure_attention(
    hall: Hall, rounds: int, lengths: tuple[int, ...] = LENGTHS, timed: int = TIMED
) -> tuple[dict[str, Any], list[Row]]:
    """Return the peak memory at each length, the times at one of them, and the rows of the table.

    Raises
    ------
    AssertionError
        If results or gradients differ.
    """
    data: dict[str, Any] = {"peak_bytes": {}}
    rows: list[Row] = []
    for length in lengths:
        with ExitStack() as stack:
            workers, data["left_out"] = open_all(stack, hall, contenders(length), f"attention {length}")
            _agree(workers, length)
            if length == timed:
                times = data["seconds"] = race(workers, rounds)
                for name in (LLVM, NUMPY, EAGER):
                    bar = 1.0 if name == LLVM else None
                    rows += row_of_ratio(times, name, TORCH, f"T = {length}", bar)
            data["peak_bytes"][length] = {name: worker.peaks()["all"] for name, worker in workers.items()}
        print(f"attention {length}: done", flush=True)
    *_, short, long = lengths  # at the long end, where what does not grow weighs least
    for name in (LLVM, NUMPY, EAGER, TORCH):
        few, many = (data["peak_bytes"][n].get(name) for n in (short, long))
        if few and many:
            exponent = log2(many / few) / log2(long / short)
            bar = None if name == TORCH else LINEAR
            rows.append(Row(f"exponent of memory, {name}", f"T = {short}..{long}", bar, exponent))
    return data, rows


def _agree(workers: dict[str, Worker], length: int) -> None:
    for name, worker in workers.items():
        got, wanted = worker.first["numbers"], workers[EAGER].first["numbers"]
        if not disagreement(got, wanted) <= AGREEMENT:
            raise AssertionError(f"attention over {length} tokens: {name} gives {got}, {EAGER} gives {wanted}")
