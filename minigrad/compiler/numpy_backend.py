"""Running a plan with NumPy alone: every equation writes into memory that was set aside for it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from minigrad.compiler.blocks import Blocks, Part
from minigrad.compiler.layout import Span, View, span
from minigrad.compiler.numpy_calls import MATMUL, Call, Flag, call_into_memory, call_of, not_in_place, products, work
from minigrad.compiler.ops import is_scalar
from minigrad.compiler.plan import CONCATENATE, Plan
from minigrad.compiler.threads import Run, Task, threads_of_blas
from minigrad.program import Atom, Const, Equation

__all__ = ["MATMUL", "Memory", "Step", "equation_step", "is_done_in_place", "make_steps", "relocations"]

Step = Call
MOST_ALONE = 1 << 16  # elements: with fewer, threads would wait for Python's lock longer than they compute
MOST_THREADS = 8  # with more cores than that, only BLAS has threads: Python's lock has room for no more
PASS, MULTIPLICATION = 3e-4, 5e-5  # microseconds: to compute an element, and what a product is made of


class Memory:
    """The arrays behind the buffers of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.arena = _aligned(plan.arena)
        self.plan = plan
        self.invalid = Flag()
        self.flat: dict[Any, np.ndarray] = {}
        self._copies: list[tuple[np.ndarray, np.ndarray]] = []
        for atom, view in plan.views.items():
            buffer = view.buffer
            if buffer.kind == "arena" and buffer.start >= 0 and buffer not in self.flat:
                size = buffer.size * buffer.dtype.itemsize
                self.flat[buffer] = self.arena[buffer.start : buffer.start + size].view(buffer.dtype)
            elif buffer.kind == "result" and buffer not in self.flat:
                self.flat[buffer] = np.empty(buffer.size, buffer.dtype)
            elif buffer.kind == "constant" and isinstance(atom, Const) and buffer not in self.flat:
                value = np.asarray(atom.value)
                self.flat[buffer] = np.ravel(value)
                if not value.flags.c_contiguous:  # a copy, which is to follow what the caller does with the array
                    self._copies.append((self.flat[buffer].reshape(value.shape), value))

    def read_captured(self) -> None:
        """Copy what the program captures and cannot read where it lies."""
        for copy, value in self._copies:
            np.copyto(copy, value)

    def array(self, atom: Atom) -> Any:
        """Return the array of an atom; a number for a constant number."""
        if is_scalar(atom):
            return atom.value  # type: ignore[union-attr]
        view: View = self.plan.views[atom]
        return view.of(self.flat[view.buffer])


def _aligned(n_bytes: int) -> np.ndarray:
    raw = np.zeros(n_bytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n_bytes]


def make_steps(memory: Memory, separate: bool = False) -> list[tuple[Step, list[Equation]]]:
    """Return the steps of a plan, each with the equations it computes; `separate` makes each group one.

    Where NumPy's BLAS has several threads, and arrays are large, tasks are shared among as many threads of Python.
    """
    plan = memory.plan
    groups = [g for g in plan.groups if g.domain is None or plan.outside[g]]  # the others are computed again if needed
    blocks = {g: Blocks(plan, g, memory.array) for g in groups if g.domain is not None}
    threads = threads_of_blas() if any(prod(b.domain) >= MOST_ALONE for b in blocks.values()) else 1
    threads = threads if threads <= MOST_THREADS else 1
    size = max((b.scratch_bytes for b in blocks.values()), default=0)
    scratch = [_aligned(size) for _ in range(threads)]
    errors = partial(np.errstate, all="ignore", invalid="call", call=memory.invalid)
    steps: list[tuple[Step, list[Equation]]] = []
    waiting: list[Task] = []

    def run() -> None:
        if waiting:
            together = Run(waiting.copy(), threads, errors)
            steps.append((together, together.equations))
            waiting.clear()

    for group in groups:
        if group.domain is not None:
            tasks = _tasks_of_blocks(memory, blocks[group], scratch)
        else:
            tasks = _tasks_of_equation(memory, group.equations[0], threads)
        if tasks and threads > 1:
            waiting += tasks
        else:
            run()
            calls = [call for task in tasks for call in task.calls(0)] or [equation_step(memory, group.equations[0])]
            steps.append((calls[0] if len(calls) == 1 else partial(_all, calls), group.equations))
        if separate:
            run()
    run()
    return steps


def relocations(memory: Memory, steps: list[tuple[Step, list[Equation]]]) -> dict[Any, Any]:
    """Return what may lie elsewhere in each run: nothing, as NumPy's calls hold arrays that are where they are."""
    return {}


def _all(calls: list[Step]) -> None:
    for call in calls:
        call()


def _tasks_of_blocks(memory: Memory, blocks: Blocks, scratch: list[np.ndarray]) -> list[Task]:
    """Return how a group is computed: if it is large, a share of its rows by each thread."""
    equations, elements = blocks.group.equations, prod(blocks.domain)
    made = {out for eq in equations for out in eq.outs}
    shares = blocks.shares(max(1, min(len(scratch), 2 * elements // MOST_ALONE)))
    tasks = []
    for i, (whole, parts) in enumerate(shares):

        def calls(thread: int, parts: list[Part] = parts) -> list[Step]:
            arrays = [blocks.arrays(part, scratch[thread]) for part in parts]
            return [call_of(memory.invalid, array, eq) for array in arrays for eq in equations]

        array = blocks.arrays(whole, scratch[0])
        reads, writes = (_spans(array(a) for a in blocks.whole if (a in made) is written) for written in (False, True))
        cost = len(equations) * (len(parts) + elements / len(shares) * PASS)
        tasks.append(Task(calls, equations, reads, writes, cost, i if len(shares) > 1 else None))
    return tasks


def _tasks_of_equation(memory: Memory, eq: Equation, threads: int) -> list[Task]:
    """Return how an equation is computed by itself; no tasks, if it takes more than to call NumPy."""
    inputs, outs = ([memory.array(a) for a in atoms] for atoms in (eq.inputs, eq.outs))
    if eq.op is MATMUL:
        parts = products(inputs[0], inputs[1], outs[0], threads)
        numbers: Iterable[int | None] = range(len(parts)) if len(parts) > 1 else [None]
        return [
            _task(partial(np.matmul, *p), eq, p[:2], p[2:], work(*p) * MULTIPLICATION, i)
            for i, p in zip(numbers, parts, strict=True)
        ]
    step = call_into_memory(memory.invalid, memory.array, eq)
    cost = max(np.size(a) for a in inputs + outs) * PASS
    return [] if step is None else [_task(step, eq, inputs, outs, cost)]


def _task(
    call: Step, eq: Equation, reads: Iterable[Any], writes: Iterable[Any], cost: float, thread: int | None = None
) -> Task:
    return Task(lambda _: [call], [eq], _spans(reads), _spans(writes), cost + 2, thread)


def _spans(arrays: Iterable[Any]) -> list[Span]:
    return [span(a) for a in arrays if isinstance(a, np.ndarray)]


def equation_step(memory: Memory, eq: Equation) -> Step:
    """Return a function of no arguments that computes one equation into its memory."""
    return call_of(memory.invalid, memory.array, eq)


def is_done_in_place(memory: Memory, eq: Equation) -> bool:
    """Tell whether all parts of a concatenation are computed where the whole lies."""
    if eq.op is not CONCATENATE or eq.params.get("axis", 0) is None:
        return False
    return not not_in_place(eq, [memory.array(a) for a in eq.inputs], memory.array(eq.outs[0]))
