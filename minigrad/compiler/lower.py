"""Rewriting a Program into the few kinds of equation that the compiler plans: every pass is Program -> Program."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from minigrad.compiler.accumulate import join_pieces
from minigrad.compiler.ops import ELEMENTWISE, fusable, is_scalar
from minigrad.compiler.rows_by_number import out_of_range, takes_rows
from minigrad.op import OPS, Op
from minigrad.program import Atom, Const, Equation, Program, Var, validate, without_dead_code
from minigrad.require import _op as REQUIRE
from minigrad.rules.index import Slot, cast, gather, scatter
from minigrad.shapes import kept_shape, normal_axes, reduced_count
from minigrad.zero import zero_stays_zero

__all__ = ["lower"]

ADD, MULTIPLY, DIVIDE, WHERE, EQUAL = (OPS[f] for f in (np.add, np.multiply, np.divide, np.where, np.equal))
COPY, MATMUL, CONCATENATE = (OPS[f] for f in (np.copy, np.matmul, np.concatenate))
POWER, CLIP, CONJUGATE = (OPS[f] for f in (np.power, np.clip, np.conjugate))
RESHAPE, BROADCAST, SUM, MEAN = (OPS[f] for f in (np.reshape, np.broadcast_to, np.sum, np.mean))
EXTREMA = {OPS[np.max]: OPS[np.max], OPS[np.amax]: OPS[np.max], OPS[np.min]: OPS[np.min], OPS[np.amin]: OPS[np.min]}


def lower(program: Program) -> Program:
    """Return an equivalent Program that fuses well."""
    for rewrite in (canonical, share, join_pieces, sink_broadcasts, move_reshapes, share, own_parts):
        program = without_dead_code(rewrite(program))
    return program


class Rewriter:
    """Builds a program equation by equation out of an old one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.equations: list[Equation] = []
        self.replaced: dict[Atom, Atom] = {}

    def inputs(self, eq: Equation) -> tuple[Atom, ...]:
        """Return what stands for the inputs of an equation of the old program."""
        if self.replaced.keys().isdisjoint(eq.inputs):
            return eq.inputs
        return tuple([self.replaced.get(a, a) for a in eq.inputs])

    def let(self, old: Var, new: Atom) -> None:
        """Say that `new` replaces `old` from here on."""
        self.replaced[old] = new

    def emit(self, op: Op, inputs: tuple[Atom, ...], out: Var, like: Equation, **params: Any) -> Var:
        """Add an equation for `out`, with the source line of another."""
        self.equations.append(Equation((out,), op, inputs, params, like.source))
        return out

    def keep(self, eq: Equation) -> None:
        """Add an equation of the old program, on the new atoms."""
        inputs = self.inputs(eq)
        self.equations.append(eq if inputs is eq.inputs else replace(eq, inputs=inputs))

    def done(self) -> Program:
        """Return the new program."""
        old = self.program
        outputs = tuple(self.replaced.get(a, a) for a in old.outputs)
        return validate(Program(old.inputs, tuple(self.equations), outputs, old.name, old.notes))


# --- reductions, casts, and indexing of one column per row


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
    return len(numbers) == 1 and bool(np.isfinite(numbers[0])) and (eq.op is MULTIPLY or numbers[0] != 0)


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
    if dtype.kind != "f" or not np.isfinite(value) or not value:
        return False
    mantissa, exponent = math.frexp(value)
    limits = np.finfo(dtype)
    return abs(mantissa) == 0.5 and limits.minexp < exponent < limits.maxexp and limits.minexp < -exponent


def _hit(r: Rewriter, eq: Equation, columns: int, column: Atom) -> Var:
    """Compare the numbers of columns with the column that is wanted, which may be counted from the end."""
    _check_range(r, eq, columns, -1, column)
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


# --- sharing


def share(program: Program) -> Program:
    """Compute equal things once, and drop views that change nothing."""
    r = Rewriter(program)
    seen: dict[Any, Var] = {}
    reshaped: dict[Var, Atom] = {}  # what a reshaped array was before any reshape
    for eq in program.equations:
        inputs, out = r.inputs(eq), eq.outs[0]
        if eq.op is RESHAPE and eq.params.get("order", "C") == "C":
            whole = reshaped.get(inputs[0], inputs[0])  # type: ignore[arg-type]
            reshaped[out] = whole
            if whole.shape == out.shape:
                r.let(out, whole)
                continue
            inputs, eq = (whole,), Equation(eq.outs, RESHAPE, (whole,), {"shape": out.shape}, eq.source)
        if eq.op is BROADCAST and inputs[0].shape == out.shape:
            r.let(out, inputs[0])
        elif eq.several or eq.op.kind == "effect":
            r.keep(eq)
        else:
            key = (eq.op, tuple(map(_key, inputs)), repr(sorted(eq.params.items())))
            if key in seen:
                r.let(out, seen[key])
            else:
                seen[key] = out
                r.keep(eq)
    return r.done()


def _key(atom: Atom) -> Any:
    if isinstance(atom, Const):
        return (type(atom.value), repr(atom.value)) if is_scalar(atom) else id(atom.value)  # 0.0 is not -0.0
    return atom


# --- views, moved to where they cost nothing


def sink_broadcasts(program: Program) -> Program:
    """Let elementwise equations broadcast by themselves; compute what is the same for a whole row once per row."""
    r = Rewriter(program)
    narrow: dict[Var, Atom] = {}  # a broadcast variable, and what it is the broadcast of
    for eq in program.equations:
        inputs, out = r.inputs(eq), eq.outs[0]
        if eq.op is BROADCAST and len(inputs[0].shape) == len(out.shape):
            narrow[out] = inputs[0]
            r.keep(eq)
        elif eq.op in ELEMENTWISE and not eq.several and any(a in narrow for a in inputs):
            inside = tuple(narrow.get(a, a) for a in inputs)  # type: ignore[arg-type]
            shape = np.broadcast_shapes(*(a.shape for a in inside))
            if shape == out.shape:
                r.emit(eq.op, inside, out, eq, **eq.params)
            elif len(shape) == len(out.shape):
                small = r.emit(eq.op, inside, Var(shape, out.dtype), eq, **eq.params)
                r.emit(BROADCAST, (small,), out, eq, shape=out.shape)
                narrow[out] = small
            else:
                r.keep(eq)
        else:
            r.keep(eq)
    return r.done()


def move_reshapes(program: Program) -> Program:
    """Let an elementwise equation of one array keep the shape of the equations around it.

    After a product, reshape first; after an elementwise equation or a reduction, reshape last. Either way the
    equation can then be part of the loop it belongs to.
    """
    r = Rewriter(program)
    maker = {out: eq for eq in program.equations for out in eq.outs}
    uses: dict[Atom, int] = {}
    for eq in program.equations:
        for a in eq.inputs:
            uses[a] = uses.get(a, 0) + 1
    for eq in program.equations:
        out = eq.outs[0]
        array = _lone_array(eq)
        source = maker.get(eq.inputs[0]) if eq.op is RESHAPE else None  # type: ignore[arg-type]
        if (
            source is not None
            and _lone_array(source)
            and uses[source.outs[0]] == 1
            and source.outs[0] not in program.outputs
        ):
            inner = _lone_array(source)
            assert inner is not None
            if maker.get(inner) is None or maker[inner].op not in ELEMENTWISE:  # type: ignore[arg-type, index]
                _reshape_first(r, eq, source, inner)
                continue
        if array is not None and (before := maker.get(array)) is not None and before.op is RESHAPE:  # type: ignore[arg-type]
            computed = maker.get(before.inputs[0])  # type: ignore[arg-type]
            if computed is not None and computed.op in ELEMENTWISE and before.params.get("order", "C") == "C":
                whole = r.replaced.get(before.inputs[0], before.inputs[0])
                inputs = tuple(whole if a is array else r.replaced.get(a, a) for a in eq.inputs)
                inside = r.emit(eq.op, inputs, Var(whole.shape, out.dtype), eq, **eq.params)
                r.emit(RESHAPE, (inside,), out, eq, shape=out.shape)
                continue
        r.keep(eq)
    return r.done()


def _lone_array(eq: Equation) -> Atom | None:
    """Return the one array of an elementwise equation of an array and numbers."""
    arrays = [a for a in eq.inputs if not is_scalar(a)]
    lone = eq.op in ELEMENTWISE and not eq.several and len(arrays) == 1 and arrays[0].shape == eq.outs[0].shape
    return arrays[0] if lone else None


def _reshape_first(r: Rewriter, eq: Equation, source: Equation, array: Atom) -> None:
    shape = eq.outs[0].shape
    array = r.replaced.get(array, array)
    before = r.emit(RESHAPE, (array,), Var(shape, array.dtype), eq, shape=shape)
    inputs = tuple(a if is_scalar(a) else before for a in source.inputs)
    r.emit(source.op, inputs, eq.outs[0], source, **source.params)


def own_parts(program: Program) -> Program:
    """Let every part of a concatenation be computed for it alone, so that it can be computed in its place."""
    r = Rewriter(program)
    maker = {out: eq for eq in program.equations for out in eq.outs}
    users = Counter([*(a for eq in program.equations for a in eq.inputs), *program.outputs])
    for eq in program.equations:
        if eq.op is not CONCATENATE or eq.params.get("axis", 0) is None or 0 in eq.outs[0].shape:
            r.keep(eq)
            continue
        parts = []
        for a in r.inputs(eq):
            copied = Equation((Var(a.shape, eq.outs[0].dtype),), COPY, (a,), {}, eq.source)
            made = maker.get(a)  # type: ignore[arg-type]
            in_place = made is not None and users[a] == 1 and (fusable(made) or made.op is MATMUL)
            if not in_place and a.dtype == eq.outs[0].dtype and 0 not in a.shape and fusable(copied):
                r.equations.append(copied)
                a = copied.outs[0]
            parts.append(a)
        r.emit(CONCATENATE, tuple(parts), eq.outs[0], eq, **eq.params)
    return r.done()
