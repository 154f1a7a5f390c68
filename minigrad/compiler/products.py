"""Products of matrices without Python: how a crew shares out the work of loops/products.py.

Compared with NumPy's, no thread waits for the next product while others compute, a batch of small matrices is shared
too, and no other library is needed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from minigrad.compiler.crew import Instruction, span
from minigrad.compiler.kernel_cache import shipped
from minigrad.compiler.numpy_backend import MATMUL, Memory
from minigrad.program import Equation

__all__ = ["product"]

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
ENOUGH_WORK = 20_000  # multiplications: below, one thread does it all


@dataclass(frozen=True)
class Matrices:
    """A batch of matrices in memory."""

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
    def transposed(self) -> Matrices:
        """The same memory with the last two axes exchanged."""
        (*batch, m, n), (*steps, row, column) = self.shape, self.strides
        return Matrices(self.address, self.itemsize, (*batch, n, m), (*steps, column, row))

    @property
    def has_whole_rows(self) -> bool:
        """Whether the numbers of a row are neighbours."""
        return self.shape[-1] == 1 or self.strides[-1] == 1

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


def product(memory: Memory, eq: Equation, threads: int) -> Instruction | None:
    """Return how a crew multiplies, or None if the equation is not a product of float32 or float64 matrices."""
    out = eq.outs[0]
    if eq.op is not MATMUL or out.dtype not in DTYPES or any(a.dtype != out.dtype for a in eq.inputs):
        return None
    x, y, z = (memory.array(a) for a in (*eq.inputs, out))
    if 0 in z.shape or x.shape[-1] == 0:
        return None
    if y.ndim == 1:
        y, z = y[:, None], z[..., None]
    if x.ndim == 1:
        x, z = x[None], z[..., None, :]
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous and z.flags.c_contiguous:
        x, z = x.reshape(-1, x.shape[-1]), z.reshape(-1, z.shape[-1])
    a, b, c = Matrices.of(x), Matrices.of(y), Matrices.of(z)
    if not c.has_whole_rows:  # z = x y is z' = y' x'
        a, b, c = b.transposed, a.transposed, c.transposed
    if not c.has_whole_rows:
        return None
    kernel = shipped("products", out.dtype.name)
    parts = _parts(a, b, c, threads if z.size * x.shape[-1] >= ENOUGH_WORK else 1, (kernel.ROWS, kernel.WIDTH))
    blocks = [_block(*part) for part in parts]
    table = np.array([block.ctypes.data for block in blocks], np.int64)
    memories = [span(memory.flat[memory.plan.views[v].buffer]) for v in (*eq.inputs, out)]
    return Instruction(
        kernel.run.address, table, len(parts) > 1, memories[:2], memories[2:], [eq], blocks, kernel.SCRATCH
    )


def _parts(
    a: Matrices, b: Matrices, c: Matrices, parts: int, tile: tuple[int, int]
) -> list[tuple[Matrices, Matrices, Matrices]]:
    """Share the products out: whole matrices of a batch, or else rows or columns of the result, in whole tiles."""
    batch, (m, n) = c.shape[:-2], c.shape[-2:]
    if parts == 1:
        return [(a, b, c)]
    for axis, length in enumerate(batch):
        if length % parts == 0 or length >= 8 * parts:
            spans = _spans(length, parts, 1)
            return [tuple(x.along(axis - len(c.shape), *s) for x in (a, b, c)) for s in spans]  # type: ignore[misc]
    if m >= n and m >= parts * tile[0]:
        return [(a.along(-2, *s), b, c.along(-2, *s)) for s in _spans(m, parts, tile[0])]
    if n >= parts * tile[1]:
        return [(a, b.along(-1, *s), c.along(-1, *s)) for s in _spans(n, parts, tile[1])]
    return [(a, b, c)]


def _spans(n: int, parts: int, tile: int) -> list[tuple[int, int]]:
    ends = [n * part // parts // tile * tile for part in range(parts)] + [n]
    return list(itertools.pairwise(ends))


def _block(a: Matrices, b: Matrices, c: Matrices) -> np.ndarray:
    """Return the block that loops/products.py reads."""
    known = [*c.shape[-2:], a.shape[-1], *a.strides[-2:], *b.strides[-2:], c.strides[-2]]
    where = np.stack([x.addresses(c.shape[:-2]) for x in (a, b, c)], 1)
    return np.concatenate([known, [len(where)], where.reshape(-1)]).astype(np.int64)
