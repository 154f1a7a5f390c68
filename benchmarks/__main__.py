"""The command line: `python -m benchmarks [parts]`."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import attention, growth, kinks, layers, machine, overhead, step
from benchmarks.bars import Row, table, to_json
from benchmarks.picture import draw
from benchmarks.race import Hall
from benchmarks.work import SIZES

Part = Callable[[Hall, argparse.Namespace], tuple[Any, list[Row]]]

PARTS: dict[str, Part] = {
    "step": lambda hall, o: step.measure_step(hall, o.sizes, o.rounds),
    "layers": lambda hall, o: layers.measure_layers(hall, [s for s in o.sizes if s != "XS"] or o.sizes, o.rounds),
    "overhead": lambda hall, o: overhead.measure_overhead(hall, o.rounds),
    "attention": lambda hall, o: attention.measure_attention(hall, o.rounds),
    "growth": lambda hall, o: growth.measure_growth(hall, o.rounds),
    "kinks": lambda hall, o: _kinks(),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the parts, print the table, write results.json and results.png; each part is written when it is done."""
    options = _options(arguments)
    folder = options.out or Path(tempfile.mkdtemp(prefix="benchmarks-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"results go to {folder}")
    with tempfile.TemporaryDirectory(prefix="benchmarks-caches-") as caches:
        _measure(Hall(folder, Path(caches), options.threads, options.keep_freed_memory), options)
    print(f"\nresults are in {folder}")


def _measure(hall: Hall, options: argparse.Namespace) -> None:
    results: dict[str, Any] = {"machine": machine.describe(hall), "rounds": options.rounds}
    results |= {"used_by_others": {}, "rows": []}
    print(json.dumps(results["machine"], indent=1))
    if results["machine"]["load"] > 1.5:
        print("others are at work on this machine: the times are not to be trusted")
    rows: list[Row] = []
    for name in options.parts:
        with machine.Others() as others:
            results[name], found = PARTS[name](hall, options)
        results["used_by_others"][name] = others.share
        if (others.share or 0) > machine.BUSY:
            print(f"others used {others.share:.0%} of the cores during {name!r}: its times are not to be trusted")
        rows += found
        results["rows"] = to_json(rows)
        (hall.folder / "results.json").write_text(json.dumps(results, indent=1))
        if find_spec("matplotlib"):
            draw(results, hall.folder / "results.png")
        else:
            print('no picture: it needs matplotlib; pip install "minigrad[bench]"')
    if rows:
        (hall.folder / "table.md").write_text(table(rows) + "\n")
        print(f"\n{table(rows)}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure minigrad and its peers.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES), help="of step and layers")
    parser.add_argument("--rounds", type=int, default=12, help="each contender has a turn of 3 calls or more in each")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parser.add_argument("--threads", type=int, default=cores, help="of every contender (default: all cores)")
    parser.add_argument("--out", type=Path, help="folder for results.json and results.png (default: a temporary one)")
    parser.add_argument(
        "--keep-freed-memory",
        action="store_true",
        help="give the allocator's setting of minigrad's eager contender to all the others too",
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.rounds < 1 or options.threads < 1:
        parser.error(f"wanted rounds and threads of at least 1, got {options.rounds} and {options.threads}")
    options.parts = options.parts or list(PARTS)
    if options.rounds < 7:
        print(f"{options.rounds} rounds of 3 calls are fewer than 20 calls: to try things out, not to quote")
    return options


def _kinks() -> tuple[Any, list[Row]]:
    for name in kinks.missing():
        print(f"left out: {name}: not installed")
    found = kinks.answers()
    print(f"\n{kinks.markdown(found)}")
    return {name: {k: kinks.text(v) for k, v in by_library.items()} for name, by_library in found.items()}, []


if __name__ == "__main__":
    main()
