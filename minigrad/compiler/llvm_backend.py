"""Running a plan without Python: every row program is a kernel of machine code, kept on disk by its content.

Kernels, products of matrices and rows taken by index need no Python. Those that follow each other are one list, which
a crew of threads works through (`loops/`); whatever else there is runs in between, with NumPy.
"""

from __future__ import annotations

import numpy as np

from minigrad.compiler.crew import Instruction, Work, crew, number_of_threads
from minigrad.compiler.kernel_cache import kernel_functions
from minigrad.compiler.kernel_source import write_kernel
from minigrad.compiler.layout import Buffer, span
from minigrad.compiler.numpy_backend import Memory, Step, equation_step, is_done_in_place
from minigrad.compiler.plan import SMALL
from minigrad.compiler.products import product
from minigrad.compiler.relocation import Relocation, Tables
from minigrad.compiler.rowfuse import Group
from minigrad.compiler.rows_by_number import rows_by_number
from minigrad.program import Equation

__all__ = ["make_steps", "relocations"]


def make_steps(memory: Memory, separate: bool = False) -> list[tuple[Step, list[Equation]]]:
    """Return the steps of a plan, each with the equations it computes; `separate` makes each kernel one."""
    threads = number_of_threads()
    steps: list[tuple[Step, list[Equation]]] = []
    waiting: list[Instruction] = []
    scratch = 64
    runs: list[Run] = []

    def run() -> None:
        if waiting:
            runs.append(Run(waiting.copy(), threads))
            steps.append((runs[-1], [eq for i in waiting for eq in i.equations]))
            waiting.clear()

    for group in memory.plan.groups:
        if group.domain is not None and not memory.plan.outside[group]:
            continue  # all of it is computed again where it is needed
        instructions = _instructions(memory, group, threads)
        if instructions is None:
            run()
            steps += [(equation_step(memory, eq), [eq]) for eq in group.equations]
            continue
        scratch = max([scratch, *(i.scratch for i in instructions)])
        waiting += instructions
        if separate:
            run()
    run()
    shared = np.zeros((threads, scratch), np.uint8)
    for each in runs:
        each.scratch = shared
    return steps


def relocations(memory: Memory, steps: list[tuple[Step, list[Equation]]]) -> dict[Buffer, Relocation]:
    """Return the arguments and results that may lie elsewhere in each run: those that only instructions touch."""
    plan = memory.plan
    runs = [step for step, _ in steps if isinstance(step, Run)]
    by_python = [eq for step, equations in steps if not isinstance(step, Run) for eq in equations]
    fixed = {plan.views[a].buffer for eq in by_python for a in (*eq.inputs, *eq.outs) if a in plan.views}
    outputs = {plan.views[a].buffer for a in plan.program.outputs}
    fixed |= {b for b in outputs if b.kind == "input"}  # whose copy is taken from where it lay first
    large = [b for b in memory.flat if b.kind in ("input", "result") and b.size * b.dtype.itemsize > SMALL]
    if not large or not runs:
        return {}
    tables = Tables([table for run in runs for table in run.tables])
    return {b: Relocation(memory.flat[b], tables) for b in large if b not in fixed}


class Run:
    """A list of instructions as one step."""

    scratch: np.ndarray

    def __init__(self, instructions: list[Instruction], threads: int) -> None:
        self.threads = threads
        tables = {id(t): t for i in instructions for t in (i.table, *i.keep)}  # two may share one
        self.tables = [t for t in tables.values() if t.dtype == np.int64]
        self.work = Work(instructions, threads)

    def __call__(self) -> None:
        crew(self.threads).run(self.work, self.scratch)


def _instructions(memory: Memory, group: Group, threads: int) -> list[Instruction] | None:
    """Return how a crew computes a group, None if it takes Python."""
    if group.domain is None:
        eq = group.equations[0]
        if is_done_in_place(memory, eq):
            return []
        found = product(memory, eq, threads) or rows_by_number(memory, eq)
        return [found] if found is not None else None
    kernel = write_kernel(memory.plan, group, threads)
    compiled = kernel_functions(kernel.source)
    buffers = list(dict.fromkeys(b for b, _ in kernel.places))
    arrays = [memory.flat[b] for b in buffers]
    places = [memory.flat[b].ctypes.data + start * b.dtype.itemsize for b, start in kernel.places]
    own = [np.zeros(n, np.uint8) for n in kernel.partial]
    table = np.array([*places, *(a.ctypes.data for a in own)], np.int64)
    results = {memory.plan.views[v].buffer for v in memory.plan.outside[group]}
    late = {memory.plan.views[v].buffer for v in group.late}
    reads = [span(a) for a in arrays]
    writes = [span(a) for a, b in zip(arrays, buffers, strict=True) if b in results]
    partials = [span(a) for a in own]
    if not kernel.partial:
        return [Instruction(compiled["run"], table, kernel.shared, reads, writes, group.equations, [], kernel.scratch)]
    writes += partials
    first = Instruction(compiled["run"], table, kernel.shared, reads, writes, group.equations, own, kernel.scratch)
    totals = [span(a) for a, b in zip(arrays, buffers, strict=True) if b in late]
    last = Instruction(compiled["finish"], table, False, partials, totals, [])
    return [first, last]
