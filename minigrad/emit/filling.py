"""Arrays that are filled: gradients of parts, which are added to zeros or to a sum at an index, and assignments."""

from __future__ import annotations

import numpy as np

from minigrad.emit.literals import MULTIPLY as PRODUCT
from minigrad.emit.literals import Text, dtype_text, index_text
from minigrad.emit.scope import Scope
from minigrad.emit.spelling import shorter
from minigrad.emit.writer import Writer, is_view
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.rules.index import add_at, assign, getitem, join_index, repeats, scatter
from minigrad.simplify import ADD, BROADCAST, COMMUTATIVE, DIVIDE, MULTIPLY, SUBTRACT
from minigrad.slices import are_apart, same

__all__ = ["FillingWriter", "zeros_text"]

UPDATES = {ADD: "+", SUBTRACT: "-", MULTIPLY: "*", DIVIDE: "/"}
LONGEST_UPDATE = 50  # what is longer is not repeated in one


class FillingWriter(Writer):
    """A Writer that knows statements which write into an array."""

    def __init__(self, program: Program, scope: Scope) -> None:
        super().__init__(program, scope)
        self.filled: dict[Atom, list[Equation]] = {}  # the parts that are in an array of zeros
        self.updates: dict[Atom, str] = {}  # of values to be assigned: "*= y", where they were there before
        self.parts: dict[Atom, Equation] = {}  # scatters that are to be added to something

    def equation(self, eq: Equation) -> None:
        """Write an equation, now or as part of a later one."""
        if eq.op is scatter:
            if self.is_part(eq.outs[0]):
                self.parts[eq.outs[0]] = eq
            else:
                self.sum_of_parts(eq, None, [eq])
        elif eq.op is ADD and any(x in self.parts for x in eq.inputs):
            whole = next((x for x in eq.inputs if x not in self.parts), None)
            self.sum_of_parts(eq, whole, [self.parts.pop(x) for x in eq.inputs if x in self.parts])
        elif eq.op is assign:
            x, value, *arrays = eq.inputs
            index = self.index(eq, arrays)
            code = self.taken(value, eq).code
            self.line(f"{self.writable(eq, x)}[{index}] {self.updates.get(value, f'= {code}')}", eq)
        elif eq.op is add_at:
            x, value, *arrays = eq.inputs
            index, code = self.index(eq, arrays), self.taken(value, eq).code
            self.line(f"np.add.at({self.writable(eq, x)}, {_in_call(eq, index)}, {code})", eq)
        elif self.is_filled(eq.outs[0]):
            code = self.taken(eq.inputs[0], eq).code
            self.pending[eq.outs[0]] = Text(f"np.full({shape_text(eq.outs[0].shape)}, {code})")
        else:
            update = self.update(eq)
            super().equation(eq)
            if update is not None and eq.outs[0] in self.pending:
                self.updates[eq.outs[0]] = update

    def waits(self, eq: Equation, out: Var) -> bool:
        """Tell whether what an equation computes is written where it is used, not where it stands."""
        adds_parts = eq.op is ADD and any(self.is_part(x) for x in eq.inputs)
        return super().waits(eq, out) and eq.op not in (assign, add_at) and not adds_parts

    def is_filled(self, x: Atom) -> bool:
        """Tell whether x is a number everywhere, in an array that is written to right away."""
        eq, reader = self.made.get(x), self.readers.get(x)  # type: ignore[arg-type]
        if eq is None or eq.op is not BROADCAST or reader is None or self.uses[x] > 1 or self.scope.exact:
            return False
        if eq.inputs[0].shape != () or isinstance(eq.inputs[0], Const) or x in self.program.outputs:
            return False
        if reader.op is assign:
            return reader.inputs[0] is x
        return reader.op is ADD and any(map(self.is_part, reader.inputs))

    def is_inlined(self, out: Var) -> bool:
        """Tell whether a value is written into the formula that uses it."""
        return super().is_inlined(out) or self.is_filled(out)

    def is_part(self, x: Atom) -> bool:
        """Tell whether a scatter is to be added to something, in a statement of its own."""
        eq = self.made.get(x)  # type: ignore[arg-type]
        out = None if eq is None or eq.op is not scatter else eq.outs[0]
        return out is not None and self.is_inlined(out) and self.readers[out].op is ADD and bool(out.shape)

    def update(self, eq: Equation) -> str | None:
        """Return "*= y" for a product x[i] * y which is assigned to x[i]."""
        reader = self.readers.get(eq.outs[0])
        symbol = UPDATES.get(eq.op)
        if symbol is None or reader is None or reader.op is not assign or reader.inputs[1] is not eq.outs[0]:
            return None
        for x, y in (eq.inputs, eq.inputs[::-1])[: 2 if eq.op in COMMUTATIVE else 1]:
            part = self.made.get(x)  # type: ignore[arg-type]
            if part is None or part.op is not getitem or part.inputs[0] is not reader.inputs[0] or reader.inputs[2:]:
                continue
            if same(reader.outs[0].shape, part.params["index"], reader.params["index"]) and y.shape in ((), x.shape):
                code = self.text(y, eq).code
                return f"{symbol}= {code}" if len(code) <= LONGEST_UPDATE else None
        return None

    def index(self, eq: Equation, arrays: list[Atom]) -> str:
        """Return what stands between the brackets."""
        index = eq.params["index"] if eq.of is None else shorter(eq.params["index"], eq.outs[0].shape)
        return index_text(index, [self.taken(a, eq).code for a in arrays])

    def writable(self, eq: Equation, x: Atom) -> str:
        """Return the name of an array of the value of x that may be written to: x itself where nobody else needs it."""
        out = eq.outs[0]
        dies = self.last_read[x] <= self.places[eq]
        is_result = out in self.scope.names and self.scope.names[out] != self.scope.names.get(x)  # type: ignore[arg-type]
        if x in self.fresh and dies and not self.scope.exact and x.shape == out.shape and not is_result:
            self.scope.names[out] = self.scope.names[x]  # type: ignore[index]
            self.fresh.add(out)
        else:
            made = self.made.get(x)  # type: ignore[arg-type]
            new = x in self.pending and made is not None and not is_view(made)
            code = self.taken(x, eq).code
            new |= (isinstance(x, Const) and not code.isidentifier()) or self.is_filled(x)
            if x.shape != out.shape:
                code = f"np.copy(np.broadcast_to({code}, {out.shape}))"
            elif not new:
                code = f"np.copy({code})"
            reader = self.readers.get(out)
            if reader is not None and reader.outs[0] in self.scope.names and any(map(self.is_part, reader.inputs)):
                self.scope.names[out] = self.scope.names[reader.outs[0]]  # parts are added to it, and it is a result
            self.assign(out, code, eq)
            self.fresh.add(out)
        return self.scope.names[out]

    def sum_of_parts(self, eq: Equation, whole: Atom | None, parts: list[Equation]) -> None:
        """Write an array, or zeros, to which parts are added at their indices."""
        out = self.destined(eq.outs[0])
        if out is not eq.outs[0]:
            made = self.made[out]
            self.scope.names[eq.outs[0]] = self.scope.names.get(out) or self.define(out, made)
            self.fresh.add(eq.outs[0])
        out = eq.outs[0]
        if whole is None:
            self.assign(out, zeros_text(out, self.like(self.destined(out)), self.scope), eq)
            name = self.scope.names[out]
        else:
            name = self.writable(eq, whole)
        filled = [] if whole is None else self.filled.get(whole)
        for part in parts:
            self.put(name, part, onto_zeros=filled is not None and all(_are_apart(part, other) for other in filled))
            filled = None if filled is None else [*filled, part]
        if filled is not None:
            self.filled[out] = filled

    def destined(self, out: Var) -> Var:
        """Return the sum that a sum of parts will be, when more parts have been added to it."""
        while self.is_inlined(out) and (reader := self.readers[out]).op is ADD:
            others = [self.made.get(x) for x in reader.inputs if x is not out]  # type: ignore[arg-type]
            if not all(eq is not None and eq.op is scatter and self.is_inlined(eq.outs[0]) for eq in others):
                break
            out = reader.outs[0]
        return out

    def like(self, out: Var) -> Var | None:
        """Return the variable that an array is the gradient of."""
        named = next((v for v in self.program.inputs if f"d{v.name}" == out.name), None)
        return named or self.gradients.get(out)

    def put(self, name: str, eq: Equation, onto_zeros: bool) -> None:
        """Write the statement that adds the value of a scatter to an array at its index."""
        value, *arrays = eq.inputs
        index = self.index(eq, arrays)
        text = self.taken(value, eq)
        if _may_repeat(eq):
            self.line(f"np.add.at({name}, {_in_call(eq, index)}, {text.code})", eq)
        elif onto_zeros:
            self.line(f"{name}[{index}] = {text.code}", eq)
        elif text.code.startswith("-") and text.level >= PRODUCT:
            self.line(f"{name}[{index}] -= {text.code[1:]}", eq)
        else:
            self.line(f"{name}[{index}] += {text.code}", eq)


def zeros_text(out: Var | Const, like: Var | None, scope: Scope) -> str:
    """Return an array of zeros as source, `like` being an array that may have its shape and dtype."""
    named = None if like is None or scope.exact else scope.names.get(like)
    # An exact source avoids np.zeros_like: it lies in memory as its argument does, and sums add in that order.
    if named is not None and like is not None and (like.shape, like.dtype) == (out.shape, out.dtype):
        return f"np.zeros_like({named})"
    return f"np.zeros({shape_text(out.shape)}{'' if out.dtype == np.float64 else f', {dtype_text(out.dtype)}'})"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as an argument."""
    return str(shape[0]) if len(shape) == 1 else str(shape)


def _in_call(eq: Equation, index: str) -> str:
    """Return an index as an argument."""
    return index if not eq.params["index"][1:] else f"np.s_[{index}]" if ":" in index else f"({index})"


def _may_repeat(eq: Equation) -> bool:
    """Tell whether an index may name an element twice. The index arrays that are known may tell that it does not."""
    arrays = eq.inputs[1:]
    if not repeats(arrays):
        return False
    known = [a.value for a in arrays if isinstance(a, Const)]
    if len(known) == len(arrays):
        count = np.zeros(eq.params["shape"], int)
        np.add.at(count, join_index(eq.params["index"], tuple(known)), 1)
        return bool(np.any(count > 1))
    if not known or any(a.dtype.kind == "b" for a in arrays):
        return True
    whole = np.broadcast_shapes(*(a.shape for a in arrays))
    places = np.stack([np.broadcast_to(a, whole).ravel() for a in known], axis=-1)
    return len(np.unique(places, axis=0)) < len(places)


def _are_apart(one: Equation, other: Equation) -> bool:
    """Tell whether two scatters touch different elements."""
    if len(one.inputs) > 1 or len(other.inputs) > 1:
        return False
    return are_apart(one.params["shape"], one.params["index"], other.params["index"])
