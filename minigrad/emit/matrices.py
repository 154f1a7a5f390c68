"""Tidying products of matrices and what is linear: transposes taken inside, zeros left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.rewriter import Rewriter
from minigrad.rules.index import cast, gather, getitem, scatter
from minigrad.shapes import normal_axes
from minigrad.simplify import CONJ, DIVIDE, MULTIPLY, NEGATIVE, REAL, RESHAPE, RESHAPING, permutation, uses
from minigrad.slices import as_index, in_full

__all__ = ["matrices"]

MATMUL, SWAPAXES, TRANSPOSE = OPS[np.matmul], OPS[np.swapaxes], OPS[np.transpose]
IMAG, COPY, WHERE, SUM = OPS[np.imag], OPS[np.copy], OPS[np.where], OPS[np.sum]
LINEAR_IN_FIRST = {NEGATIVE, DIVIDE, CONJ, REAL, IMAG, cast, getitem, gather, scatter, SUM, *RESHAPING}
LINEAR_IN_ANY = {MULTIPLY, MATMUL}


def matrices(program: Program) -> Program:
    """Tidy the backward pass."""
    r = Rewriter(program)
    used = uses(program)
    for eq in program.equations:
        inputs = tuple(map(r.now, eq.inputs))
        if eq.of is None or eq.several:
            r.keep(eq)
        elif _is_zero(eq, inputs):
            r.let(eq.outs[0], Const(np.zeros(eq.outs[0].shape, eq.outs[0].dtype)))
        elif eq.op is WHERE and (below := r.made.get(inputs[2])) and below.op is WHERE and below.inputs[0] is inputs[0]:  # type: ignore[arg-type]
            r.emit(WHERE, (*inputs[:2], below.inputs[2]), eq.outs[0], eq)
        elif eq.op is COPY:
            r.let(eq.outs[0], inputs[0])
        elif eq.op is RESHAPE and (whole := _unfolded(r, eq)):
            r.emit(MATMUL, whole, eq.outs[0], eq)
        elif eq.op is RESHAPE and (index := _one_of(r, eq)) is not None:
            r.emit(getitem, r.made[inputs[0]].inputs, eq.outs[0], eq, index=index)  # type: ignore[index]
        elif eq.op is getitem and (factors := _column_of(r, eq)):
            r.emit(MATMUL, factors, eq.outs[0], eq)
        elif eq.op is SUM and (factors := _rows_weighted(r, eq)):
            r.emit(MATMUL, (_transposed(r, factors[0], eq), factors[1]), eq.outs[0], eq)
        elif _is_transpose(eq) and used[eq.inputs[0]] == 1 and (turned := _turned(r, inputs[0], eq)):
            r.emit(MATMUL, turned, eq.outs[0], eq)
        else:
            r.keep(eq)
    return r.done()


def _is_zero(eq: Equation, inputs: tuple[Atom, ...]) -> bool:
    """Tell whether an equation multiplies zeros or moves them."""
    if eq.op in LINEAR_IN_ANY:
        return any(map(_zeros, inputs))
    if eq.op is WHERE:
        return all(_zeros(x) or (isinstance(x, Const) and x.value == 0) for x in inputs[1:])
    return (eq.op in LINEAR_IN_FIRST or permutation(eq) is not None) and _zeros(inputs[0])


def _zeros(atom: Atom) -> bool:
    return isinstance(atom, Const) and isinstance(atom.value, np.ndarray) and not np.any(atom.value)


def _unfolded(r: Rewriter, eq: Equation) -> tuple[Atom, Atom] | None:
    """Return (a, b) if a @ b is what reshape(reshape(a) @ b) computes."""
    product = r.made.get(r.now(eq.inputs[0]))  # type: ignore[arg-type]
    if product is None or product.op is not MATMUL or len(product.inputs[1].shape) != 2:
        return None
    folded = r.made.get(product.inputs[0])  # type: ignore[arg-type]
    if folded is None or folded.op is not RESHAPE or folded.params.get("order", "C") != "C":
        return None
    a, b = folded.inputs[0], product.inputs[1]
    fits = len(a.shape) > 1 and a.shape[-1] == b.shape[0] and (*a.shape[:-1], b.shape[1]) == eq.outs[0].shape
    return (a, b) if fits else None


def _one_of(r: Rewriter, eq: Equation) -> tuple[Any, ...] | None:
    """Return the index x[..., 0] for an axis that is cut to length 1, x[..., :1], and then dropped."""
    cut = r.made.get(r.now(eq.inputs[0]))  # type: ignore[arg-type]
    if cut is None or cut.op is not getitem:
        return None
    shape = cut.inputs[0].shape
    full = in_full(shape, cut.params["index"])
    if len(full) != len(shape):
        return None
    one = [i[0] if isinstance(i, range) and len(i) == 1 < n else i for i, n in zip(full, shape, strict=True)]
    if tuple(len(i) for i in one if isinstance(i, range)) != eq.outs[0].shape:
        return None
    return as_index(shape, one)


def _column(r: Rewriter, x: Atom) -> Atom | None:
    """Return the vector that x is as a column."""
    eq = r.made.get(x)  # type: ignore[arg-type]
    first = None if eq is None or not eq.inputs else eq.inputs[0]
    is_column = first is not None and len(first.shape) == 1 and x.shape == (*first.shape, 1)
    return first if is_column and eq is not None and eq.op in RESHAPING else None


def _column_of(r: Rewriter, eq: Equation) -> tuple[Atom, Atom] | None:
    """Return (a, v) if (a @ v[:, None])[..., 0] is what an equation computes."""
    product = r.made.get(r.now(eq.inputs[0]))  # type: ignore[arg-type]
    if product is None or product.op is not MATMUL or eq.params["index"] != (Ellipsis, 0):
        return None
    vector = _column(r, product.inputs[1])
    return None if vector is None else (product.inputs[0], vector)


def _rows_weighted(r: Rewriter, eq: Equation) -> tuple[Atom, Atom] | None:
    """Return (a, v) if np.sum(a * v[:, None], axis=0) is what an equation computes."""
    product = r.made.get(r.now(eq.inputs[0]))  # type: ignore[arg-type]
    if product is None or product.op is not MULTIPLY or product.of is None or len(eq.outs[0].shape) != 1:
        return None
    if len(product.outs[0].shape) != 2 or normal_axes(eq.params.get("axis"), 2) != (0,):
        return None
    for a, b in (product.inputs, product.inputs[::-1]):
        vector = _column(r, b)
        if vector is not None and a.shape == product.outs[0].shape and a.dtype == vector.dtype:
            return a, vector
    return None


def _is_transpose(eq: Equation) -> bool:
    """Tell whether an equation swaps the last two axes."""
    order = permutation(eq)
    n = len(eq.outs[0].shape)
    return n > 1 and order == (*range(n - 2), n - 1, n - 2)


def _turned(r: Rewriter, x: Atom, eq: Equation) -> tuple[Atom, Atom] | None:
    """Return (b^T, a^T) if x is a @ b and one of them is a transpose already."""
    product = r.made.get(x)  # type: ignore[arg-type]
    if (
        product is None
        or product.op is not MATMUL
        or product.of is None
        or any(len(i.shape) < 2 for i in product.inputs)
    ):
        return None
    below = [r.made.get(i) for i in product.inputs]  # type: ignore[arg-type]
    if not any(b is not None and _is_transpose(b) for b in below):
        return None
    a, b = (
        made.inputs[0] if made is not None and _is_transpose(made) else _transposed(r, i, eq)
        for i, made in zip(product.inputs, below, strict=True)
    )
    return b, a


def _transposed(r: Rewriter, x: Atom, like: Equation) -> Var:
    out = Var((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if len(x.shape) == 2:
        return r.emit(TRANSPOSE, (x,), out, like)
    return r.emit(SWAPAXES, (x,), out, like, axis1=-1, axis2=-2)
