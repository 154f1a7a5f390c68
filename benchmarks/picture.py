"""The measurements as one picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import AXES

__all__ = ["draw"]

Axes = Any  # matplotlib's


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Write a PNG file with a panel for each thing that was measured; nothing if there is nothing to draw."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # draws without a display
    from matplotlib.figure import Figure

    panels = _panels(results)
    if not panels:
        return
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6 * columns, 4 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    for i, panel in enumerate(panels):
        panel(figure.add_subplot(rows, columns, i + 1))
    machine = results["machine"]
    figure.suptitle(f"{machine['processor']}, {machine['threads']} threads, {machine['blas']}", fontsize=9)
    figure.savefig(path, dpi=120)


def _panels(results: Mapping[str, Any]) -> list[Callable[[Axes], None]]:
    found: list[Callable[[Axes], None]] = []
    for size, measured in results.get("step", {}).items():
        found.append(lambda axes, s=size, m=measured: _step(axes, s, m))
    if "layers" in results:
        found.append(lambda axes: _layers(axes, results["layers"]))
    for axis in AXES if "growth" in results else ():
        points = results["growth"][axis]
        found.append(lambda axes, a=axis, p=points: _growth(axes, a, p))
    if "attention" in results:
        found.append(lambda axes: _attention(axes, results["attention"]["peak_bytes"]))
    return found


def _step(axes: Axes, size: str, measured: Mapping[str, Any]) -> None:
    """The median of each contender's steps, with the middle half of them as a line."""
    times = {name: [1e3 * s for turn in turns for s in turn] for name, turns in measured["seconds"].items()}
    order = sorted(times, key=lambda name: -float(np.median(times[name])))
    low, middle, high = np.transpose([np.quantile(times[name], [0.25, 0.5, 0.75]) for name in order])
    axes.barh(order, middle, xerr=[middle - low, high - middle], color="tab:blue", ecolor="black")
    axes.set(title=f"training step, {size}", xlabel="milliseconds")


def _layers(axes: Axes, measured: Mapping[str, Any]) -> None:
    """Each layer's time as a share of the adjoint by hand."""
    names = list(measured)
    backends = [name for name in next(iter(measured.values()))["seconds"] if name != "by hand"]
    for i, backend in enumerate(backends):
        shares = [
            np.median(np.concatenate(m["seconds"][backend])) / np.median(np.concatenate(m["seconds"]["by hand"]))
            for m in measured.values()
        ]
        axes.barh(np.arange(len(names)) + 0.4 * i, shares, 0.4, label=backend)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(np.arange(len(names)) + 0.2, names)
    axes.set(title="gradient of a layer", xlabel="time / adjoint by hand")
    axes.legend()


def _growth(axes: Axes, axis: str, points: list[Mapping[str, Any]]) -> None:
    key = {"tokens": "length", "width": "width", "layers": "n_layer"}[axis]
    for name in points[0]["median_seconds"]:
        reached = [p for p in points if name in p["median_seconds"]]
        axes.plot(
            [p["sizes"][key] for p in reached], [1e3 * p["median_seconds"][name] for p in reached], "o-", label=name
        )
    axes.set(title=f"training step by {axis}", xlabel=axis, ylabel="milliseconds", xscale="log", yscale="log")
    _powers_of_two(axes, [p["sizes"][key] for p in points])
    axes.legend(fontsize=7)


def _attention(axes: Axes, peaks: Mapping[Any, Mapping[str, int]]) -> None:
    lengths = [int(length) for length in peaks]
    for name in next(iter(peaks.values())):
        axes.plot(lengths, [p.get(name, np.nan) / 1e6 for p in peaks.values()], "o-", label=name)
    axes.set(title="attention, peak memory", xlabel="tokens", ylabel="MB", xscale="log", yscale="log")
    _powers_of_two(axes, lengths)
    axes.legend(fontsize=7)


def _powers_of_two(axes: Axes, ticks: list[int]) -> None:
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
