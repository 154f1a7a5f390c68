"""Writing the loop of a row program as Python source, for numba to compile.

Shapes, strides and offsets are literals in the source, so that the compiler sees plain loops over contiguous memory.
A row is gone through in stages, one more after each reduction over it: what a later stage needs of an earlier one is
kept in a row of scratch memory, which stays in the first-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from minigrad.compiler.layout import Buffer
from minigrad.compiler.ops import COMPARISONS, ELEMENTWISE, REDUCE, is_scalar
from minigrad.compiler.plan import Plan
from minigrad.compiler.rowfuse import Group, reduction_axis
from minigrad.op import OPS
from minigrad.program import Atom, Equation, Var

__all__ = ["Kernel", "write_kernel"]

TYPES = {"float32": "f4", "float64": "f8", "int64": "i8", "int32": "i4", "bool": "b1"}
WHERE = OPS[np.where]
ENOUGH_WORK = 200_000  # elements times equations: about 50 microseconds, where sharing begins to pay


@dataclass
class Kernel:
    """The source of a kernel and the buffers to call it with."""

    source: str
    buffers: list[Buffer]
    types: list[str]  # numba's, of their arrays
    equations: list[Equation]
    parallel: bool


def write_kernel(plan: Plan, group: Group, threads: int = 1) -> Kernel:
    """Return the kernel of a group, its rows shared among threads if there is enough to do."""
    return _KernelWriter(plan, group, threads).write()


class _KernelWriter:
    def __init__(self, plan: Plan, group: Group, threads: int) -> None:
        assert group.domain is not None
        self.threads = threads
        self.plan, self.group = plan, group
        self.own = {out: eq for eq in group.equations for out in eq.outs}
        self.stored = [v for v in group.results if v in plan.outside[group]]
        self.buffers: list[Buffer] = []
        self.names: dict[Atom, str] = {}
        self.rows = group.domain[:-1]
        self.n = self.width = group.domain[-1]  # n grows when axes are merged
        self.reduces = {eq.outs[0]: reduction_axis(eq) for eq in group.equations if reduction_axis(eq)}
        for eq in group.equations:
            if self.reduces.get(eq.outs[0]) == "rows" and eq.inputs[0].shape[-1] == 1:
                self.reduces[eq.outs[0]] = "all"  # of one number per row
        self._stages()
        self._operands()
        self._collapse()

    # --- what is computed when

    def _per_row(self, atom: Atom) -> bool:
        """Tell whether an atom is one number per row (or per loop), not one per element."""
        if atom in self.reduces:
            return True
        shape = atom.shape
        return self.width != 1 and (len(shape) == 0 or shape[-1] == 1)

    def _stages(self) -> None:
        """Find the stage at which each result is known: elements in a stage's loop, numbers per row before it."""
        self.stage: dict[Atom, int] = {}
        for eq in self.group.equations:
            at = 0
            for a in eq.inputs:
                if a in self.own and a not in self.group.late:
                    at = max(at, self.stage[a] + (1 if self.reduces.get(a) == "row" else 0))
            self.stage[eq.outs[0]] = at
        self.n_stages = 1 + max(
            (self.stage[eq.outs[0]] for eq in self.group.equations if not self._scalar_equation(eq)), default=0
        )

    def _scalar_equation(self, eq: Equation) -> bool:
        """Tell whether an equation is computed once per row, outside the loops over the elements."""
        if eq.outs[0] in self.reduces:
            return self.width != 1 and self._per_row(eq.inputs[0])
        return self._per_row(eq.outs[0])

    # --- what is read and written where

    def _operands(self) -> None:
        """List every array in memory that the loop touches, with its strides over the domain."""
        self.strides: dict[Atom, tuple[int, ...]] = {}
        atoms = [a for eq in self.group.equations for a in eq.inputs if a not in self.own and not is_scalar(a)]
        for atom in dict.fromkeys([*atoms, *(v for v in self.stored if v not in self.group.late)]):
            view = self.plan.views[atom]
            missing = len(self.group.domain) - len(view.shape)  # type: ignore[arg-type]
            strides = (0,) * missing + tuple(
                0 if n == 1 and full != 1 else s
                for n, s, full in zip(view.shape, view.strides, self.group.domain[missing:], strict=True)  # type: ignore[index]
            )
            self.strides[atom] = strides

    def _collapse(self) -> None:
        """Merge neighbouring axes wherever every operand allows it: fewer, longer loops."""
        shape, columns = list(self.group.domain), dict(self.strides)  # type: ignore[arg-type]
        lists = {a: list(s) for a, s in columns.items()}
        by_row = any(r in ("row", "rows") for r in self.reduces.values())
        by_row = by_row or any(self._per_row(v) for v in self.own) or any(self._per_row(a) for a in lists)
        last = len(shape) - (1 if by_row else 0)
        i = 0
        while i + 1 < last:
            if all(
                s[i] == s[i + 1] * shape[i + 1] or (s[i] == 0 and s[i + 1] == 0) or shape[i] == 1
                for s in lists.values()
            ):
                shape[i + 1] *= shape[i]
                for s in lists.values():
                    del s[i]
                del shape[i]
                last -= 1
            else:
                i += 1
        self.strides = {a: tuple(s) for a, s in lists.items()}
        self.rows, self.n = tuple(shape[:-1]), shape[-1]

    # --- the source

    def _buffer(self, b: Buffer) -> str:
        if b not in self.buffers:
            self.buffers.append(b)
        return f"m{self.buffers.index(b)}"

    def write(self) -> Kernel:
        """Return the source: loops over the rows, and in them the stages."""
        threads = self._threads()
        for a in self.strides:
            self._buffer(self.plan.views[a].buffer)
        for v in self.group.late:
            self._buffer(self.plan.views[v].buffer)
        self.scratch: dict[Var, str] = {}
        row = self._row()
        body = [f"{name} = np.empty({self.n}, {TYPES[v.dtype.name]})" for v, name in self.scratch.items()]
        loops = []
        for i, n in enumerate(self.rows):
            span = f"p * {n} // {threads}, (p + 1) * {n} // {threads}" if threads > 1 and i == 0 else f"{n}"
            loops.append("    " * i + f"for i{i} in range({span}):")
        body += loops + ["    " * len(self.rows) + line for line in row]
        before, after = self._totals(threads, body)
        if threads > 1:
            body = [f"for p in prange({threads}):", *_indent(body)]
        lines = [f"def kernel({', '.join(f'm{i}' for i in range(len(self.buffers)))}):"]
        lines += _indent([*before, *body, *after])
        written = {self.plan.views[v].buffer for v in self.stored}
        types = [_array_type(b, b not in written) for b in self.buffers]
        return Kernel("\n".join(lines) + "\n", self.buffers, types, self.group.equations, threads > 1)

    def _threads(self) -> int:
        """Return among how many threads the rows are shared: one for small groups, as threads cost a microsecond."""
        if self.threads == 1 or prod(self.group.domain or ()) * len(self.group.equations) < ENOUGH_WORK:
            return 1
        if not self.rows:  # one long row
            if self.n % self.threads:
                return 1
            self.n //= self.threads
            self.rows = (self.threads,)
            self.strides = {a: (s[0] * self.n, s[0]) for a, s in self.strides.items()}
        return self.threads if self.rows[0] >= self.threads else 1

    def _totals(self, threads: int, body: list[str]) -> tuple[list[str], list[str]]:
        """Return the code before and after the loops that sets up and stores what is reduced over the rows.

        Each thread adds up a total of its own, and these are added in order: the result does not depend on timing.
        """
        before, after = [], []
        first = []
        for v in self.group.late:
            name, view, type_ = self._late(v), self.plan.views[v], TYPES[v.dtype.name]
            place = f"{self._buffer(view.buffer)}[{view.offset}:{view.offset + self.n}]"
            if self.reduces[v] == "rows":
                if threads == 1:
                    before += [f"{name} = {place}", f"{name}[:] = 0"]
                else:
                    before.append(f"each_{name} = np.zeros(({threads}, {self.n}), {type_})")
                    first.append(f"{name} = each_{name}[p]")
                    after += [f"whole_{name} = {place}", f"for j in range({self.n}):"]
                    terms = " + ".join(f"each_{name}[{p}, j]" for p in range(threads))
                    after.append(f"    whole_{name}[j] = {terms}")
                continue
            store = f"{self._buffer(view.buffer)}[{view.offset}] = {type_}({name})"
            if threads == 1:
                before.append(f"{name} = {self._identity(v, 'f8')}")
                after.append(store)
            else:
                before.append(f"each_{name} = np.empty({threads}, f8)")
                first.append(f"{name} = {self._identity(v, 'f8')}")
                body.append(f"each_{name}[p] = {name}")
                after.append(f"{name} = {self._identity(v, 'f8')}")
                after += [self._accumulate(self.own[v], name, f"each_{name}[{p}]") for p in range(threads)]
                after.append(store)
        body[:0] = first
        return before, after

    def _late(self, v: Var) -> str:
        return f"total{[*self.group.late].index(v)}"

    def _identity(self, v: Var, type_: str) -> str:
        ufunc = REDUCE[self.own[v].op]
        return f"{type_}({'0' if ufunc is np.add else '-INF' if ufunc is np.maximum else 'INF'})"

    def _row(self) -> list[str]:
        """Return the code of one row."""
        lines: list[str] = []
        self.at: dict[Atom, str] = {}  # operand -> the name of its row
        self.values: dict[Atom, str] = {}  # numbers per row
        for k, (a, strides) in enumerate(self.strides.items()):
            view = self.plan.views[a]
            start = " + ".join([str(view.offset), *(f"i{i} * {s}" for i, s in enumerate(strides[:-1]) if s)])
            name, step = f"x{k}", strides[-1]
            if step == 1 and self.n > 1:
                lines.append(f"{name} = {self._buffer(view.buffer)}[{start}:{start} + {self.n}]")
                self.at[a] = f"{name}[j]"
            else:
                lines.append(f"{name} = {start}")
                self.at[a] = f"{self._buffer(view.buffer)}[{name}{f' + j * {step}' if step else ''}]"
                if self._is_row_operand(a):
                    if a not in self.own:
                        lines.append(f"v{k} = {self.at[a]}")
                        self.values[a] = f"v{k}"
        for stage in range(self.n_stages):
            lines += self._numbers(stage)
            lines += self._loop(stage)
        lines += self._numbers(self.n_stages)
        return lines

    def _is_row_operand(self, a: Atom) -> bool:
        return self.strides[a][-1] == 0 and self.n > 1

    def _numbers(self, stage: int) -> list[str]:
        """Return the equations of one number per row that can be computed before the loop of a stage."""
        lines = []
        for eq in self.group.equations:
            out = eq.outs[0]
            if not self._scalar_equation(eq) or self.stage[out] != stage:
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
        return [f"{self.at[v]} = {self.values[v]}"] if v in self.strides else []

    def _loop(self, stage: int) -> list[str]:
        """Return the loop over the elements of a row for one stage, and the reductions it feeds."""
        todo = [eq for eq in self.group.equations if not self._scalar_equation(eq) and self.stage[eq.outs[0]] == stage]
        if not todo:
            return []
        before: list[str] = []
        body: list[str] = []
        after: list[str] = []
        local: dict[Atom, str] = {}
        for eq in todo:
            out = eq.outs[0]
            if out in self.reduces:
                value = self._value(eq.inputs[0], local, body)
                kind, type_ = self.reduces[out], TYPES[out.dtype.name]
                if kind == "rows":
                    body.append(f"{self._late(out)}[j] += {value}")
                    continue
                name = f"a{len(self.values)}_{len(before)}"
                before.append(f"{name} = {self._identity(out, type_)}")
                body.append(self._accumulate(eq, name, value))
                if kind == "all":
                    total = self._late(out)
                    after.append(self._accumulate(eq, total, f"f8({name})"))
                else:
                    self.values[out] = name
                    after += self._store_number(out)
                continue
            name = f"t{len(local)}_{stage}"
            body.append(f"{name} = {self._expression(eq, local, body)}")
            local[out] = name
            if out in self.strides:
                body.append(f"{self.at[out]} = {name}")
            elif self._needed_later(out, stage):
                self.scratch[out] = f"s{len(self.scratch)}"
                body.append(f"{self.scratch[out]}[j] = {name}")
        return [*before, f"for j in range({self.n}):", *_indent(body), *after]

    def _needed_later(self, v: Var, stage: int) -> bool:
        return any(v in eq.inputs and self.stage[eq.outs[0]] > stage for eq in self.group.equations)

    def _accumulate(self, eq: Equation, name: str, value: str) -> str:
        ufunc = REDUCE[eq.op]
        if ufunc is np.add:
            return f"{name} += {value}"
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
        source = self.at[a] if a in self.strides else f"{self.scratch[a]}[j]"  # type: ignore[index]
        name = f"l{len(local)}_{len(body)}"
        body.append(f"{name} = {source}")
        local[a] = name
        return name

    def _expression(self, eq: Equation, local: dict[Atom, str], body: list[str] | None = None) -> str:
        """Return an equation as an expression, its operands cast to the type it computes in."""
        out = eq.outs[0]
        template = ELEMENTWISE[eq.op][1]
        values = [self._value(a, local, body) for a in eq.inputs]
        if eq.op in COMPARISONS:
            kind = np.result_type(*(a.value if is_scalar(a) else a.dtype for a in eq.inputs))  # type: ignore[union-attr]
        else:
            kind = out.dtype
        type_ = TYPES[np.dtype(kind).name]
        if np.dtype(kind).kind != "f":
            template = template.replace("maximum(", "max(").replace("minimum(", "min(")  # integers know no NaN
        first = 1 if eq.op is WHERE else 0
        typed = [
            v if i < first or (not is_scalar(a) and a.dtype == kind) else f"{type_}({v})"
            for i, (a, v) in enumerate(zip(eq.inputs, values, strict=True))
        ]
        return template.format(*typed).replace("T(", f"{type_}(")


def _array_type(buffer: Buffer, readonly: bool) -> str:
    name = "boolean" if buffer.dtype.name == "bool" else buffer.dtype.name
    return f"types.Array(types.{name}, 1, 'C', readonly={readonly})"


def _literal(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return "NAN" if value != value else "INF" if value > 0 else "(-INF)"
    return repr(value)


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
