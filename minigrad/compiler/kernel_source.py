"""Writing the loop of a row program in the language of `kernel_compiler`, which is a small part of Python.

Shapes, strides and offsets are literals in the source, so that the compiler sees plain loops over contiguous memory.
A row is gone through in stages, one more after each reduction over it: what a later stage needs of an earlier one is
kept in a row of scratch memory, which stays in the first-level cache.

A kernel does one part of several, a span of the rows. What is reduced over the rows each part reduces for itself; a
second kernel, `finish`, then adds these up in order, so that the result does not depend on timing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.compiler.kernel_loops import LANES, RowLoops
from minigrad.compiler.layout import Buffer
from minigrad.compiler.ops import ELEMENTWISE, REDUCE, common_type, is_scalar
from minigrad.compiler.plan import Plan
from minigrad.compiler.rowfuse import Group
from minigrad.op import OPS
from minigrad.program import Atom, Equation, Var

__all__ = ["Kernel", "write_kernel"]

TYPES = {np.dtype(name): name for name in ("f4", "f8", "i8", "i4")} | {np.dtype(bool): "b1"}
WHERE = OPS[np.where]
PIECE = 4096  # numbers of a row that are added in its own type; these sums are added in float64


@dataclass
class Kernel:
    """The source of a kernel, and the table of what it is called with."""

    source: str
    places: list[tuple[Buffer, int]]  # the first entries of its table: buffers, and where in them, in elements
    partial: list[int]  # the others: bytes in which the parts keep what they reduced; if any, `finish` is to be run
    shared: bool  # whether every thread does a part; otherwise one does it all
    scratch: int  # bytes that each thread needs


def write_kernel(plan: Plan, group: Group, threads: int = 1) -> Kernel:
    """Return the kernel of a group, its rows shared among threads if there is enough to do."""
    return _KernelWriter(plan, group, threads).write()


class _KernelWriter(RowLoops):
    def __init__(self, plan: Plan, group: Group, threads: int) -> None:
        super().__init__(plan, group, threads)
        self.places: list[tuple[Buffer, int]] = []

    def _place(self, v: Atom) -> int:
        """Return the number of an array's beginning in the table: there, not in the source, so that tiles share it."""
        view = self.plan.views[v]
        if (view.buffer, view.offset) not in self.places:
            self.places.append((view.buffer, view.offset))
        return self.places.index((view.buffer, view.offset))

    @property
    def _buffers(self) -> list[Buffer]:
        return list(dict.fromkeys(buffer for buffer, _ in self.places))

    def _load(self, place: int | str, i: str) -> str:
        return f"load({self._name(place)}, {i}, {self._number(place)}, MEMORIES)"

    def _store(self, place: int | str, i: str, value: str) -> str:
        return f"store({self._name(place)}, {i}, {value}, {self._number(place)}, MEMORIES)"

    def _name(self, place: int | str) -> str:
        return place if isinstance(place, str) else f"m{place}"

    def _number(self, place: int | str) -> str:
        """Return which memory a place is in: those of one buffer may overlap."""
        return place.upper() if isinstance(place, str) else str(self._buffers.index(self.places[place][0]))

    def write(self) -> Kernel:
        """Return the source: loops over the rows, and in them the stages."""
        axis = self.shared_axis()
        shared = axis is not None
        for a in self.strides:
            self._place(a)
        for v in self.group.late:
            self._place(v)
        self.partial = {v: f"e{i}" for i, v in enumerate(self.group.late)} if shared else {}
        self.scratch: dict[Var, str] = {}
        self.span = ("low", "high") if axis == len(self.rows) else ("0", f"{self.n}")
        body = self._row()
        for i, n in reversed(list(enumerate(self.rows))):
            body = [f"for i{i} in {'range(low, high)' if i == axis else f'range({n})'}:", *_indent(body)]
        before, after = self._totals()
        lines = [*self._tables(), *self._scratch(), *before, *_span(axis, (*self.rows, self.n)), *body, *after]
        names = [*self.partial.values(), *self.scratch.values()]
        known = len(self._buffers)
        numbers = [f"{name.upper()} = {known + i}" for i, name in enumerate(names)]
        numbers.append(f"MEMORIES = {known + len(names)}")
        source = [*numbers, "", "", "def run(part, parts, scratch, table):", *_indent(lines)]
        if self.partial:
            source += ["", "", "def finish(part, parts, scratch, table):", *_indent(self._finish())]
        partial = [self.threads * self._each(v) * v.dtype.itemsize for v in self.partial]
        size = sum(self._padded(v) for v in self.scratch)
        return Kernel("\n".join(source) + "\n", self.places, partial, shared, size)

    def _tables(self) -> list[str]:
        types = [TYPES[b.dtype] for b, _ in self.places]
        lines = [f"m{i} = pointer(table, {i}, {type_})" for i, type_ in enumerate(types)]
        return lines + [
            f"{name} = pointer(table, {len(self.places) + i}, {TYPES[v.dtype]})"
            for i, (v, name) in enumerate(self.partial.items())
        ]

    def _scratch(self) -> list[str]:
        lines, start = [], 0
        for v, name in self.scratch.items():
            lines.append(f"{name} = place(scratch + {start}, {TYPES[v.dtype]})")
            start += self._padded(v)
        return lines

    def _padded(self, v: Var) -> int:
        return -(-self.n * v.dtype.itemsize // 64) * 64

    def _each(self, v: Var) -> int:
        """Return how many numbers a part keeps of what is reduced over the rows: whole cache lines."""
        return -(-(self.n if self.reduces[v] == "rows" else 1) // 16) * 16

    def _totals(self) -> tuple[list[str], list[str]]:
        """Return the code before and after the loops that sets up and stores what is reduced over the rows."""
        before, after = [], []
        for v in self.group.late:
            memory, start = self._total(v)
            if self.reduces[v] == "rows":
                zero = self._store(memory, f"{start} + j", f"{TYPES[v.dtype]}(0)")
                before += [f"for j in range({self.n}):", f"    {zero}"]
            else:
                before.append(f"{self._late(v)} = {self._identity(v, 'f8')}")
                after.append(self._store(memory, start, f"{TYPES[v.dtype]}({self._late(v)})"))
        return before, after

    def _total(self, v: Var) -> tuple[int | str, str]:
        """Return where a part reduces over the rows: in memory of its own, or where the result belongs."""
        if v in self.partial:
            return self.partial[v], f"part * {self._each(v)}"
        return self._place(v), "0"

    def _finish(self) -> list[str]:
        """Return the code that adds up what the parts have reduced, in order."""
        lines = self._tables()
        for v, name in self.partial.items():
            type_, n = TYPES[v.dtype], self.n if self.reduces[v] == "rows" else 1
            lines += [f"for j in range({n}):", f"    total = {self._load(name, 'j')}"]
            for part in range(1, self.threads):
                lines.append(
                    "    " + self._accumulate(self.own[v], "total", self._load(name, f"{part * self._each(v)} + j"))
                )
            lines.append("    " + self._store(self._place(v), "j", f"{type_}(total)"))
        return lines

    def _late(self, v: Var) -> str:
        return f"total{[*self.group.late].index(v)}"

    def _identity(self, v: Var, type_: str) -> str:
        ufunc = REDUCE[self.own[v].op]
        return f"{type_}({'0' if ufunc is np.add else '-INF' if ufunc is np.maximum else 'INF'})"

    def _row(self) -> list[str]:
        """Return the code of one row."""
        lines: list[str] = []
        self.at: dict[Atom, tuple[int, str]] = {}  # operand -> its memory, and where in it element j is
        self.values: dict[Atom, str] = {}  # numbers per row
        for k, (a, strides) in enumerate(self.strides.items()):
            start = " + ".join([f"i{i} * {s}" for i, s in enumerate(strides[:-1]) if s]) or "0"
            step = strides[-1]
            lines.append(f"x{k} = {start}")
            index = {0: f"x{k}", 1: f"x{k} + j"}.get(step, f"x{k} + j * {step}")
            self.at[a] = (self._place(a), index)
            if step == 0 and self.n > 1 and a not in self.own:
                lines.append(f"v{k} = {self._load(*self.at[a])}")
                self.values[a] = f"v{k}"
        for stage in range(self.n_stages):
            lines += self._numbers(stage)
            lines += self._loop(stage)
        lines += self._numbers(self.n_stages)
        return lines

    def _numbers(self, stage: int) -> list[str]:
        """Return the equations of one number per row that can be computed before the loop of a stage."""
        lines = []
        for eq in self.group.equations:
            out = eq.outs[0]
            if not self.is_once_per_row(eq) or self.stage[out] != stage:
                continue
            if self.reduces.get(out) == "all":
                lines.append(
                    self._accumulate(eq, self._late(out), f"f8({self._value(eq.inputs[0], self.values, None)})")
                )
            elif out in self.reduces:
                self.values[out] = self._value(eq.inputs[0], self.values, None)
                lines += self._store_number(out)
            else:
                name = f"r{len(self.values)}"
                lines.append(f"{name} = {self._expression(eq, self.values)}")
                self.values[out] = name
                lines += self._store_number(out)
        return lines

    def _store_number(self, v: Var) -> list[str]:
        return [self._store(*self.at[v], self.values[v])] if v in self.strides else []

    def _loop(self, stage: int) -> list[str]:
        """Return the loop over the elements of a row for one stage, and the reductions it feeds."""
        todo = [eq for eq in self.group.equations if not self.is_once_per_row(eq) and self.stage[eq.outs[0]] == stage]
        if not todo:
            return []
        before: list[str] = []
        first: list[str] = []  # of each piece of the row
        body: list[str] = []
        last: list[str] = []
        after: list[str] = []
        local: dict[Atom, str] = {}
        long = self.n > PIECE
        for eq in todo:
            out = eq.outs[0]
            if out in self.reduces:
                value = self._value(eq.inputs[0], local, body)
                kind, type_ = self.reduces[out], TYPES[out.dtype]
                if kind == "rows":
                    memory, start = self._total(out)
                    total = self._load(memory, f"{start} + j")
                    body.append(self._store(memory, f"{start} + j", f"{total} + {value}"))
                    continue
                name = f"a{len(self.values)}_{len(first)}"
                first.append(f"{name} = {self._identity(out, type_)}")
                body.append(self._accumulate(eq, name, value))
                if long:  # in pieces, or rounding errors would pile up
                    before.append(f"w{name} = {self._identity(out, 'f8')}")
                    last.append(self._accumulate(eq, f"w{name}", f"f8({name})"))
                    name = f"{type_}(w{name})" if kind != "all" else f"w{name}"
                if kind == "all":
                    total = self._late(out)
                    after.append(self._accumulate(eq, total, f"f8({name})"))
                else:
                    after.append(f"v{len(self.values)}_{stage} = {name}")
                    self.values[out] = f"v{len(self.values)}_{stage}"
                    after += self._store_number(out)
                continue
            name = f"t{len(local)}_{stage}"
            body.append(f"{name} = {self._expression(eq, local, body)}")
            local[out] = name
            if out in self.strides:
                body.append(self._store(*self.at[out], name))
            elif self._needed_later(out, stage):
                self.scratch[out] = f"s{len(self.scratch)}"
                body.append(self._store(self.scratch[out], "j", name))
        low, high = self.span
        if not first or not long:
            return [*before, *first, f"for j in range({low}, {high}):", *_indent(body), *after]
        piece = [*first, f"for j in range(j0, minimum(j0 + {PIECE}, {high})):", *_indent(body), *last]
        return [*before, f"for j0 in range({low}, {high}, {PIECE}):", *_indent(piece), *after]

    def _needed_later(self, v: Var, stage: int) -> bool:
        return any(v in eq.inputs and self.stage[eq.outs[0]] > stage for eq in self.group.equations)

    def _accumulate(self, eq: Equation, name: str, value: str) -> str:
        ufunc = REDUCE[eq.op]
        if ufunc is np.add:
            return f"{name} = plus({name}, {value})"
        return f"{name} = {ufunc.__name__}({name}, {value})"

    def _value(self, a: Atom, local: dict[Atom, str], body: list[str] | None) -> str:
        """Return the expression for an atom, loading it from memory once per stage."""
        if is_scalar(a):
            return _literal(a.value)  # type: ignore[union-attr]
        if a in self.values:
            return self.values[a]
        if a in local:
            return local[a]
        assert body is not None, "a number per row depends on elements"
        memory, index = self.at[a] if a in self.strides else (self.scratch[a], "j")  # type: ignore[index]
        name = f"l{len(local)}_{len(body)}"
        body.append(f"{name} = {self._load(memory, index)}")
        local[a] = name
        return name

    def _expression(self, eq: Equation, local: dict[Atom, str], body: list[str] | None = None) -> str:
        """Return an equation as an expression, its operands cast to the type it computes in."""
        template = ELEMENTWISE[eq.op][1]
        values = [self._value(a, local, body) for a in eq.inputs]
        kind = common_type(eq)
        type_ = TYPES[kind]
        first = 1 if eq.op is WHERE else 0
        typed = [
            v if i < first or (not is_scalar(a) and a.dtype == kind) else f"{type_}({v})"
            for i, (a, v) in enumerate(zip(eq.inputs, values, strict=True))
        ]
        return template.format(*typed).replace("T(", f"{type_}(")


def _span(axis: int | None, lengths: tuple[int, ...]) -> list[str]:
    """Return the code for the part of an axis that is to be gone through."""
    if axis is None:
        return []
    n = lengths[axis]
    if axis < len(lengths) - 1:
        return [f"low, high = part * {n} // parts, (part + 1) * {n} // parts"]
    low = f"part * {n} // parts // {LANES} * {LANES}"
    high = f"((part + 1) * {n} // parts // {LANES} * {LANES} if part + 1 < parts else {n})"
    return [f"low, high = {low}, {high}"]


def _literal(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return "NAN" if value != value else "INF" if value > 0 else "(-INF)"
    return repr(value)


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
