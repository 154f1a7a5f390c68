"""Rows of a matrix taken by their numbers, and its adjoint: what an embedding is."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.compiler.crew import Instruction
from minigrad.compiler.layout import span
from minigrad.compiler.loops import compiled
from minigrad.program import Atom, Equation
from minigrad.rules.index import Slot, gather, scatter

__all__ = ["out_of_range", "rows_by_number", "takes_rows"]

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def takes_rows(eq: Equation) -> tuple[Atom, int] | None:
    """Return the row numbers and how many rows there are, if an equation takes rows, or adds to them, by number."""
    if (eq.op is not gather and eq.op is not scatter) or len(eq.inputs) != 2:
        return None
    index, numbers = eq.params["index"], eq.inputs[1]
    index = index if isinstance(index, tuple) else (index,)
    if len(index) != 1 or not isinstance(index[0], Slot) or numbers.dtype.kind not in "iu":
        return None
    return numbers, (eq.inputs[0] if eq.op is gather else eq.outs[0]).shape[0]


def out_of_range(rows: int, axis: int, numbers: np.ndarray) -> IndexError:
    """Return NumPy's error for numbers of rows, or of what there is along an axis, of which one is out of range."""
    wrong = numbers[(numbers < -rows) | (numbers >= rows)].ravel()[0]
    return IndexError(f"index {wrong} is out of bounds for axis {axis} with size {rows}")


def rows_by_number(memory: Any, eq: Equation) -> Instruction | None:
    """Return how a crew takes rows or adds to them, None if the arrays are not such as the kernels know."""
    if takes_rows(eq) is None:
        return None
    numbers = memory.array(eq.inputs[1])
    matrix, rows = eq.inputs[0], eq.outs[0]
    if eq.op is scatter:
        matrix, rows = rows, matrix
    arrays = [memory.array(matrix), numbers, memory.array(rows)]
    if matrix.dtype not in DTYPES or numbers.dtype != np.int64 or 0 in rows.shape or matrix.dtype != rows.dtype:
        return None
    if not all(isinstance(a, np.ndarray) and a.flags.c_contiguous for a in arrays):
        return None
    kernels = compiled("rows", matrix.dtype.name)
    width = arrays[0].size // matrix.shape[0]
    table = np.array([*(a.ctypes.data for a in arrays), numbers.size, width, matrix.shape[0]], np.int64)
    spans = [span(a) for a in arrays]
    if eq.op is gather:
        return Instruction(kernels.take, table, numbers.size * width > 10_000, spans[:2], spans[2:], [eq])
    return Instruction(kernels.add, table, numbers.size * width > 10_000, spans[1:], spans[:1], [eq])
