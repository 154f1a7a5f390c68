"""The threads that run a compiled program together, and share out the rows of each kernel.

Starting threads anew for each kernel, as parallel loops do, costs more than most kernels take. A crew goes through
a whole list of kernels by itself; where one needs what others compute, it waits in a loop, for a microsecond if all
are running.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import sys
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.compiler.layout import Span
from minigrad.compiler.loops import compiled
from minigrad.program import Equation

__all__ = ["Crew", "Instruction", "Work", "crew", "number_of_threads"]

MOST_THREADS = 62  # bits of the mask of sleeping threads

_numbers = itertools.count(1)  # of the lists that are worked on: claims of parts are compared by them, in any crew


class Crew:
    """Threads numbered from 0, of which 0 is whoever calls `run`.

    Parameters
    ----------
    threads
        How many, the caller counted.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._loop = loop = compiled("crew")
        self._publish = _function(loop.publish, 3)
        self._finish = _function(loop.finish, 1, result=None)
        self._serve_lists = _function(loop.serve, 3)
        self._lock = threading.Lock()
        self._block = np.zeros(loop.PARKED // 8 + self.threads * loop.LINE // 8, np.int64)
        self._address = self._block.ctypes.data
        self._block[loop.GIVE_WAY // 8] = _give_way()
        self._awake = [threading.Semaphore(0) for _ in range(self.threads)]
        self._started = False

    def run(self, work: Work, scratch: np.ndarray) -> None:
        """Go through a list of instructions. `scratch` has a row of bytes for each thread."""
        loop, block = self._loop, self._block
        with self._lock:
            number = next(_numbers)
            block[loop.LIST // 8 : loop.GIVE_WAY // 8] = (*work.given, scratch.ctypes.data, scratch.strides[0])
            try:
                others = self.threads if work.shared else 1
                if others > 1 and not self._started:
                    self._start()
                self._wake(self._publish(self._address, others, number))
            finally:  # also if Ctrl-C comes between: the list is done and closed
                self._finish(self._address)

    def _start(self) -> None:
        self._started = True
        for thread in range(1, self.threads):
            threading.Thread(target=self._serve, args=(thread,), name=f"minigrad {thread}", daemon=True).start()

    def _wake(self, asleep: int) -> None:
        for thread in range(1, self.threads if asleep else 1):
            if asleep >> thread & 1:
                self._awake[thread].release()

    def _serve(self, thread: int) -> None:
        seen = 0
        while True:
            seen = self._serve_lists(thread, self._address, seen)
            self._awake[thread].acquire()


@dataclass
class Instruction:
    """A kernel to be run by a crew."""

    function: int  # its address
    table: np.ndarray  # int64: what it is called with
    shared: bool  # every thread does a part; otherwise one thread does it all
    reads: list[Span]
    writes: list[Span]
    equations: list[Equation]
    keep: list[np.ndarray] = field(default_factory=list)  # memory that the table points to
    scratch: int = 0  # bytes of memory that each thread needs for a while


class Work:
    """A list of instructions for a crew (see loops/crew.py), and the claims of its parts."""

    def __init__(self, instructions: list[Instruction], threads: int) -> None:
        listed = _listed(instructions, threads)
        n_parts = int(listed[:, 2].sum())
        self._keep = instructions, listed, np.zeros(n_parts, np.int64)
        self.given = (listed.ctypes.data, len(listed), n_parts, self._keep[2].ctypes.data)
        self.shared = bool(np.any(listed[:, 2] > 1))


def _listed(instructions: list[Instruction], threads: int) -> np.ndarray:
    """Return the list that a crew goes through.

    An instruction must wait for those before it if it touches what one of them writes, or writes what one of them
    touches; for all of them, as it is not told which part does what.
    """
    rows = []
    read: list[Span] = []
    written: list[Span] = []
    before = after = alone = 0
    for i in instructions:
        if _touch(i.reads, written) or _touch(i.writes, written) or _touch(i.writes, read):
            read, written, after = [], [], before
        read += i.reads
        written += i.writes
        parts = threads if i.shared else 1
        rows.append((i.function, i.table.ctypes.data, parts, before, after, alone % threads))
        before += parts
        alone += not i.shared  # small kernels in turn, each by another thread
    return np.array(rows, np.int64)


def _touch(a: list[Span], b: list[Span]) -> bool:
    return any(start < other_end and other < end for start, end in a for other, other_end in b)


def _function(address: int, parameters: int, result: Any = ctypes.c_int64) -> Any:
    """Return what calls a function of loops/; other threads of Python run meanwhile."""
    return ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * parameters)(address)


def _give_way() -> int:
    """Return the address of the function that lets other threads run, 0 if there is none to be found."""
    name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
    library = ctypes.CDLL("kernel32" if sys.platform == "win32" else None)
    function = getattr(library, name, None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0


@functools.cache
def _crew_of(process: int, threads: int) -> Crew:
    return Crew(threads)


def crew(threads: int) -> Crew:
    """Return the crew of this process: a forked one has none of its parent's threads."""
    return _crew_of(os.getpid(), threads)


def number_of_threads() -> int:
    """Return MINIGRAD_NUM_THREADS of the environment, or NUMBA_NUM_THREADS, or how many cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name = next((name for name in ("MINIGRAD_NUM_THREADS", "NUMBA_NUM_THREADS") if os.environ.get(name)), None)
    given = os.environ[name] if name else str(cores)
    if not given.strip().isdecimal() or int(given) < 1:
        raise ValueError(f"compile: {name} should be a whole number of at least 1, got {given!r}")
    return min(int(given), MOST_THREADS)
