"""What the numbers were measured on: processor, BLAS, threads, versions, and how busy it was."""

from __future__ import annotations

import os
import platform
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.race import Contender, Hall

__all__ = ["BUSY", "Others", "describe", "load"]

PACKAGES = ("numpy", "llvmlite", "torch", "jax", "jaxlib", "autograd", "scipy", "threadpoolctl")
BUSY = 0.05  # the share of the cores that others may use before the times are not to be trusted


def describe(hall: Hall) -> dict[str, Any]:
    """Return the facts, as json writes them; those of the BLAS come from a process started as the contenders are."""
    with hall.open(Contender("about", "benchmarks.machine:load", {}), "about") as worker:
        about = worker.ask("about")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "memory_bytes": _memory(),
        "threads": hall.threads,
        "freed memory kept by all": hall.keep_freed_memory,
        "unset": ["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"],
        "load": load(),
        **about,
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


class Others:
    """A `with` block that measures how much of the machine everybody else used: `share`, of all cores, None if unknown.

    Linux only. What our own processes used is known when they have ended, so they must end within the block.
    """

    share: float | None = None

    def __enter__(self) -> Others:
        self.before = (time.perf_counter(), _busy(), _own())
        return self

    def __exit__(self, *exception: object) -> None:
        start, busy, own = self.before
        now = _busy()
        if busy is not None and now is not None:
            others = (now - busy) - (_own() - own)
            self.share = max(0.0, others) / (time.perf_counter() - start) / (os.cpu_count() or 1)


def _busy() -> float | None:
    """Return the seconds that all cores have worked, for us, for others, and for other machines on the same host."""
    with suppress(OSError):
        user, nice, system, _, _, irq, soft, steal, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
        return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
    return None


def _own() -> float:
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def load() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
