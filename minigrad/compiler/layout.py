"""Where every value lives: buffers, and the views of them that variables are.

Shapes and strides are known when a program is compiled. A view is described by an array over one element that is
never read: NumPy itself then answers what its reshapes, transposes and slices look like.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from minigrad.compiler.ops import ELEMENTWISE, VIEWS
from minigrad.op import OPS
from minigrad.program import Atom, Equation, Program, Var, validate
from minigrad.rules.index import getitem

__all__ = ["Buffer", "Orders", "Span", "View", "contiguous", "look", "materialise", "ordered", "span"]


@dataclass(eq=False)
class Buffer:
    """A piece of memory for one array, in C order."""

    dtype: np.dtype[Any]
    size: int  # elements
    kind: str  # "arena", "input", "constant", "result"
    start: int = -1  # of an arena buffer: its place, in bytes
    first: int = -1  # the step that writes it first
    last: int = -1  # the last step that needs it


@dataclass(frozen=True, eq=False)
class View:
    """A variable's place: a buffer, an offset in elements, a shape and strides in elements."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other in C order."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True

    def is_same(self, other: View) -> bool:
        """Tell whether another view looks at the same elements in the same order."""
        here, there = ((v.buffer, v.offset, v.shape, v.strides) for v in (self, other))
        return here == there

    def of(self, flat: np.ndarray) -> np.ndarray:
        """Return the view of an actual buffer."""
        if 0 in self.shape:  # with an offset that may lie beyond a buffer of no elements
            return np.empty(self.shape, flat.dtype)
        strides = [s * flat.itemsize for s in self.strides]
        return np.ndarray(self.shape, flat.dtype, flat, self.offset * flat.itemsize, strides)


def contiguous(shape: tuple[int, ...], buffer: Buffer) -> View:
    """Return the view of a whole buffer in C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return View(buffer, 0, shape, tuple(reversed(strides)))


_ELEMENT = np.zeros(1, np.int8)


def look(eq: Equation, view: View) -> View | None:
    """Return the view that a view equation gives of another, or None if NumPy would have to copy."""
    if eq.op is OPS[np.reshape]:
        if 0 in view.shape:
            return contiguous(eq.outs[0].shape, view.buffer)
        strides = _view_strides(view.shape, view.strides, eq.outs[0].shape)
        return None if strides is None else View(view.buffer, view.offset, eq.outs[0].shape, strides)
    array: Any = np.lib.stride_tricks.as_strided(_ELEMENT, view.shape, view.strides)
    seen: Any
    if eq.op is getitem:
        index = eq.params["index"]
        index = index if isinstance(index, tuple) else (index,)
        seen = array[index if Ellipsis in index else (*index, ...)]  # an element too as a view, not as a scalar
    else:
        seen = eq.op.function(array, **eq.params)
    here, there = (a.__array_interface__["data"][0] for a in (array, seen))
    return View(view.buffer, view.offset + there - here, seen.shape, seen.strides)


def _view_strides(old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides of a reshaped view, or None where memory does not allow it (NumPy's own algorithm)."""
    axes = [(n, s) for n, s in zip(old, strides, strict=True) if n != 1]
    result: list[int] = []
    i = j = 0
    while i < len(axes) and j < len(new):
        have, want, start, first = axes[i][0], new[j], i, j
        while have != want:
            if have < want:
                i += 1
                have *= axes[i][0]
            else:
                j += 1
                want *= new[j]
        for k in range(start, i):
            if axes[k][1] != axes[k + 1][0] * axes[k + 1][1]:
                return None
        step = axes[i][1]
        for k in range(j, first - 1, -1):
            result.insert(first, step)
            step *= new[k]
        i, j = i + 1, j + 1
    return tuple(result) + (0,) * (len(new) - len(result))


Span = tuple[int, int]
"""The addresses between which an array lies."""


def span(array: np.ndarray) -> Span:
    """Return the addresses between which an array lies."""
    if array.flags.c_contiguous:  # as nearly all are
        low: int = array.__array_interface__["data"][0]
        return low, low + array.nbytes
    return np.lib.array_utils.byte_bounds(array)


Orders = dict[Var, tuple[int, ...]]
"""Variables kept in memory with their axes in another order than C order: the outermost first."""


def ordered(var: Var, buffer: Buffer, orders: Orders) -> View:
    """Return the view of a whole buffer, in C order or in the order that was chosen for the variable."""
    order = orders.get(var)
    if order is None:
        return contiguous(var.shape, buffer)
    inner = contiguous(tuple(var.shape[axis] for axis in order), buffer).strides
    strides = [0] * len(order)
    for axis, stride in zip(order, inner, strict=True):
        strides[axis] = stride
    return View(buffer, 0, var.shape, tuple(strides))


def materialise(program: Program) -> tuple[Program, Orders]:
    """Make every reshape one that memory allows as a view.

    Where a transposed array is reshaped, as when heads are merged, the array is kept in the transposed order from the
    start, if nothing else looks at it; otherwise a copy is inserted.
    """
    orders: Orders = {}
    _with_copies(program, orders, _Transposes(program))
    return _with_copies(program, orders, None), orders


class _Transposes:
    """Finds out whether an array can be kept in another order."""

    def __init__(self, program: Program) -> None:
        self.maker = {out: eq for eq in program.equations for out in eq.outs}
        self.users: dict[Atom, int] = {}
        for eq in program.equations:
            if eq.op in VIEWS or eq.op is OPS[np.concatenate]:
                for atom in eq.inputs:
                    self.users[atom] = self.users.get(atom, 0) + 1
        self.outputs = set(program.outputs)

    def order(self, source: Var) -> tuple[Var, tuple[int, ...]] | None:
        """Return the array that a view permutes, and the order that makes the view contiguous."""
        axes = tuple(range(len(source.shape)))
        atom: Atom = source
        while atom in self.maker and self.maker[atom].op in (OPS[np.swapaxes], OPS[np.transpose]):
            eq = self.maker[atom]
            if self.users.get(eq.inputs[0], 0) != 1 or atom in self.outputs:
                return None
            moved = np.lib.stride_tricks.as_strided(_ELEMENT, tuple(range(2, 2 + len(axes))), (0,) * len(axes))
            seen = eq.op.function(moved, **eq.params).shape  # which axis went where, by its unique length
            axes = tuple(seen[axis] - 2 for axis in axes)
            atom = eq.inputs[0]
        if atom is source or atom not in self.maker or atom in self.outputs:
            return None
        eq = self.maker[atom]
        computed = eq.op in ELEMENTWISE or (eq.op is OPS[np.matmul] and axes[-1] == len(axes) - 1)
        return (atom, axes) if computed and not eq.several else None


def _with_copies(program: Program, orders: Orders, transposes: _Transposes | None) -> Program:
    views: dict[Atom, View] = {}
    equations: list[Equation] = []

    def view_of(atom: Atom) -> View:
        if atom not in views:
            buffer = Buffer(atom.dtype, prod(atom.shape), "arena")
            views[atom] = ordered(atom, buffer, orders) if isinstance(atom, Var) else contiguous(atom.shape, buffer)
        return views[atom]

    for eq in program.equations:
        if eq.op in VIEWS and not eq.several:
            source = eq.inputs[0]
            seen = look(eq, view_of(source))
            if seen is None:
                found = transposes.order(source) if transposes is not None and isinstance(source, Var) else None
                if found is not None:
                    orders[found[0]] = found[1]
                copied = Var(source.shape, source.dtype)
                equations.append(Equation((copied,), OPS[np.copy], (source,), {}, eq.source))
                eq = Equation(eq.outs, eq.op, (copied,), eq.params, eq.source)
                seen = look(eq, view_of(copied))
                assert seen is not None
            views[eq.outs[0]] = seen
        equations.append(eq)
    return validate(Program(program.inputs, tuple(equations), program.outputs, program.name, program.notes))
