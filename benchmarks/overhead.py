"""Overhead: an op on a small array, recorded and differentiated, against NumPy's own calls and against autograd.

Each contender runs a chain of one op and its reverse. "numpy" makes by hand the calls that the op and its adjoint
consist of; what the others take more is their overhead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from typing import Any

import numpy as np

from benchmarks.bars import Row
from benchmarks.race import Contender, Hall, Times, disagreement, race
from benchmarks.step import open_all
from benchmarks.work import Run

__all__ = ["LINKS", "autograd", "measure_overhead", "minigrad", "numpy"]

N = 400  # ops in a chain
NUMPY, MINIGRAD, AUTOGRAD = "NumPy's calls", "minigrad", "autograd"
BAR_MICROSECONDS, BAR_RATIO = 5.0, 0.5
AGREEMENT = 1e-6

W = np.random.default_rng(0).standard_normal((8, 8)) / 8**0.5

# op -> (forward(np, x), adjoint(g, x, out)); shapes stay as they are, so that links make a chain
LINKS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "add": (lambda np, x: x + 0.1, lambda g, x, out: g),
    "multiply": (lambda np, x: x * 1.0001, lambda g, x, out: g * 1.0001),
    "sin": (lambda np, x: np.sin(x), lambda g, x, out: g * np.cos(x)),
    "tanh": (lambda np, x: np.tanh(x), lambda g, x, out: g * (1 - out * out)),
    "matmul": (lambda np, x: np.matmul(x, W), lambda g, x, out: np.matmul(g, W.T)),
    "transpose": (lambda np, x: np.transpose(x), lambda g, x, out: np.transpose(g)),
}
MIXED = ("multiply", "sin", "add", "tanh")
CHAINS = {**{name: (name,) for name in LINKS}, "mixed": MIXED}


def numpy(chain: str) -> Run:
    """Make the calls of the chain and of its reverse."""
    links = [LINKS[name] for name in CHAINS[chain]] * (N // len(CHAINS[chain]))

    def run(i: int) -> Any:
        values = [_x()]
        for forward, _ in links:
            values.append(forward(np, values[-1]))
        value, g = np.sum(values[-1]), np.ones_like(values[-1])
        for j in range(len(links) - 1, -1, -1):
            g = links[j][1](g, values[j], values[j + 1])
        return value, g

    return run


def minigrad(chain: str) -> Run:
    """Record the chain and differentiate it."""
    from minigrad import value_and_grad

    f = _forward(chain, np)
    return lambda i: value_and_grad(f, _x())


def autograd(chain: str) -> Run:
    """Do the same in autograd."""
    from autograd import numpy as autograd_numpy
    from autograd import value_and_grad

    f = value_and_grad(_forward(chain, autograd_numpy))
    return lambda i: f(_x())


def _x() -> np.ndarray:
    return np.linspace(-1, 1, 64).reshape(8, 8)


def _forward(chain: str, numpy_: Any) -> Callable[[Any], Any]:
    links = [LINKS[name][0] for name in CHAINS[chain]] * (N // len(CHAINS[chain]))

    def f(x: Any) -> Any:
        for link in links:
            x = link(numpy_, x)
        return numpy_.sum(x)

    return f


def contenders(chain: str) -> list[Contender]:
    """Return the three for one chain."""
    return [
        Contender(NUMPY, "benchmarks.overhead:numpy", {"chain": chain}),
        Contender(MINIGRAD, "benchmarks.overhead:minigrad", {"chain": chain}),
        Contender(AUTOGRAD, "benchmarks.overhead:autograd", {"chain": chain}, ("autograd",)),
    ]


def measure_overhead(hall: Hall, rounds: int) -> tuple[dict[str, Any], list[Row]]:
    """Return microseconds per op, by chain, and the rows of the table.

    Raises
    ------
    AssertionError
        If the gradients differ.
    """
    data: dict[str, Any] = {}
    rows: list[Row] = []
    for chain in CHAINS:
        with ExitStack() as stack:
            workers, _ = open_all(stack, hall, contenders(chain), "overhead")
            for name, worker in workers.items():
                got, wanted = worker.first["numbers"], workers[NUMPY].first["numbers"]
                if not disagreement(got, wanted) <= AGREEMENT:
                    raise AssertionError(f"chain of {chain}: {name} gives {got}, by hand {wanted}")
            times = race(workers, rounds, turn=0.1)
        data[chain] = {"seconds": times, "ops": N}
        ours = _above(times, MINIGRAD)
        rows.append(Row(f"{chain}: {MINIGRAD} above {NUMPY}", "8 x 8", BAR_MICROSECONDS, median(ours), "us"))
        if AUTOGRAD in times:
            theirs = _above(times, AUTOGRAD)
            ratio = median([a / b for a, b in zip(ours, theirs, strict=True)])
            rows.append(Row(f"{chain}: {MINIGRAD} / {AUTOGRAD}, both above {NUMPY}", "8 x 8", BAR_RATIO, ratio))
    return data, rows


def _above(times: Times, name: str) -> list[float]:
    """Return, for each round, the microseconds an op takes more than NumPy's calls."""
    pairs = zip(times[name], times[NUMPY], strict=True)
    return [(median(a) - median(b)) / N * 1e6 for a, b in pairs]
