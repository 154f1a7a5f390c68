"""The process of one contender: it does what the parent asks for, a line of JSON for each, and is idle in between.

python -m benchmarks.worker MODULE:FUNCTION '{"arguments": ...}' MODULE_TO_IMPORT ...
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from minigrad import tree

__all__ = ["Contest", "main"]


class Contest:
    """A contender and what can be asked of it; each method returns what json can write."""

    def __init__(self, target: str, arguments: dict[str, Any], imports: list[str]) -> None:
        start = time.perf_counter()
        for name in imports:
            import_module(name)
        module, function = target.split(":")
        self.make = getattr(import_module(module), function)
        self.arguments = arguments
        self.imported = time.perf_counter() - start
        self.import_peak = peak_bytes()
        self.done = 0

    def start(self) -> dict[str, Any]:
        """Make the contender and call it once, which compiles what is compiled."""
        self.call = self.make(**self.arguments)
        seconds, result = self._timed()
        return {"import_seconds": self.imported, "first_call_seconds": seconds, "numbers": numbers(result)}

    def run(self, times: int, warm: int = 0) -> dict[str, Any]:
        """Call it `warm` times, then `times` times by the clock."""
        for _ in range(warm):
            self._timed()
        seconds, result = [], None
        for _ in range(times):
            result = None  # as a training loop would, and memory can be used again
            elapsed, result = self._timed()
            seconds.append(elapsed)
        return {"seconds": seconds, "numbers": numbers(result)}

    def peak(self) -> dict[str, Any]:
        """Return the most memory that the process has had, less what it had after the imports; then start anew."""
        used = peak_bytes() - self.import_peak
        with suppress(OSError):  # Linux only; elsewhere the peak is that of the whole life
            Path("/proc/self/clear_refs").write_text("5")
        return {"bytes": used, "import_bytes": self.import_peak}

    def about(self) -> dict[str, Any]:
        """Return which libraries compute, with how many threads."""
        return {"python": platform.python_version(), "numpy": np.__version__, "blas": blas(), "pools": pools()}

    def _timed(self) -> tuple[float, Any]:
        start = time.perf_counter()
        result = self.call(self.done)
        seconds = time.perf_counter() - start
        self.done += 1
        return seconds, result


def numbers(result: Any) -> list[float]:
    """Return a number for each array of a result: itself, or its scalar product with a fixed random array."""
    found = []
    for leaf in tree.leaves(result):
        array = np.asarray(leaf, np.float64)
        direction = np.random.default_rng(0).standard_normal(array.shape) if array.size > 1 else np.ones(array.shape)
        found.append(float(np.vdot(direction, array)))
    return found


def peak_bytes() -> int:
    """Return the most memory this process has had.

    Linux lets `getrusage` count what the parent had before exec; the same number of this program alone is VmHWM.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def blas() -> str:
    """Return the name and version of NumPy's BLAS."""
    found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{found.get('name')} {found.get('version')}"


def pools() -> list[str]:
    """Return the pools of threads in this process, with what the BLAS runs on; nothing without threadpoolctl."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return [
        " ".join(str(p[k]) for k in ("internal_api", "version", "architecture", "num_threads") if p.get(k))
        for p in threadpool_info()
    ]


def serve(contest: Contest, questions: TextIO, answers: TextIO) -> None:
    """Answer until there are no more questions: each is [method, arguments]."""
    for line in questions:
        method, arguments = json.loads(line)
        print(json.dumps(getattr(contest, method)(**arguments)), file=answers, flush=True)


def main(arguments: list[str]) -> None:
    """Serve on the standard input and output; what the libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    target, keywords, *imports = arguments
    serve(Contest(target, json.loads(keywords), imports), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
