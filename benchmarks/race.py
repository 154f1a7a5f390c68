"""Contenders in processes of their own, taking turns: a machine that drifts hurts all of them alike."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

__all__ = ["FAST", "Contender", "ContenderError", "Hall", "Ratio", "Times", "Worker", "disagreement", "race", "ratio"]

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 900  # seconds to wait for an answer: a cold compile on a busy machine takes a minute or two
FAST = ("llvmlite.binding",)  # what compiled kernels import
Times = dict[str, list[list[float]]]  # name -> rounds -> seconds of each call


class ContenderError(RuntimeError):
    """A contender's process ended, or does not answer."""


@dataclass(frozen=True)
class Contender:
    """Something to time.

    `target` is "module:function": called with the arguments it returns `run(i)`. `imports` are loaded beforehand, so
    that they count neither as its time nor as its memory; the contender is there only if they are installed.
    """

    name: str
    target: str
    arguments: Mapping[str, Any]
    imports: tuple[str, ...] = ()
    compiles: bool = False  # its first call can use a cache on disk

    def missing(self) -> list[str]:
        """Return the packages that it needs and that are not installed."""
        return sorted({top for name in self.imports if find_spec(top := name.split(".")[0]) is None})


@dataclass(frozen=True)
class Hall:
    """Where contenders run: a folder for what they say, an empty one for their caches, and their number of threads."""

    folder: Path
    caches: Path
    threads: int
    keep_freed_memory: bool = False

    def environment(self, cache: Path) -> dict[str, str]:
        """Return what a contender's process is started with: its caches, its threads, NumPy's own choice of kernels."""
        names = ("OMP", "OPENBLAS", "MKL", "MINIGRAD")
        allocator = {"MMAP_THRESHOLD": 2**25, "TRIM_THRESHOLD": 2**31 - 1, "TOP_PAD": 2**26}
        ours = {
            **{f"{name}_NUM_THREADS": str(self.threads) for name in names},
            **({f"MALLOC_{k}_": str(v) for k, v in allocator.items()} if self.keep_freed_memory else {}),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "MINIGRAD_CACHE": str(cache),
            "TORCHINDUCTOR_CACHE_DIR": str(cache),
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        unset = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}  # they choose kernels for older processors
        return {**{k: v for k, v in os.environ.items() if k not in unset}, **ours}

    def open(self, contender: Contender, cache: str) -> Worker:
        """Start a contender; processes that name the same cache share what they compiled."""
        folder = self.caches / _file_name(cache)
        folder.mkdir(parents=True, exist_ok=True)
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return Worker(contender, self.environment(folder), self.threads, logs / f"{_file_name(cache)}.log")


@dataclass
class Worker:
    """The parent's end of a contender's process; use it in a `with` block."""

    contender: Contender
    environment: dict[str, str]
    threads: int
    log: Path
    first: dict[str, Any] = field(default_factory=dict)  # what `start` answered

    def __enter__(self) -> Worker:
        keywords = json.dumps(dict(self.contender.arguments))
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker", self.contender.target, keywords, *self.contender.imports],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=self.environment,
            )  # fmt: skip
        if hasattr(os, "sched_setaffinity"):  # some libraries listen to nothing else
            os.sched_setaffinity(self.process.pid, sorted(os.sched_getaffinity(0))[: self.threads])
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended already
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return what the method of `worker.Contest` returns there.

        Raises
        ------
        ContenderError
            If the process has ended, with what it said last, or has not answered in `PATIENCE` seconds.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps([method, arguments]), file=self.process.stdin, flush=True)
            if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
                self.process.kill()
                raise ContenderError(f"{self.contender.name}: no answer to {method!r} in {PATIENCE} s")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
            raise ContenderError(f"{self.contender.name} ended during {method!r}:\n{last}")
        return json.loads(line)  # type: ignore[no-any-return]

    def start(self) -> dict[str, Any]:
        """Make the first call; what it took and gave is kept in `first`, its peak of memory too."""
        self.first = {**self.ask("start"), "peak_bytes": self.ask("peak")["bytes"]}
        return self.first

    def peaks(self) -> dict[str, int]:
        """Return the most bytes, less those of the imports: of all, of the first call, of the calls since then."""
        first, later = self.first["peak_bytes"], self.ask("peak")["bytes"]
        return {"all": max(first, later), "first call": first, "later calls": later}


def race(workers: Mapping[str, Worker], rounds: int, turn: float = 0.3, fewest: int = 3, most: int = 100) -> Times:
    """Let contenders that have started take turns, each in every round, in an order drawn anew for each.

    Parameters
    ----------
    turn
        Seconds of a turn: as many calls are timed as fit, at least `fewest`, at most `most`. Calls for a third of
        that time come before and are not counted: memory and processor are the previous contender's then.
    """
    rng = np.random.default_rng(0)
    expected = {name: median(w.ask("run", times=fewest, warm=fewest)["seconds"]) for name, w in workers.items()}
    times: Times = {name: [] for name in workers}
    for _ in range(rounds):
        for name in rng.permutation(list(workers)).tolist():
            time.sleep(0.05)  # threads that wait for more work in a loop give up
            calls = min(max(round(turn / expected[name]), fewest), most)
            times[name].append(workers[name].ask("run", times=calls, warm=-(-calls // 3))["seconds"])
    return times


@dataclass(frozen=True)
class Ratio:
    """The median over the rounds, and between what lie the middle half of them."""

    median: float
    low: float
    high: float


def ratio(times: Times, one: str, other: str) -> Ratio:
    """Return how many times as long as the other one contender takes; each round compares its own medians."""
    each = [median(a) / median(b) for a, b in zip(times[one], times[other], strict=True)]
    low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
    return Ratio(float(middle), float(low), float(high))


def disagreement(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of two lists of numbers, relative to the larger of 1 and the number."""
    pairs = zip(one, other, strict=True)
    return max((abs(a - b) / max(1.0, abs(b)) if np.isfinite(a) and np.isfinite(b) else np.inf for a, b in pairs))


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
