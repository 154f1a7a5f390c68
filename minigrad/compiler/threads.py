"""Threads that run the calls of a plan together, each its own list of them.

NumPy lets other threads run while it computes. The tasks of a plan are handed out once, when it is made: to each
thread a list of calls, in the order of the plan. Where a task touches memory that a task of another thread writes, the
other one leaves a token in a queue when it has ended, and this one begins by taking it. Nobody waits in a loop.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np

from minigrad.compiler.layout import Span
from minigrad.program import Equation

__all__ = ["Run", "Task", "threads_of_blas"]

HOP = 20.0  # microseconds: for a thread to see that another has ended
Call = Callable[[], Any]


@dataclass
class Task:
    """Calls that one thread makes one after the other."""

    calls: Callable[[int], list[Call]]  # for a thread, by its number
    equations: list[Equation]
    reads: list[Span]
    writes: list[Span]
    cost: float  # microseconds, roughly
    thread: int | None = None  # None: whichever is free first


class Run:
    """Tasks as one step.

    Parameters
    ----------
    errors
        Returns a context that says what NumPy does about floating point errors: each thread has its own.
    """

    def __init__(self, tasks: list[Task], threads: int, errors: Callable[[], Any]) -> None:
        self.threads = threads
        self.errors = errors
        self.equations = [eq for task in tasks for eq in task.equations]
        schedule = _Schedule(threads, tasks)
        for task in tasks:
            schedule.add(task)
        self._programs, self._tokens = schedule.programs(), schedule.tokens
        self._stopped = False
        self._error: BaseException | None = None

    def __call__(self) -> None:
        """Make all the calls. An error in one of them ends the run as soon as every thread has ended its call."""
        blas = _Blas.found()
        assert blas is not None
        team = _team(os.getpid(), self.threads)
        with team.lock:
            before = blas.get()
            try:
                blas.set(1)  # for each thread
                team.give([partial(self._go, i) for i in range(1, self.threads)])
                self._go(0)
            except BaseException as error:  # Ctrl-C
                self._stop(error)
            finally:
                team.join(self._stop)
                blas.set(before)
            if self._error is not None:
                raise self._reset()

    def _go(self, thread: int) -> None:
        eq: Equation | None = None
        try:
            with self.errors():
                for call, eq in self._programs[thread]:  # noqa: B007  # the handler names it
                    if self._stopped:
                        return
                    call()
        except BaseException as error:
            if eq is not None:  # whoever handles the error names the first equation
                self.equations.remove(eq)
                self.equations.insert(0, eq)
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stopped = True
        for token in self._tokens:
            token.put(None)

    def _reset(self) -> BaseException:
        """Return the error, and forget it: the next run is a new one."""
        error, self._error, self._stopped = self._error, None, False
        for token in self._tokens:
            while not token.empty():
                token.get()
        assert error is not None
        return error


class _Schedule:
    """Hands tasks out to threads, each to that which can begin first, by estimate."""

    def __init__(self, threads: int, tasks: list[Task]) -> None:
        self.threads = range(threads)
        self.tasks: list[list[Task]] = [[] for _ in self.threads]
        self.ends: list[list[float]] = [[] for _ in self.threads]  # when, by estimate
        self.before: list[list[list[Call]]] = [[] for _ in self.threads]  # taking of tokens
        self.after: list[list[list[Call]]] = [[] for _ in self.threads]  # leaving of tokens
        self.known = [[-1] * threads for _ in self.threads]  # the last task of another that a thread has waited for
        # No span of a task begins or ends within a piece of memory between two of these addresses.
        ends = sorted({end for task in tasks for span in (*task.reads, *task.writes) for end in span})
        self.place = {end: i for i, end in enumerate(ends)}
        self.touched = [_Touched(len(ends)) for _ in self.threads]
        self.tokens: list[SimpleQueue[None]] = []

    def add(self, task: Task) -> None:
        """Give a task to a thread, and let that wait for the others as far as it must."""
        reads, writes = ([self._pieces(span) for span in spans] for spans in (task.reads, task.writes))
        needed = [touched.last(reads, writes) for touched in self.touched]
        first = min(self.threads, key=lambda t: self._begin(t, needed))
        t = first if task.thread is None else task.thread
        begin = self._begin(t, needed)
        before: list[Call] = []
        for other in self.threads:
            if other != t and needed[other] > self.known[t][other]:
                self.known[t][other] = needed[other]
                token: SimpleQueue[None] = SimpleQueue()
                self.tokens.append(token)
                self.after[other][needed[other]].append(partial(token.put, None))
                before.append(token.get)
        self.touched[t].note(reads, writes, len(self.tasks[t]))
        self.tasks[t].append(task)
        self.ends[t].append(begin + task.cost)
        self.before[t].append(before)
        self.after[t].append([])

    def _pieces(self, span: Span) -> slice:
        return slice(self.place[span[0]], self.place[span[1]])

    def _begin(self, t: int, needed: list[int]) -> float:
        """Return when a thread can begin, by estimate."""
        ready = [self.ends[o][needed[o]] + HOP for o in self.threads if o != t and needed[o] > self.known[t][o]]
        return max([*ready, *self.ends[t][-1:], 0.0])

    def programs(self) -> list[list[tuple[Call, Equation | None]]]:
        """Return the calls of each thread, each with the equation it belongs to."""
        programs: list[list[tuple[Call, Equation | None]]] = [[] for _ in self.threads]
        for t in self.threads:
            for task, before, after in zip(self.tasks[t], self.before[t], self.after[t], strict=True):
                programs[t] += [(call, None) for call in before]
                programs[t] += zip(task.calls(t), itertools.cycle(task.equations), strict=False)
                programs[t] += [(call, None) for call in after]
        return programs


class _Touched:
    """The last tasks of one thread that read or wrote, and that wrote, each piece of memory; -1 where there is none."""

    def __init__(self, pieces: int) -> None:
        self.by = np.full(pieces, -1)
        self.written_by = np.full(pieces, -1)

    def note(self, reads: list[slice], writes: list[slice], task: int) -> None:
        """Add a task, by its number."""
        for pieces in (*reads, *writes):
            self.by[pieces] = task
        for pieces in writes:
            self.written_by[pieces] = task

    def last(self, reads: list[slice], writes: list[slice]) -> int:
        """Return the last task that another must wait for, -1 if none: where both touch, and one writes."""
        tasks = [*[self.written_by[pieces] for pieces in reads], *[self.by[pieces] for pieces in writes]]
        return int(np.concatenate(tasks).max(initial=-1)) if tasks else -1


class _Team:
    """Threads that do what they are given, in order, and sleep otherwise. Number 0 is whoever gives."""

    def __init__(self, threads: int) -> None:
        self.lock = threading.Lock()
        self._inboxes: list[SimpleQueue[Call]] = [SimpleQueue() for _ in range(1, threads)]
        for i, inbox in enumerate(self._inboxes, 1):
            threading.Thread(target=_serve, args=(inbox,), name=f"minigrad numpy {i}", daemon=True).start()

    def give(self, jobs: list[Call]) -> None:
        """Let each thread begin."""
        for inbox, job in zip(self._inboxes, jobs, strict=True):
            inbox.put(job)

    def join(self, interrupted: Callable[[BaseException], None]) -> None:
        """Return when all have done what they were given, also if Ctrl-C comes between."""
        while True:
            try:
                done: SimpleQueue[None] = SimpleQueue()
                for inbox in self._inboxes:
                    inbox.put(partial(done.put, None))
                for _ in self._inboxes:
                    done.get()
                return
            except BaseException as error:
                interrupted(error)


def _serve(inbox: SimpleQueue[Call]) -> None:
    while True:
        inbox.get()()


@functools.cache
def _team(process: int, threads: int) -> _Team:
    """Return the team of this process: a forked one has none of its parent's threads."""
    return _Team(threads)


@dataclass(frozen=True)
class _Blas:
    """How many threads NumPy's BLAS has, to be read and set."""

    get: Callable[[], int]
    set: Callable[[int], None]

    @staticmethod
    @functools.cache
    def found() -> _Blas | None:
        """Return OpenBLAS with threads of its own kind, as in NumPy's wheels; None if that is not what NumPy has."""
        numpy_itself = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(numpy_itself.__file__)  # finds what is in the libraries it needs, except on Windows
        for name in ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}"):
            get, put, kind = (
                getattr(library, name.format(f), None) for f in ("get_num_threads", "set_num_threads", "get_parallel")
            )
            if get and put and kind:
                return _Blas(get, put) if kind() == 1 else None
        return None


def threads_of_blas() -> int:
    """Return how many threads NumPy multiplies matrices with, 1 if that is not known."""
    blas = _Blas.found()
    return max(blas.get(), 1) if blas is not None else 1
