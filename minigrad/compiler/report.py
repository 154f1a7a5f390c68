"""What a compiled program costs: time by step, and memory over the steps."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.compiler.plan import Plan
from minigrad.errors import install_hint
from minigrad.program import Equation

__all__ = ["MemoryReport", "Profile", "measure", "timeline"]

SHOWN = 4  # ops of a step that are named


@dataclass(frozen=True)
class Line:
    """Steps of one kind: the same ops on the same shapes, for the same line of the user's."""

    name: str  # the first ops, and how many more
    shape: tuple[int, ...]
    source: str  # file:line of the last op
    calls: int
    seconds: float  # all calls together, at their fastest
    n_bytes: int  # read and written by all calls, each array counted once a step


@dataclass(frozen=True)
class Profile:
    """The cost of a program by kinds of steps, the most expensive first. `print` it."""

    lines: tuple[Line, ...]

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        return sum(line.seconds for line in self.lines)

    def __str__(self) -> str:
        rows = [f"{'ms':>8}  {'share':>5}  {'calls':>5}  {'MB':>8}  ops"]
        for line in self.lines:
            share = line.seconds / self.seconds if self.seconds else 0
            rows.append(
                f"{line.seconds * 1e3:8.3f}  {share:5.1%}  {line.calls:5}  {line.n_bytes / 1e6:8.2f}  "
                f"{line.name} {line.shape}  {line.source}"
            )
        return "\n".join([*rows, f"{self.seconds * 1e3:8.3f}  total"])

    def plot(self, path: Any, most: int = 20) -> None:
        """Write a bar chart of the most expensive kinds of steps (needs matplotlib, `minigrad[lm]`)."""
        pyplot = _pyplot()
        lines = self.lines[:most][::-1]
        figure, axes = pyplot.subplots(figsize=(9, 0.3 * len(lines) + 1))
        labels = [f"{line.name} {line.shape}  {line.source}" for line in lines]
        axes.barh(labels, [line.seconds * 1e3 for line in lines])
        axes.set_xlabel("milliseconds")
        figure.savefig(path, bbox_inches="tight")
        pyplot.close(figure)


def measure(executable: Any, repeat: int) -> Profile:
    """Time every step of an executable at its fastest of `repeat` runs. The memory it works in is written over.

    Donated arrays are restored afterwards.
    """
    saved = [(a, a.copy()) for v, a in zip(executable.inputs, executable.bound, strict=True) if v in executable.owned]
    steps = executable.backend.make_steps(executable.memory, separate=True)
    fastest = [float("inf")] * len(steps)
    with np.errstate(all="ignore"):
        for _ in range(repeat):
            for i, (step, _) in enumerate(steps):
                start = time.perf_counter()
                step()
                fastest[i] = min(fastest[i], time.perf_counter() - start)
    for array, before in saved:
        array[...] = before
    seconds: Counter[Any] = Counter()
    calls: Counter[Any] = Counter()
    traffic: Counter[Any] = Counter()
    for (_, with_repeats), elapsed in zip(steps, fastest, strict=True):
        equations = list({id(eq): eq for eq in with_repeats}.values())  # threads have a share of the same one each
        last = equations[-1].source
        source = "" if last is None else last.short
        key = (tuple(eq.op.name.removeprefix("np.") for eq in equations), equations[0].outs[0].shape, source)
        seconds[key] += elapsed  # type: ignore[assignment]
        calls[key] += 1
        traffic[key] += _traffic(equations)
    lines = [
        Line(_abridged(ops), shape, source, calls[ops, shape, source], t, traffic[ops, shape, source])
        for (ops, shape, source), t in seconds.most_common()
    ]
    return Profile(tuple(lines))


def _abridged(ops: tuple[str, ...]) -> str:
    more = len(ops) - SHOWN
    return " ".join(ops[:SHOWN]) + (f" + {more} more" if more > 0 else "")


def _traffic(equations: list[Equation]) -> int:
    made = {out for eq in equations for out in eq.outs}
    touched = {a for eq in equations for a in eq.inputs if a not in made and a.shape} | made
    return sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in touched)


@dataclass(frozen=True)
class MemoryReport:
    """The arena of a plan: `peak` bytes, of which `alive[i]` are in use at step i."""

    peak: int
    alive: tuple[int, ...]

    def __str__(self) -> str:
        return f"arena {self.peak / 1e6:.2f} MB; at most {max(self.alive, default=0) / 1e6:.2f} MB alive at a step"

    def plot(self, path: Any) -> None:
        """Write a plot of the memory in use over the steps (needs matplotlib, `minigrad[lm]`)."""
        pyplot = _pyplot()
        figure, axes = pyplot.subplots(figsize=(8, 3))
        axes.fill_between(range(len(self.alive)), np.array(self.alive) / 1e6, step="mid")
        axes.axhline(self.peak / 1e6, color="black", linewidth=0.8)
        axes.set_xlabel("step")
        axes.set_ylabel("MB alive")
        figure.savefig(path, bbox_inches="tight")
        pyplot.close(figure)


def timeline(plan: Plan) -> MemoryReport:
    """Return how much of the arena is in use at each step."""
    buffers = {view.buffer for view in plan.views.values() if view.buffer.start >= 0}
    alive = [0] * len(plan.groups)
    for b in buffers:
        for i in range(max(b.first, 0), min(b.last, len(plan.groups) - 1) + 1):
            alive[i] += b.size * b.dtype.itemsize
    return MemoryReport(plan.arena, tuple(alive))


def _pyplot() -> Any:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f"plots need matplotlib: {install_hint('lm')}") from error
    return pyplot
