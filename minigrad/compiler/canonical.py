"""One way to write what NumPy writes in several: the first pass of lowering."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from minigrad.compiler.ops import is_scalar
from minigrad.compiler.rows_by_number import out_of_range, takes_rows
from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.require import _op as REQUIRE
from minigrad.rewriter import Rewriter
from minigrad.rules.index import Slot, cast, gather, scatter
from minigrad.shapes import kept_shape, normal_axes, reduced_count
from minigrad.zero import zero_stays_zero

__all__ = ["canonical"]

ADD, MULTIPLY, DIVIDE, WHERE, EQUAL = (OPS[f] for f in (np.add, np.multiply, np.divide, np.where, np.equal))
POWER, CLIP, CONJUGATE = (OPS[f] for f in (np.power, np.clip, np.conjugate))
RESHAPE, SUM, MEAN = (OPS[f] for f in (np.reshape, np.sum, np.mean))
EXTREMA = {OPS[np.max]: OPS[np.max], OPS[np.amax]: OPS[np.max], OPS[np.min]: OPS[np.min], OPS[np.amin]: OPS[np.min]}


def canonical(program: Program) -> Program:
    """Write reductions with their axes kept, means as sums, and one column per row as a comparison of columns."""
    r = Rewriter(program)
    maker = {out: eq for eq in program.equations for out in eq.outs}
    checked: set[Any] = set()  # row numbers, and how many rows there are
    for eq in program.equations:
        inputs, out = r.inputs(eq), eq.outs[0]
        if eq.op is zero_stays_zero and _times_a_number(maker.get(eq.inputs[1])):  # type: ignore[arg-type]
            r.let(out, inputs[1])
        elif (eq.op is SUM or eq.op is MEAN or eq.op in EXTREMA) and _is_plain_reduction(eq):
            _reduce(r, eq, inputs[0], out)
        elif eq.op is RESHAPE and eq.params.get("order") == "F":
            backwards = r.emit(OPS[np.transpose], (inputs[0],), Var(inputs[0].shape[::-1], out.dtype), eq)
            whole = r.emit(RESHAPE, (backwards,), Var(out.shape[::-1], out.dtype), eq, shape=out.shape[::-1])
            r.emit(OPS[np.transpose], (whole,), out, eq)
        elif eq.op is cast and inputs[0].dtype == out.dtype:
            r.let(out, inputs[0])
        elif eq.op is CONJUGATE and inputs[0].dtype == out.dtype and out.dtype.kind == "f":
            r.let(out, inputs[0])
        elif eq.op is POWER and (n := _whole_power(eq)):
            squared = r.emit(MULTIPLY, (inputs[0], inputs[0]), out if n == 2 else Var(out.shape, out.dtype), eq)
            if n > 2:
                r.emit(MULTIPLY, (squared, squared if n == 4 else inputs[0]), out, eq)
        elif eq.op is CLIP and len(inputs) == 3 and not any(map(_is_none, inputs)) and not eq.params:
            above = r.emit(OPS[np.maximum], inputs[:2], Var(_broadcast(inputs[:2]), out.dtype), eq)
            r.emit(OPS[np.minimum], (above, inputs[2]), out, eq)
        elif eq.op is DIVIDE and is_scalar(inputs[1]) and _has_exact_inverse(inputs[1].value, out.dtype):  # type: ignore[union-attr]
            r.emit(MULTIPLY, (inputs[0], Const(1 / inputs[1].value)), out, eq)  # type: ignore[union-attr]
        elif eq.op is gather and _takes_one_column(eq.params["index"], inputs[1:], inputs[0].shape):
            x = inputs[0]
            hit = _hit(r, eq, x.shape[-1], inputs[-1])
            chosen = r.emit(WHERE, (hit, x, Const(0)), Var(x.shape, x.dtype), eq)
            r.emit(SUM, (chosen, Const(True)), out, eq, axis=(len(x.shape) - 1,), keepdims=True)
        elif eq.op is scatter and _takes_one_column(eq.params["index"], inputs[1:], eq.params["shape"]):
            hit = _hit(r, eq, out.shape[-1], inputs[-1])
            r.emit(WHERE, (hit, inputs[0], Const(0)), out, eq)
        else:
            taken = takes_rows(eq)
            if taken is not None and taken not in checked:
                checked.add(taken)
                _check_range(r, eq, taken[1], 0, inputs[1])
            r.keep(eq)
    return r.done()


def _whole_power(eq: Equation) -> int:
    """Return the exponent if it is the number 2, 3 or 4: one or two products are fast, and exact enough."""
    x, exponent = eq.inputs
    if not is_scalar(exponent) or x.dtype != eq.outs[0].dtype or x.dtype.kind != "f" or x.shape != eq.outs[0].shape:
        return 0
    return next((n for n in (2, 3, 4) if exponent.value == n), 0)  # type: ignore[union-attr]


def _is_none(atom: Atom | None) -> bool:
    return atom is None or (isinstance(atom, Const) and atom.value is None)


def _broadcast(atoms: tuple[Atom, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(a.shape for a in atoms))


def _times_a_number(eq: Equation | None) -> bool:
    """Tell whether an equation multiplies by a finite constant: 0 then stays 0 by itself."""
    if eq is None or eq.op not in (MULTIPLY, DIVIDE):
        return False
    numbers = [a.value for a in eq.inputs if is_scalar(a)]  # type: ignore[union-attr]
    return len(numbers) == 1 and bool(abs(numbers[0]) < np.inf) and (eq.op is MULTIPLY or numbers[0] != 0)


def _is_plain_reduction(eq: Equation) -> bool:
    x, out = eq.inputs[0], eq.outs[0]
    masked = len(eq.inputs) > 1 and not (is_scalar(eq.inputs[1]) and eq.inputs[1].value is True)  # type: ignore[union-attr]
    params = {k for k, v in eq.params.items() if v is not None}
    return params <= {"axis", "keepdims"} and not masked and x.dtype == out.dtype and out.dtype.kind == "f"


def _reduce(r: Rewriter, eq: Equation, x: Atom, out: Var) -> None:
    axis = normal_axes(eq.params.get("axis"), len(x.shape))
    if not axis:
        r.let(out, x)
        return
    kept = kept_shape(x.shape, axis)
    last = out if out.shape == kept else Var(kept, out.dtype)
    if eq.op is MEAN:
        total = r.emit(SUM, (x, Const(True)), Var(kept, out.dtype), eq, axis=axis, keepdims=True)
        r.emit(DIVIDE, (total, Const(float(reduced_count(x.shape, axis)))), last, eq)
    else:
        r.emit(EXTREMA.get(eq.op, SUM), (x, Const(True)), last, eq, axis=axis, keepdims=True)
    if last is not out:
        r.emit(RESHAPE, (last,), out, eq, shape=out.shape)


def _takes_one_column(index: Any, arrays: tuple[Atom, ...], shape: tuple[int, ...]) -> bool:
    """Tell whether an index is that of np.take_along_axis with one column per row."""
    if (
        not shape
        or len(arrays) != len(shape)
        or len(index) != len(shape)
        or not all(isinstance(i, Slot) for i in index)
    ):
        return False
    if arrays[-1].shape != (*shape[:-1], 1) or arrays[-1].dtype.kind not in "iu":
        return False
    for axis, rows in enumerate(arrays[:-1]):
        grid = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        if not isinstance(rows, Const) or rows.shape != grid or np.any(np.ravel(rows.value) != np.arange(shape[axis])):
            return False
    return True


def _has_exact_inverse(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether to divide by a number is to multiply by another: by a power of two, within the range of a dtype."""
    if dtype.kind != "f" or not abs(value) < np.inf or not value:
        return False
    mantissa, exponent = math.frexp(value)
    limits = np.finfo(dtype)
    return abs(mantissa) == 0.5 and limits.minexp < exponent < limits.maxexp and limits.minexp < -exponent


def _hit(r: Rewriter, eq: Equation, columns: int, column: Atom) -> Var:
    """Compare the numbers of columns with the column that is wanted, which may be counted from the end."""
    _check_range(r, eq, columns, -1, column)
    if column.dtype.itemsize < 4:  # the number of columns may be none of this type
        column = r.emit(cast, (column,), Var(column.shape, np.dtype(np.int64)), eq, dtype=np.dtype(np.int64))
    negative = r.emit(OPS[np.less], (column, Const(0)), Var(column.shape, np.dtype(bool)), eq)
    shifted = r.emit(ADD, (column, Const(columns)), Var(column.shape, column.dtype), eq)
    column = r.emit(WHERE, (negative, shifted, column), Var(column.shape, column.dtype), eq)
    return r.emit(EQUAL, (Const(np.arange(columns)), column), Var((*column.shape[:-1], columns), np.dtype(bool)), eq)


def _check_range(r: Rewriter, eq: Equation, n: int, axis: int, numbers: Atom) -> None:
    """Require at every run that numbers of rows or columns are such, before anything is written."""
    boolean = np.dtype(bool)
    below = r.emit(OPS[np.less], (numbers, Const(n)), Var(numbers.shape, boolean), eq)
    above = r.emit(OPS[np.greater_equal], (numbers, Const(-n)), Var(numbers.shape, boolean), eq)
    both = r.emit(OPS[np.logical_and], (above, below), Var(numbers.shape, boolean), eq)
    r.emit(REQUIRE, (both, numbers), Var(numbers.shape, boolean), eq, error=partial(out_of_range, n, axis))
