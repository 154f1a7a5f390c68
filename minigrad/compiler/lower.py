"""Rewriting a Program into the few kinds of equation that the compiler plans: every pass is Program -> Program."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.compiler.accumulate import join_pieces
from minigrad.compiler.canonical import canonical
from minigrad.compiler.ops import ELEMENTWISE, fusable, is_scalar
from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program, Var, without_dead_code
from minigrad.rewriter import Rewriter
from minigrad.simplify import uses

__all__ = ["lower"]

COPY, MATMUL, CONCATENATE = (OPS[f] for f in (np.copy, np.matmul, np.concatenate))
RESHAPE, BROADCAST = OPS[np.reshape], OPS[np.broadcast_to]


def lower(program: Program) -> Program:
    """Return an equivalent Program that fuses well."""
    for rewrite in (canonical, share, join_pieces, sink_broadcasts, move_reshapes, share, own_parts):
        program = without_dead_code(rewrite(program))
    return program


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
            key = (eq.op, tuple(map(_key, inputs)), repr(sorted(eq.params.items())) if eq.params else "")
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
    used = uses(program)
    for eq in program.equations:
        out = eq.outs[0]
        array = _lone_array(eq)
        source = maker.get(eq.inputs[0]) if eq.op is RESHAPE else None  # type: ignore[arg-type]
        if source is not None and used[source.outs[0]] == 1 and (inner := _lone_array(source)) is not None:
            if maker.get(inner) is None or maker[inner].op not in ELEMENTWISE:  # type: ignore[arg-type, index]
                _reshape_first(r, eq, source, inner)
                continue
        if array is not None and (before := maker.get(array)) is not None and before.op is RESHAPE:  # type: ignore[arg-type]
            computed = maker.get(before.inputs[0])  # type: ignore[arg-type]
            if computed is not None and computed.op in ELEMENTWISE and before.params.get("order", "C") == "C":
                whole = r.now(before.inputs[0])
                inputs = tuple(whole if a is array else r.now(a) for a in eq.inputs)
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
    array = r.now(array)
    before = r.emit(RESHAPE, (array,), Var(shape, array.dtype), eq, shape=shape)
    inputs = tuple(a if is_scalar(a) else before for a in source.inputs)
    r.emit(source.op, inputs, eq.outs[0], source, **source.params)


def own_parts(program: Program) -> Program:
    """Let every part of a concatenation be computed for it alone, so that it can be computed in its place."""
    r = Rewriter(program)
    maker = {out: eq for eq in program.equations for out in eq.outs}
    used = uses(program)
    for eq in program.equations:
        if eq.op is not CONCATENATE or eq.params.get("axis", 0) is None or 0 in eq.outs[0].shape:
            r.keep(eq)
            continue
        parts = []
        for a in r.inputs(eq):
            copied = Equation((Var(a.shape, eq.outs[0].dtype),), COPY, (a,), {}, eq.source)
            made = maker.get(a)  # type: ignore[arg-type]
            in_place = made is not None and used[a] == 1 and (fusable(made) or made.op is MATMUL)
            if not in_place and a.dtype == eq.outs[0].dtype and 0 not in a.shape and fusable(copied):
                r.add(copied)
                a = copied.outs[0]
            parts.append(a)
        r.emit(CONCATENATE, tuple(parts), eq.outs[0], eq, **eq.params)
    return r.done()
