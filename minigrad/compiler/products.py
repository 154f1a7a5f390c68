"""Products of matrices without Python: BLAS, called by address, the work shared among the threads of a crew.

Each thread multiplies its part with BLAS on one thread. Compared with NumPy, whose BLAS has threads of its own, no
thread waits in a loop for the next product while others compute, and a batch of small matrices is shared too.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.compiler.crew import Instruction, span
from minigrad.compiler.kernel_cache import shipped
from minigrad.compiler.numpy_backend import MATMUL, Memory
from minigrad.program import Equation

__all__ = ["Blas", "product"]

GEMM = {np.dtype(np.float32): "sgemm", np.dtype(np.float64): "dgemm"}
SEQUENTIAL = 1  # of mkl_service.h
ENOUGH_WORK = 20_000  # multiplications: below, one thread does it all
TILE = 16  # rows or columns: a part is a multiple of this


@dataclass(frozen=True)
class Blas:
    """A BLAS that can be called without Python: the addresses of its functions, and how to set its threads."""

    name: str
    functions: dict[str, int]
    libraries: tuple[Any, ...]  # threadpoolctl's

    @staticmethod
    @functools.cache
    def found() -> Blas | None:
        """Return Intel's MKL if that is installed, or else what SciPy brings; None without scipy and threadpoolctl."""
        if sys.byteorder != "little":  # _block writes an int where an int64 is
            return None
        try:
            import threadpoolctl
            from numba.extending import get_cython_function_address
            from scipy.linalg import cython_blas
        except ImportError:
            return None
        known = threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers
        path = _path_of_mkl()
        if path is not None:
            loaded = tuple(library for library in known if library.internal_api == "mkl")
            mkl = ctypes.CDLL(str(path))
            if not loaded:
                mkl.MKL_Set_Threading_Layer(SEQUENTIAL)
            addresses = {name: ctypes.cast(getattr(mkl, name), ctypes.c_void_p).value or 0 for name in GEMM.values()}
            return Blas("MKL", addresses, loaded)
        functions = {name: get_cython_function_address(cython_blas.__name__, name) for name in GEMM.values()}
        own = [library for library in known if "scipy" in Path(library.filepath).parent.name]  # as in its wheels
        return Blas("SciPy's", functions, tuple(own or known))

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Let BLAS use one thread for each of its callers."""
        before = [library.num_threads for library in self.libraries]
        changed = [(library, n) for library, n in zip(self.libraries, before, strict=True) if n != 1]
        for library, _ in changed:
            library.set_num_threads(1)
        try:
            yield
        finally:
            for library, n in changed:
                library.set_num_threads(n)


def _path_of_mkl() -> Path | None:
    """Return where the library of the package mkl is, if that is installed."""
    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in files if f.name.startswith(("libmkl_rt", "mkl_rt"))), None)


@dataclass(frozen=True)
class Matrices:
    """A batch of matrices in memory. Fortran sees a matrix of C order as its transpose."""

    address: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements

    @staticmethod
    def of(x: np.ndarray) -> Matrices:
        """Describe an array of two or more axes."""
        strides = tuple(s // x.itemsize for s in x.strides)
        return Matrices(x.__array_interface__["data"][0], x.itemsize, x.shape, strides)

    @property
    def by_columns(self) -> int | None:
        """The distance of columns, if numbers of a column are neighbours."""
        (m, n), (row, column) = self.shape[-2:], self.strides[-2:]
        if m != 1 and row != 1:
            return None
        return max(m, 1) if n == 1 else column if column >= m else None

    @property
    def transposed(self) -> Matrices:
        """The same memory with the last two axes exchanged."""
        (*batch, m, n), (*steps, row, column) = self.shape, self.strides
        return Matrices(self.address, self.itemsize, (*batch, n, m), (*steps, column, row))

    @property
    def ordered(self) -> tuple[str, int] | None:
        """How Fortran sees a matrix: as it is or transposed ("N", "T"), and the distance of its columns."""
        for way, matrices in (("N", self), ("T", self.transposed)):
            distance = matrices.by_columns
            if distance is not None:
                return way, distance
        return None

    def along(self, axis: int, low: int, high: int) -> Matrices:
        """Return what lies from low to high along an axis, counted from the last; all, if that is broadcast."""
        if len(self.shape) < -axis or (axis < -2 and self.shape[axis] == 1):
            return self
        shape = list(self.shape)
        shape[axis] = high - low
        start = self.address + low * self.strides[axis] * self.itemsize
        return Matrices(start, self.itemsize, tuple(shape), self.strides)

    def addresses(self, batch: tuple[int, ...]) -> np.ndarray:
        """Return where each matrix of a batch begins."""
        places = np.full(batch, self.address, np.int64)
        missing = len(batch) - (len(self.shape) - 2)
        for axis, (n, stride) in enumerate(zip(self.shape[:-2], self.strides[:-2], strict=True)):
            steps = np.arange(batch[missing + axis]) * (stride * self.itemsize if n != 1 else 0)
            places += steps.reshape(-1, *[1] * (len(batch) - missing - axis - 1))
        return places.reshape(-1)


def product(memory: Memory, eq: Equation, threads: int, blas: Blas) -> Instruction | None:
    """Return how a crew multiplies, or None if the equation is not a product that BLAS can compute."""
    out = eq.outs[0]
    if eq.op is not MATMUL or out.dtype not in GEMM or any(a.dtype != out.dtype for a in eq.inputs):
        return None
    x, y, z = (memory.array(a) for a in (*eq.inputs, out))
    if x.ndim < 2 or y.ndim < 2 or 0 in z.shape or x.shape[-1] == 0:
        return None
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous and z.flags.c_contiguous:
        x, z = x.reshape(-1, x.shape[-1]), z.reshape(-1, z.shape[-1])
    a, b, c = Matrices.of(x), Matrices.of(y), Matrices.of(z)
    if c.by_columns is None:  # z = x y is z' = y' x'
        a, b, c = b.transposed, a.transposed, c.transposed
    if c.by_columns is None or a.ordered is None or b.ordered is None:
        return None
    parts = _parts(a, b, c, threads if z.size * x.shape[-1] >= ENOUGH_WORK else 1)
    gemm = blas.functions[GEMM[out.dtype]]
    blocks = [array for part in parts for array in _block(gemm, out.dtype, *part)]
    table = np.array([block.ctypes.data for block in blocks[::3]], np.int64)
    memories = [span(memory.flat[memory.plan.views[v].buffer]) for v in (*eq.inputs, out)]
    return Instruction(shipped("products").run.address, table, len(parts) > 1, memories[:2], memories[2:], [eq], blocks)


def _parts(a: Matrices, b: Matrices, c: Matrices, parts: int) -> list[tuple[Matrices, Matrices, Matrices]]:
    """Share the products out: whole matrices of a batch, or else rows or columns of the result."""
    batch = c.shape[:-2]
    if parts == 1:
        return [(a, b, c)]
    for axis, n in enumerate(batch):
        if n % parts == 0 or n >= 8 * parts:
            return [tuple(m.along(axis - len(c.shape), *s) for m in (a, b, c)) for s in _spans(n, parts, 1)]  # type: ignore[misc]
    m, n = c.shape[-2:]
    if max(m, n) < parts * TILE:
        return [(a, b, c)]
    if m >= n:
        return [(a.along(-2, *s), b, c.along(-2, *s)) for s in _spans(m, parts, TILE)]
    return [(a, b.along(-1, *s), c.along(-1, *s)) for s in _spans(n, parts, TILE)]


def _spans(n: int, parts: int, tile: int) -> list[tuple[int, int]]:
    ends = [n * part // parts // tile * tile for part in range(parts)] + [n]
    return list(itertools.pairwise(ends))


def _block(
    gemm: int, dtype: np.dtype[Any], a: Matrices, b: Matrices, c: Matrices
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the block that loops/products.py reads, and what it points to. Fortran takes all by address."""
    (trans_a, lda), (trans_b, ldb), (_, ldc) = a.ordered, b.ordered, c.ordered  # type: ignore[misc]
    cells = np.zeros(10, np.int64)  # one for each argument, whatever its type
    cells[:5] = ord(trans_a), ord(trans_b), *c.shape[-2:], a.shape[-1]
    cells[5:6].view(dtype)[0] = 1
    cells[6:8], cells[9] = (lda, ldb), ldc
    known = cells.ctypes.data + 8 * np.arange(10)
    where = np.stack([m.addresses(c.shape[:-2]) for m in (a, b, c)], 1)
    block = np.concatenate([[gemm, known.ctypes.data, len(where)], where.reshape(-1)]).astype(np.int64)
    return block, known, cells
