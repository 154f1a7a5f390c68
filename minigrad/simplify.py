"""Rewriting a Program into a smaller one that computes the same numbers. Every pass is Program -> Program.

What is here is exact, but for the sign of a zero. What rounds differently is for readers only: `minigrad.emit`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from minigrad.custom import once_more
from minigrad.op import OPS, Op
from minigrad.program import Atom, Const, Equation, Program, Var, without_dead_code
from minigrad.rewriter import Rewriter
from minigrad.rules.index import Slot, assign, cast, getitem, scatter
from minigrad.rules.layout import ravel
from minigrad.shapes import kept_shape, normal_axes

__all__ = ["fold", "permutation", "share", "simplify", "uses"]

ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER = (OPS[f] for f in (np.add, np.subtract, np.multiply, np.divide, np.power))
NEGATIVE, POSITIVE, CONJ, REAL = (OPS[f] for f in (np.negative, np.positive, np.conjugate, np.real))
BOTH = OPS[np.bitwise_and]
BROADCAST, RESHAPE = OPS[np.broadcast_to], OPS[np.reshape]
COMMUTATIVE = {ADD, MULTIPLY}
RESHAPING = {RESHAPE, ravel, OPS[np.expand_dims], OPS[np.squeeze]}
KEEPING_AXES = {OPS[f] for f in (np.sum, np.mean, np.max, np.amax, np.min, np.amin, np.prod, np.any, np.all)}


def simplify(program: Program) -> Program:
    """Drop what no output needs, what changes nothing and what is there already."""
    while True:
        before = len(program.equations)
        program = without_dead_code(share(fold(program)))
        if len(program.equations) == before:
            return program


def uses(program: Program) -> Counter[Atom]:
    """Return how often each atom is read."""
    return Counter([*(a for eq in program.equations for a in eq.inputs), *program.outputs])


# --- equal things once


def share(program: Program) -> Program:
    """Compute equal things once."""
    r = Rewriter(program)
    seen: dict[Any, tuple[Var, ...]] = {}
    for eq in program.equations:
        inputs = [_key(r.now(a)) for a in eq.inputs]
        if eq.op in COMMUTATIVE:
            inputs.sort(key=hash)
        key = (eq.op, tuple(inputs), _key(_plain_params(eq)))
        if key in seen and eq.op.kind != "effect":
            for out, same in zip(eq.outs, seen[key], strict=True):
                r.let(out, same)
        else:
            seen[key] = eq.outs
            r.keep(eq)
    return r.done()


def _plain_params(eq: Equation) -> dict[str, Any]:
    """Return the parameters, those of a reduction in one spelling."""
    params = eq.params
    if eq.op in KEEPING_AXES:
        axes = normal_axes(params.get("axis"), len(eq.inputs[0].shape))
        params = {"keepdims": False, **params, "axis": tuple(sorted(axes))}
    return params


def _key(x: Any) -> Any:
    """Return what equal atoms and parameters have in common. Arrays are equal if they are the same array."""
    if isinstance(x, Const):
        return _key(x.value)
    if isinstance(x, dict):
        return tuple((k, _key(x[k])) for k in sorted(x))
    if isinstance(x, (list, tuple)):
        return (type(x), *map(_key, x))
    if isinstance(x, slice):
        return ("slice", x.start, x.stop, x.step)
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return (type(x), repr(x))  # nan is equal to itself here, and 0.0 is not -0.0
    return ("object", id(x)) if getattr(x, "__hash__", None) is None else x


# --- what changes nothing


def fold(program: Program) -> Program:
    """Drop equations that change nothing, and do in one what two undo or do one after the other."""
    r = Rewriter(program)
    used = uses(program)
    for eq in program.equations:
        if eq.several:
            r.keep(eq)
            continue
        inputs, out = tuple(map(r.now, eq.inputs)), eq.outs[0]
        same = _unchanged(r, eq.op, inputs, eq.params, out)
        if same is not None:
            r.let(out, same)
        elif eq.op in RESHAPING or (eq.op is scatter and _only_adds_axes(eq)):
            _reshaped(r, eq, inputs[0], used)
        elif permutation(eq) is not None:
            _permuted(r, eq, inputs[0])
        elif eq.op is BROADCAST and eq.of is not None and (below := _made_by(r, inputs[0], {BROADCAST})):
            r.emit(BROADCAST, below.inputs, out, eq, **eq.params)
        elif eq.op.kind == "elementwise" or (isinstance(eq.op.function, np.ufunc) and eq.op.function.signature is None):
            narrow = inputs if eq.of is None else tuple(_unstretched(r, a) for a in inputs)
            shape = np.broadcast_shapes(*(a.shape for a in narrow))
            if shape == () != out.shape == (1,) * len(out.shape) and eq.of is not None:
                number = r.emit(eq.op, narrow, Var((), out.dtype, out.name, out.weak), eq, **eq.params)
                r.emit(RESHAPE, (number,), out, eq, shape=out.shape)
            else:
                r.add(replace(eq, inputs=narrow if shape == out.shape else inputs))
        else:
            r.keep(eq)
    return r.done()


def _made_by(r: Rewriter, atom: Atom, ops: set[Op]) -> Equation | None:
    """Return the equation that computes an atom if it is one of these ops."""
    eq = r.made.get(atom)  # type: ignore[arg-type]
    return eq if eq is not None and eq.op in ops else None


def _unstretched(r: Rewriter, x: Atom) -> Atom:
    """Return what x is a stretched form of, if that is all it is: elementwise ops stretch by themselves."""
    below = r.made.get(x)  # type: ignore[arg-type]
    if below is None or below.several:
        return x
    first = below.inputs[0]
    if below.op in KEEPING_AXES and below.of is not None and below.params.get("keepdims"):
        axes = normal_axes(below.params.get("axis"), len(first.shape))
        if axes == tuple(range(len(axes))):  # leading axes need not be kept
            dropped = Var(x.shape[len(axes) :], x.dtype, getattr(x, "name", None), getattr(x, "weak", False))
            return r.emit(below.op, below.inputs, dropped, below, **{**below.params, "keepdims": False})
        return x
    adds_axes = below.op is RESHAPE and x.shape == (1,) * (len(x.shape) - len(first.shape)) + first.shape
    return first if below.op is BROADCAST or adds_axes else x


def _is_number(atom: Atom, value: float) -> bool:
    return isinstance(atom, Const) and isinstance(atom.value, (int, float, complex, np.bool_)) and atom.value == value


def _unchanged(r: Rewriter, op: Op, inputs: tuple[Atom, ...], params: dict[str, Any], out: Var) -> Atom | None:
    """Return the atom that an equation only repeats, if there is one."""
    x, *rest = inputs
    same: Atom | None = None
    if op in (MULTIPLY, DIVIDE, POWER) and _is_number(rest[0], 1):
        same = x
    elif op in (ADD, SUBTRACT) and _is_zero(rest[0]):
        same = x
    elif (op is MULTIPLY and _is_number(x, 1)) or (op is ADD and _is_zero(x)):
        same = rest[0]
    elif op is BOTH and _is_number(x, True):
        same = rest[0]
    elif op in (POSITIVE, cast, BROADCAST, once_more) or (op in (REAL, CONJ) and x.dtype.kind != "c"):
        same = x
    elif op in (NEGATIVE, CONJ) and (below := _made_by(r, x, {op})):
        same = below.inputs[0]
    elif op is getitem and x.shape == out.shape and all(_is_whole(i) for i in _items(params["index"])):
        same = x
    elif op is assign and len(inputs) == 2 and all(_is_whole(i) for i in _items(params["index"])):
        same = _filled(rest[0], out)
    elif op in KEEPING_AXES and params.get("axis") == () and params.get("dtype") is None and len(params) <= 2:
        same = x if rest[0:1] and _is_number(rest[0], True) else None
    return same if same is not None and same.shape == out.shape and same.dtype == out.dtype else None


def _is_zero(atom: Atom) -> bool:
    if isinstance(atom, Const) and isinstance(atom.value, np.ndarray):
        return not np.any(atom.value)
    return _is_number(atom, 0)


def _reshaped(r: Rewriter, eq: Equation, x: Atom, used: Counter[Atom]) -> None:
    """Reshape once; and let a reduction keep its axes itself. What the user wrote stays."""
    out = eq.outs[0]
    if eq.params.get("order", "C") != "C" or (eq.of is None and out.shape != x.shape):
        r.keep(eq)
        return
    first = x
    while (below := r.made.get(first)) and (below.op in RESHAPING or _only_adds_axes(below)):  # type: ignore[arg-type]
        if below.params.get("order", "C") != "C":
            break
        first = below.inputs[0]
    reduced = _made_by(r, first, KEEPING_AXES)
    stretched = _made_by(r, first, {BROADCAST})
    if first.shape == out.shape:
        r.let(out, first)
    elif stretched is not None and eq.of is not None and stretched.inputs[0].shape == ():
        r.emit(BROADCAST, stretched.inputs, out, eq, shape=out.shape)
    elif (
        reduced is not None
        and reduced.of is not None
        and used[reduced.outs[0]] == 1
        and not reduced.params.get("keepdims")
        and out.shape == kept_shape(reduced.inputs[0].shape, reduced.params.get("axis"))
    ):
        r.emit(reduced.op, reduced.inputs, out, reduced, **{**reduced.params, "keepdims": True})
    elif reduced is not None and reduced.of and used[reduced.outs[0]] == 1 and out.shape == _without_axes(reduced):
        r.emit(reduced.op, reduced.inputs, out, reduced, **{**reduced.params, "keepdims": False})
    elif first is x and eq.op is not scatter:
        r.add(replace(eq, inputs=(x,)))
    else:
        r.emit(RESHAPE, (first,), out, eq, shape=out.shape)


def _without_axes(eq: Equation) -> tuple[int, ...]:
    """Return the shape of a reduction that does not keep its axes."""
    shape = eq.inputs[0].shape
    axes = normal_axes(eq.params.get("axis"), len(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _only_adds_axes(eq: Equation) -> bool:
    """Tell whether an equation is x[:, None], or the adjoint of that."""
    return eq.op in (getitem, scatter) and all(i is None or _is_whole(i) for i in _items(eq.params["index"]))


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) and not isinstance(index, Slot) else (index,)


def _is_whole(item: Any) -> bool:
    return item is Ellipsis or (isinstance(item, slice) and item == slice(None))


def _filled(value: Atom, out: Var) -> Atom:
    """Return an array that has one value everywhere; or the value, where it is an array itself."""
    return Const(np.full(out.shape, value.value, out.dtype)) if _is_number(value, 0) else value  # type: ignore[union-attr]


def permutation(eq: Equation) -> tuple[int, ...] | None:
    """Return the order in which an equation takes the axes of its input, if that is all it does."""
    if eq.op.function not in _PERMUTING:
        return None
    ndim = len(eq.inputs[0].shape)
    axes = np.broadcast_to(0, tuple(range(1, ndim + 1)))  # the lengths tell the axes apart
    return tuple(n - 1 for n in eq.op.function(axes, **eq.params).shape)


_PERMUTING = {np.transpose, np.permute_dims, np.matrix_transpose, np.swapaxes, np.moveaxis}


def _permuted(r: Rewriter, eq: Equation, x: Atom) -> None:
    """Permute there and back not at all."""
    below, out = r.made.get(x), eq.outs[0]  # type: ignore[arg-type]
    unmoved, order = tuple(range(len(out.shape))), permutation(eq)
    first = permutation(below) if below is not None else None
    if order == unmoved:
        r.let(out, x)
    elif below is not None and first is not None and order is not None and tuple(first[i] for i in order) == unmoved:
        r.let(out, below.inputs[0])
    else:
        r.add(replace(eq, inputs=(x,)))
