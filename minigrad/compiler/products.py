"""Products of matrices without Python: how a crew shares out the work of loops/products.py.

Compared with NumPy's, no thread waits for the next product while others compute, a batch of small matrices is shared
too, and no other library is needed.
"""

from __future__ import annotations

import itertools

import numpy as np

from minigrad.compiler.crew import Instruction
from minigrad.compiler.layout import span
from minigrad.compiler.loops import compiled
from minigrad.compiler.numpy_backend import Memory
from minigrad.compiler.numpy_calls import MATMUL, along, folded
from minigrad.program import Equation

__all__ = ["product"]

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
ENOUGH_WORK = 20_000  # multiplications: below, one thread does it all


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
    a, b, c = folded(x, y, z)
    if not _has_whole_rows(c):  # z = x y is z' = y' x'
        a, b, c = b.mT, a.mT, c.mT
    if not _has_whole_rows(c):
        return None
    kernel = compiled("products", out.dtype.name)
    parts = _parts(a, b, c, threads if z.size * x.shape[-1] >= ENOUGH_WORK else 1, (kernel.ROWS, kernel.WIDTH))
    blocks = [_block(*part) for part in parts]
    table = np.array([block.ctypes.data for block in blocks], np.int64)
    memories = [span(memory.flat[memory.plan.views[v].buffer]) for v in (*eq.inputs, out)]
    return Instruction(kernel.run, table, len(parts) > 1, memories[:2], memories[2:], [eq], blocks, kernel.SCRATCH)


def _has_whole_rows(x: np.ndarray) -> bool:
    """Tell whether the numbers of a row are neighbours."""
    return x.shape[-1] == 1 or x.strides[-1] == x.itemsize


def _parts(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, parts: int, tile: tuple[int, int]
) -> list[tuple[np.ndarray, ...]]:
    """Share the products out: whole matrices of a batch, or else rows or columns of the result, in whole tiles."""
    batch, (m, n) = c.shape[:-2], c.shape[-2:]
    if parts == 1:
        return [(a, b, c)]
    for axis, length in enumerate(batch):
        if length % parts == 0 or length >= 8 * parts:
            spans = _spans(length, parts, 1)
            return [tuple(along(x, axis - c.ndim, *s) for x in (a, b, c)) for s in spans]
    if m >= n and m >= parts * tile[0]:
        return [(along(a, -2, *s), b, along(c, -2, *s)) for s in _spans(m, parts, tile[0])]
    if n >= parts * tile[1]:
        return [(a, along(b, -1, *s), along(c, -1, *s)) for s in _spans(n, parts, tile[1])]
    return [(a, b, c)]


def _spans(n: int, parts: int, tile: int) -> list[tuple[int, int]]:
    ends = [n * part // parts // tile * tile for part in range(parts)] + [n]
    return list(itertools.pairwise(ends))


def _block(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the block that loops/products.py reads: distances are counted in numbers."""
    distances = [stride // x.itemsize for x in (a, b) for stride in x.strides[-2:]]
    known = [*c.shape[-2:], a.shape[-1], *distances, c.strides[-2] // c.itemsize]
    where = np.stack([_addresses(x, c.shape[:-2]) for x in (a, b, c)], 1)
    return np.concatenate([known, [len(where)], where.reshape(-1)]).astype(np.int64)


def _addresses(x: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """Return where each matrix of a batch begins."""
    whole = np.broadcast_to(x, (*batch, *x.shape[-2:]))
    places = np.full(batch, x.__array_interface__["data"][0], np.int64)
    for axis, (n, stride) in enumerate(zip(batch, whole.strides, strict=False)):
        places += (np.arange(n) * stride).reshape(-1, *[1] * (len(batch) - axis - 1))
    return places.reshape(-1)
