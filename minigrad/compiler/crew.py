"""The threads that run a compiled program together: they share out the rows of each kernel, and meet in between.

Starting threads anew for each kernel, as parallel loops do, costs more than most kernels take. A crew goes through
a whole list of kernels by itself; at a meeting each thread waits in a loop, for a microsecond if all are running.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading

import numpy as np

__all__ = ["Crew", "crew"]

MOST_THREADS = 62  # bits of the mask of sleeping threads


class Crew:
    """Threads numbered from 0, of which 0 is whoever calls `run`.

    Parameters
    ----------
    threads
        How many, the caller counted.
    """

    def __init__(self, threads: int) -> None:
        from minigrad.compiler.numba_backend import crew_loop

        self.threads = min(threads, MOST_THREADS)
        self._loop = crew_loop()
        self._lock = threading.Lock()
        line = self._loop.LINE // 8
        self._block = np.zeros((4 + self.threads) * line, np.int64)
        self._address = self._block.ctypes.data
        self._block[self._loop.GIVE_WAY // 8] = _give_way()
        self._awake = [threading.Semaphore(0) for _ in range(self.threads)]
        for part in range(1, self.threads):
            threading.Thread(target=self._serve, args=(part,), name=f"minigrad {part}", daemon=True).start()

    def run(self, instructions: np.ndarray, scratch: np.ndarray) -> None:
        """Go through instructions, (n, 4) int64: see loops/crew.py. `scratch` has a row of bytes for each thread."""
        memory = scratch.ctypes.data, scratch.strides[0]
        with self._lock:
            before = self._given_out
            try:
                asleep = self._loop.publish(
                    self.threads, self._address, instructions.ctypes.data, len(instructions), *memory
                )
                self._wake(asleep)
            except BaseException:  # Ctrl-C, between publishing and working: the others must not wait for ever
                if self._given_out != before:
                    self._wake(-1)
                    self._loop.work(0, self.threads, self._address)
                raise
            self._loop.work(0, self.threads, self._address)

    @property
    def _given_out(self) -> int:
        return int(self._block[self._loop.GENERATION // 8])

    def _wake(self, asleep: int) -> None:
        for part in range(1, self.threads):
            if asleep >> part & 1:
                self._awake[part].release()

    def _serve(self, part: int) -> None:
        seen = 0
        while True:
            seen = self._loop.serve(part, self.threads, self._address, seen)
            self._awake[part].acquire()


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
