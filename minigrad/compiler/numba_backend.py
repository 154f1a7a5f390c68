"""Running a plan with numba: every group is a kernel of its own, compiled once and cached on disk by its content.

Kernels, products of matrices and rows taken by index need no Python. Those that follow each other are one list, which
a crew of threads works through; whatever else there is runs in between, with NumPy.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from minigrad.compiler.crew import MOST_THREADS, Work, crew
from minigrad.compiler.kernel_source import write_kernel
from minigrad.compiler.numpy_backend import Memory, Step, equation_step, is_done_in_place
from minigrad.compiler.products import Blas, product
from minigrad.compiler.rowfuse import Group
from minigrad.compiler.rows_by_number import check_numbers, rows_by_number, takes_rows
from minigrad.program import Equation

__all__ = ["crew_loop", "numba_steps"]

_HEADER = '''"""A kernel written by minigrad, for its functions of version {version}."""

from math import cos, sin, sqrt

import numpy as np
from numba import cfunc, types

from minigrad.compiler.native import load, place, pointer, store
from minigrad.compiler.vector_math import erf, exp, expm1, log, log1p, maximum, minimum, tanh

f4, f8, i8, i4, b1 = np.float32, np.float64, np.int64, np.int32, np.bool_
INF, NAN = np.inf, np.nan
kernel = cfunc(
    types.void(types.int64, types.int64, types.int64, types.int64),
    cache=True,
    error_model="numpy",
    fastmath={{"reassoc", "contract", "nsz", "arcp"}},
    _nrt=False,  # no memory is allocated
)
'''


@dataclass
class Instruction:
    """A kernel to be run by a crew."""

    function: int  # its address
    table: np.ndarray  # int64: what it is called with
    shared: bool  # every thread does a part; otherwise one thread does it all
    reads: list[tuple[int, int]]  # spans of addresses
    writes: list[tuple[int, int]]
    equations: list[Equation]
    keep: list[np.ndarray] = field(default_factory=list)  # memory that the table points to


def numba_steps(memory: Memory, separate: bool = False) -> list[tuple[Step, list[Equation]]]:
    """Return the steps of a plan, each with the equations it computes; `separate` makes each kernel one."""
    from numba import config

    blas = Blas.found()
    cores: int = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    threads = min(cores, MOST_THREADS) if blas is not None else 1  # two pools of threads would fight for the cores
    steps: list[tuple[Step, list[Equation]]] = []
    waiting: list[Instruction] = []
    scratch = 64
    runs: list[Run] = []

    def run() -> None:
        if waiting:
            runs.append(Run(waiting.copy(), threads, blas))
            steps.append((runs[-1], [eq for i in waiting for eq in i.equations]))
            waiting.clear()

    checked: set[Any] = set()
    for group in memory.plan.groups:
        instructions, needs = _instructions(memory, group, threads, blas)
        scratch = max(scratch, needs)
        if instructions is None:
            run()
            steps += [(equation_step(memory, eq), [eq]) for eq in group.equations]
            continue
        found = takes_rows(group.equations[0])
        if found is not None and found not in checked:
            checked.add(found)
            check = partial(check_numbers, memory.array(found[0]), found[1]), group.equations
            if memory.plan.views[found[0]].buffer.kind == "arena":
                run()
                steps.append(check)
            else:  # known from the start: nothing is written if a number is wrong
                steps.insert(0, check)
        waiting += instructions
        if separate:
            run()
    run()
    shared = np.zeros((threads, scratch), np.uint8)
    for each in runs:
        each.scratch = shared
    return steps


class Run:
    """A list of instructions as one step."""

    scratch: np.ndarray

    def __init__(self, instructions: list[Instruction], threads: int, blas: Blas | None) -> None:
        self.threads = threads
        self.blas = blas
        self.keep = instructions
        self.work = Work(_listed(instructions, threads))

    def __call__(self) -> None:
        if self.blas is None:
            crew(self.threads).run(self.work, self.scratch)
            return
        with self.blas.one_thread():
            crew(self.threads).run(self.work, self.scratch)


def _listed(instructions: list[Instruction], threads: int) -> np.ndarray:
    """Return the list that a crew goes through.

    An instruction must wait for those before it if it touches what one of them writes, or writes what one of them
    touches; for all of them, as it is not told which part does what.
    """
    rows = []
    read: list[tuple[int, int]] = []
    written: list[tuple[int, int]] = []
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


def _touch(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    return any(start < other_end and other < end for start, end in a for other, other_end in b)


def _instructions(
    memory: Memory, group: Group, threads: int, blas: Blas | None
) -> tuple[list[Instruction] | None, int]:
    """Return how a crew computes a group, None if it takes Python, and the bytes of scratch memory a thread needs."""
    if group.domain is None:
        eq = group.equations[0]
        if is_done_in_place(memory, eq):
            return [], 0
        found = product(memory, eq, threads, blas) if blas is not None else None
        found = found or rows_by_number(memory, eq)
        return ([found] if found is not None else None), 0
    kernel = write_kernel(memory.plan, group, threads)
    compiled = _compiled(kernel.source)
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
    if not kernel.finish:
        first = Instruction(compiled.run.address, table, kernel.shared, reads, writes, group.equations)
        return [first], kernel.scratch
    first = Instruction(compiled.run.address, table, kernel.shared, reads, writes + partials, group.equations, own)
    totals = [span(a) for a, b in zip(arrays, buffers, strict=True) if b in late]
    last = Instruction(compiled.finish.address, table, False, partials, totals, [])
    return [first, last], kernel.scratch


def span(array: np.ndarray) -> tuple[int, int]:
    """Return the addresses that a contiguous array takes."""
    start = array.ctypes.data
    return start, start + array.nbytes


_loaded: dict[str, ModuleType] = {}


def _compiled(kernel: str) -> ModuleType:
    """Return the module of a kernel: from this process, from disk, or made now."""
    source = _HEADER.format(version=_math_version()) + kernel
    return _module("kernel", source)


def _module(kind: str, source: str) -> ModuleType:
    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    if digest not in _loaded:
        _loaded[digest] = _load(f"{kind}_{digest}", source)
    return _loaded[digest]


@functools.cache
def crew_loop() -> Any:
    """Return the compiled functions of loops/crew.py."""
    return _shipped("crew")


def product_run() -> int:
    """Return the address of the kernel of loops/products.py."""
    return _shipped("products").run.address  # type: ignore[no-any-return]


def rows_loop(dtype: str) -> Any:
    """Return the kernels of loops/rows.py for a dtype."""
    return _shipped("rows", dtype)


@functools.cache
def _shipped(name: str, dtype: str = "float32") -> ModuleType:
    """Return a module of this folder, compiled from a copy in the cache: numba's cache would not notice a change."""
    source = (Path(__file__).parent / "loops" / f"{name}.py").read_text().replace("types.float32", f"types.{dtype}")
    return _module(name, f"{source}\n# for the functions of version {_math_version()}\n")


@functools.cache
def _math_version() -> str:
    """Return a digest of the functions that kernels import: numba's cache does not notice when these change."""
    folder = Path(__file__).parent
    code = b"".join((folder / name).read_bytes() for name in ("vector_math.py", "llvm_value.py", "native.py"))
    return hashlib.sha256(code).hexdigest()[:12]


def _load(name: str, source: str) -> ModuleType:
    """Import a module from a file of its own: numba's cache on disk goes by files."""
    folder = cache_folder()
    path = folder / f"{name}.py"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp", delete=False) as file:
            file.write(source)
        os.replace(file.name, path)  # another process may be doing the same
    spec = importlib.util.spec_from_file_location(f"minigrad_kernels.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def cache_folder() -> Path:
    """Return where compiled kernels are kept: $MINIGRAD_CACHE, or minigrad below the user's cache folder.

    Where that cannot be written to, it is a temporary folder of this process: kernels are then compiled every time.
    """
    base = os.environ.get("MINIGRAD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "minigrad"
    )
    folder = Path(base) / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="minigrad-kernels-"))
