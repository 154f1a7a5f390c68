"""Growth: how the cost of a training step grows with tokens, width and layers, each doubled four times."""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.bars import Row
from benchmarks.race import Hall, race
from benchmarks.step import PRODUCTS, contenders, open_all, three_losses
from benchmarks.work import SIZES

__all__ = ["DOUBLINGS", "measure_growth", "point"]

DOUBLINGS = 4
AXES = ("tokens", "width", "layers")


def point(axis: str, doublings: int) -> dict[str, int]:
    """Return the sizes XS with one of them doubled a number of times.

    Tokens are those of a sequence, so that attention's square shows. The number of heads and the hidden size go with
    the width; the channels of a head do not.
    """
    sizes, factor = dict(SIZES["XS"]), 2**doublings
    grows = {"tokens": ["length"], "width": ["width", "n_head", "n_kv_head", "hidden"], "layers": ["n_layer"]}
    for name in grows[axis]:
        sizes[name] *= factor
    return sizes


def measure_growth(hall: Hall, rounds: int, doublings: int = DOUBLINGS) -> tuple[dict[str, Any], list[Row]]:
    """Return, for each axis, the sizes and the median seconds and peak bytes of each contender; and no rows."""
    measured: dict[str, Any] = {}
    for axis in AXES:
        measured[axis] = []
        for n in range(doublings + 1):
            sizes = point(axis, n)
            known = next((p for points in measured.values() for p in points if p["sizes"] == sizes), None)
            measured[axis].append(known or _measure(hall, sizes, rounds))
            print(f"growth: {axis} doubled {n} times: done", flush=True)
    return measured, []


def _measure(hall: Hall, sizes: dict[str, int], rounds: int) -> dict[str, Any]:
    with ExitStack() as stack:
        cache = " ".join(map(str, sizes.values()))
        workers, left_out = open_all(stack, hall, contenders(sizes), cache)
        three_losses({name: worker for name, worker in workers.items() if name != PRODUCTS})
        times = race(workers, rounds)
        peaks = {name: worker.peaks()["all"] for name, worker in workers.items()}
    seconds = {name: median(s for turn in turns for s in turn) for name, turns in times.items()}
    return {"sizes": sizes, "median_seconds": seconds, "peak_bytes": peaks, "left_out": left_out}
