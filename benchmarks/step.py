"""The training step: time, memory and time to compile of minigrad and its peers, at the sizes XS, S and M."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.bars import Row, row_of_ratio
from benchmarks.race import FAST, Contender, ContenderError, Hall, Times, Worker, disagreement, race
from benchmarks.work import SIZES

__all__ = ["contenders", "measure_step", "open_all"]

EAGER, NUMPY, LLVM = "minigrad eager", "minigrad compiled, NumPy", "minigrad compiled, LLVM"
TORCH, INDUCTOR, JAX, PRODUCTS = "PyTorch eager", "torch.compile", "JAX jit", "products alone, NumPy"

BARS: list[tuple[str, str, dict[str, float]]] = [
    (LLVM, TORCH, {"XS": 0.35, "S": 0.52, "M": 0.58}),
    (LLVM, INDUCTOR, {"XS": 0.75, "S": 0.58, "M": 0.60}),
    (LLVM, JAX, {"XS": 0.85, "S": 0.40, "M": 0.55}),
    (LLVM, PRODUCTS, {"S": 1.20, "M": 1.20}),
    (NUMPY, TORCH, {"XS": 0.50, "S": 0.95, "M": 0.85}),
    (EAGER, TORCH, {"XS": 0.80, "S": 1.15, "M": 0.95}),
]
COMPILE_BARS = {(LLVM, "cold"): 10.0, (LLVM, "warm"): 1.0, (NUMPY, "cold"): 0.5}  # seconds, at S
AGREEMENT = 1e-3  # of the losses after three steps


def contenders(sizes: Mapping[str, int]) -> list[Contender]:
    """Return all, installed or not, for a model of these sizes."""
    return [
        Contender(EAGER, "benchmarks.work:eager", sizes),
        Contender(NUMPY, "benchmarks.work:compiled_numpy", sizes, compiles=True),
        Contender(LLVM, "benchmarks.work:compiled_llvm", sizes, FAST, compiles=True),
        Contender(TORCH, "benchmarks.peers.torch_step:eager", sizes, ("torch",)),
        Contender(INDUCTOR, "benchmarks.peers.torch_step:compiled", sizes, ("torch", "torch._inductor"), compiles=True),
        Contender(JAX, "benchmarks.peers.jax_step:jit", sizes, ("jax",), compiles=True),
        Contender(PRODUCTS, "benchmarks.products:products_alone", sizes),
    ]


def measure_step(hall: Hall, sizes: list[str], rounds: int) -> tuple[dict[str, Any], list[Row]]:
    """Return everything measured, by size, and the rows of the table.

    Raises
    ------
    AssertionError
        If the contenders' losses after three steps differ: then they do not do the same work.
    """
    data: dict[str, Any] = {}
    rows: list[Row] = []
    for size in sizes:
        cold = _cold(hall, size)
        with ExitStack() as stack:
            workers, left_out = open_all(stack, hall, contenders(SIZES[size]), size)
            losses = three_losses({k: w for k, w in workers.items() if k != PRODUCTS})
            times = race(workers, rounds)
            peaks = {name: worker.peaks() for name, worker in workers.items()}
            about = {name: worker.ask("about") for name, worker in workers.items()}
        warm = {name: workers[name].first["first_call_seconds"] for name in cold if name in workers}
        data[size] = {
            "sizes": SIZES[size], "left_out": left_out, "losses": losses, "seconds": times,
            "median_seconds": {name: _middle(times, name) for name in times},
            "peak_bytes": peaks, "first_call_cold_seconds": cold, "first_call_warm_seconds": warm, "about": about,
        }  # fmt: skip
        for one, other, bars in BARS:
            rows += row_of_ratio(times, one, other, size, bars.get(size))
        rows += _memory_rows(peaks, size) + _compile_rows(cold, warm, size)
        _say(size, data[size])
    return data, rows


def open_all(
    stack: ExitStack, hall: Hall, all_of_them: list[Contender], cache: str
) -> tuple[dict[str, Worker], dict[str, str]]:
    """Start the contenders one after the other; return those that run, and why others do not."""
    workers: dict[str, Worker] = {}
    left_out: dict[str, str] = {}
    for contender in all_of_them:
        if contender.missing():
            left_out[contender.name] = f"not installed: {', '.join(contender.missing())}"
            continue
        try:
            worker = stack.enter_context(hall.open(contender, f"{contender.name} {cache}"))
            worker.start()
            workers[contender.name] = worker
        except ContenderError as error:
            left_out[contender.name] = str(error)
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}", flush=True)
    return workers, left_out


def three_losses(workers: Mapping[str, Worker]) -> dict[str, list[float]]:
    """Return the first three losses of each; raise AssertionError if they do not agree."""
    losses = {}
    for name, worker in workers.items():
        losses[name] = worker.first["numbers"] + [worker.ask("run", times=1)["numbers"][0] for _ in range(2)]
    reference, *others = losses
    for name in others:
        if not disagreement(losses[name], losses[reference]) <= AGREEMENT:
            raise AssertionError(
                f"{name} does other work than {reference}: the losses of the first three steps are "
                f"{losses[name]} and {losses[reference]}"
            )
    return losses


def _cold(hall: Hall, size: str) -> dict[str, float]:
    """Return the seconds of the first call of what compiles, with an empty cache, which is full afterwards."""
    seconds = {}
    for contender in contenders(SIZES[size]):
        if contender.compiles and not contender.missing():
            try:
                with hall.open(contender, f"{contender.name} {size}") as worker:
                    seconds[contender.name] = worker.start()["first_call_seconds"]
            except ContenderError:
                continue  # it will not start a second time either, and is left out with the reason then
    return seconds


def _middle(times: Times, name: str) -> float:
    return median(second for turn in times[name] for second in turn)


def _memory_rows(peaks: Mapping[str, Mapping[str, int]], size: str) -> list[Row]:
    if TORCH not in peaks:
        return []
    bar = 1.0 if size in ("S", "M") else None
    return [
        Row(f"peak memory, {name} / {TORCH}", size, bar, peaks[name]["all"] / peaks[TORCH]["all"])
        for name in (EAGER, NUMPY, LLVM)
        if name in peaks
    ]


def _compile_rows(cold: Mapping[str, float], warm: Mapping[str, float], size: str) -> list[Row]:
    return [
        Row(f"first call, {name}, {state} cache", size, COMPILE_BARS.get((name, kind)) if size == "S" else None,
            seconds[name], "s")
        for kind, state, seconds in (("cold", "empty", cold), ("warm", "full", warm))
        for name in seconds
    ]  # fmt: skip


def _say(size: str, measured: Mapping[str, Any]) -> None:
    print(f"\n{size}: {'':28}{'ms':>9}  {'peak MB':>8}  {'later MB':>8}  {'loss of step 3':>14}")
    for name, seconds in measured["median_seconds"].items():
        losses = measured["losses"].get(name)  # products alone have none
        loss = f"{losses[-1]:14.6f}" if losses else f"{'-':>14}"
        peaks = measured["peak_bytes"][name]  # the first call compiles, so it may need more than those that follow
        memory = f"{peaks['all'] / 1e6:8.1f}  {peaks['later calls'] / 1e6:8.1f}"
        print(f"    {name:28}{seconds * 1e3:9.2f}  {memory}  {loss}", flush=True)
