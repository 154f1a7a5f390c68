"""From a Program to the statements of a function: what gets a line and a name, and what is written into a formula."""

from __future__ import annotations

import math
from dataclasses import dataclass

from minigrad.emit.literals import ATOM, Text
from minigrad.emit.scope import Scope
from minigrad.emit.spelling import spell
from minigrad.errors import SourceLine
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.rules.index import assign, cast, gather, getitem, scatter
from minigrad.simplify import ADD, BROADCAST, NEGATIVE, permutation, uses
from minigrad.zero import zero_stays_zero

__all__ = ["Line", "Writer", "is_view"]

WIDTH = 88  # of a statement: what is longer is split in two

NAMES = {
    "np.absolute": "size",
    "np.add": "added",
    "np.broadcast_to": "stretched",
    "np.concatenate": "joined",
    "np.divide": "ratio",
    "np.max": "top",
    "np.min": "bottom",
    "np.matmul": "product",
    "np.multiply": "product",
    "np.power": "power",
    "np.reshape": "reshaped",
    "np.sqrt": "root",
    "np.subtract": "difference",
    "np.sum": "total",
    "np.swapaxes": "swapped",
    "np.transpose": "transposed",
    "np.where": "chosen",
    "astype": "cast",
    "getitem": "part",
    "scatter": "spread",
    "setitem": "assigned",
    "zero_stays_zero": "finite",
}
"""What the value of an op is called when nobody has given it a name: other than exp for np.exp."""


@dataclass(frozen=True)
class Line:
    """One line of the function: code, a comment behind it, and where the user's code says what it does."""

    code: str
    comment: str = ""
    source: SourceLine | None = None
    backward: bool = False


class Writer:
    """Writes the statements for a program whose ops are expressions; `minigrad.emit.filling` has the rest.

    Parameters
    ----------
    program
        What to write. Its inputs have names in the scope.
    scope
        The names.
    """

    def __init__(self, program: Program, scope: Scope) -> None:
        self.program = program
        self.scope = scope
        self.uses = uses(program)
        self.made = {out: eq for eq in program.equations for out in eq.outs}
        self.readers = {atom: eq for eq in program.equations for atom in eq.inputs}  # the last one, which may be all
        replaced = program.notes.get("replaced", {})
        self.gradients = {g: _last(x, replaced) for g, x in program.notes.get("gradients", {}).items()}
        self.pending: dict[Atom, Text] = {}  # formulas that are not written yet, for they are part of another
        self.fresh: set[Atom] = set()  # arrays that a statement of this function made
        self.lines: list[Line] = []
        self.places = {eq: i for i, eq in enumerate(program.equations)}
        self.last_read = self.last_reads()

    def last_reads(self) -> dict[Atom, float]:
        """Return the place of the equation in whose statement a value, or a view of it, is read for the last time."""
        last: dict[Atom, float] = dict.fromkeys(self.program.outputs, math.inf)
        for eq, place in reversed(self.places.items()):
            waits = [out for out in eq.outs if is_view(eq) or self.waits(eq, out)]
            read = max([place, *(last.get(out, 0) for out in waits)])
            for x in eq.inputs:
                last[x] = max(last.get(x, 0), read)
        return last

    def waits(self, eq: Equation, out: Var) -> bool:
        """Tell whether what an equation computes is written where it is used, not where it stands."""
        return not eq.several and self.is_inlined(out)

    def write(self) -> list[Line]:
        """Return the statements for all equations."""
        for eq in self.program.equations:
            if eq.op.kind != "effect":  # a check of the arguments is no part of the formula
                self.equation(eq)
        return self.lines

    def equation(self, eq: Equation) -> None:
        """Write an equation, now or as part of a later one."""
        if eq.several:
            text = self.formula(eq, WIDTH - 20)
            names = [self.define(v, eq) if self.uses[v] else "_" for v in eq.outs]
            self.line(f"{', '.join(names)}{',' * (len(names) == 1)} = {text.code}", eq, self.typed(*eq.outs))
            return
        (out,) = eq.outs
        if eq.op is zero_stays_zero:  # which names its operands twice
            for x in [x for x in eq.inputs if x in self.pending]:
                self.settle(x, eq)
        if self.is_inlined(out) and self.reads_stretched(eq):
            self.pending[out] = self.taken(eq.inputs[0], eq)
        elif self.is_inlined(out):
            self.pending[out] = self.formula(eq, WIDTH - 16)
        elif is_view(eq) and not self.scope.exact and self.is_short(eq):
            self.scope.names[out] = self.formula(eq, WIDTH).code
        else:
            self.assign(out, self.formula(eq, WIDTH - len(self.name(out, eq)) - 3).code, eq)

    def is_inlined(self, out: Var) -> bool:
        """Tell whether a value is written into the formula that uses it."""
        if self.scope.exact or self.uses[out] != 1 or out in self.program.outputs:
            return False
        return not _is_named(out) or self.made[out].op is NEGATIVE

    def reads_stretched(self, eq: Equation) -> bool:
        """Tell whether a value is only stretched to be assigned at an index, which stretches by itself."""
        reader = self.readers.get(eq.outs[0])
        return eq.op is BROADCAST and reader is not None and reader.op is scatter and reader.inputs[0] is eq.outs[0]

    def is_short(self, eq: Equation) -> bool:
        """Tell whether a view, which costs nothing, is as easily written again as it is named: x.T, mask[..., None]."""
        (out,) = eq.outs
        x = eq.inputs[0]
        if _is_named(out) or out in self.program.outputs or (x in self.pending and not is_view(self.made[x])):  # type: ignore[index]
            return False
        text = spell(eq, [self.text(x, eq) for x in eq.inputs], self.scope)
        return text.level == ATOM and len(text.code) <= 26

    # --- values as text

    def text(self, x: Atom, eq: Equation) -> Text:
        """Return an atom as it is written in an equation."""
        if isinstance(x, Const):
            return self.scope.constant(x, [a for a in eq.inputs if a is not x])
        return self.pending[x] if x in self.pending else Text(self.scope.names[x])

    def taken(self, x: Atom, eq: Equation) -> Text:
        """Return an atom as it is written in an equation, where it is written now."""
        text = self.text(x, eq)
        self.pending.pop(x, None)
        return text

    def formula(self, eq: Equation, room: int) -> Text:
        """Return the formula of an equation, at most `room` wide if splitting can achieve it."""
        while True:
            text = spell(eq, [self.text(x, eq) for x in eq.inputs], self.scope)
            inside = [x for x in eq.inputs if len(self.pending.get(x, Text("")).code) > 12]
            if len(text.code) <= room or not inside:
                break
            self.settle(max(inside, key=lambda x: len(self.pending[x].code)), eq)
        for x in eq.inputs:
            self.pending.pop(x, None)
        return text

    def settle(self, x: Atom, eq: Equation) -> None:
        """Give a formula that was to be part of another a line of its own."""
        assert isinstance(x, Var)
        self.assign(x, self.pending.pop(x).code, self.made.get(x, eq))

    # --- statements

    def name(self, var: Var, eq: Equation) -> str:
        """Return a name for a variable: the user's, that of the gradient of something, or one that says what it is."""
        of = self.of(var, eq)
        if var.name and (of is None or var.name != f"d{of.name}" or var in self.program.outputs):
            return var.name
        if eq.op in (getitem, gather) and not var.name:
            base = self.scope.names.get(eq.inputs[0], "")  # type: ignore[arg-type]
            return f"{base}_part" if base.isidentifier() else "part"
        if of is not None:
            known = self.scope.names.get(of) or of.name
            if known is None and of in self.made:
                known = self.name(of, self.made[of])
            if known is not None and known.isidentifier():
                return f"d{known}"
        if eq.op is cast and eq.inputs[0].dtype.kind in "iu":
            return "count"
        name = NAMES.get(eq.op.name) or eq.op.name.rsplit(".", 1)[-1]
        return name if name.isidentifier() else "value"

    def of(self, var: Var, eq: Equation) -> Var | None:
        """Return what a variable is the gradient of: itself, or as soon as parts have been added to it."""
        reader = self.readers.get(var)
        if var not in self.gradients and eq.op in (assign, scatter, ADD) and eq.of and reader and reader.op is ADD:
            return self.gradients.get(reader.outs[0])
        return self.gradients.get(var)

    def define(self, var: Var, eq: Equation) -> str:
        """Give a variable a name."""
        return self.scope.define(var, self.name(var, eq), self.of(var, eq))

    def assign(self, var: Var, code: str, eq: Equation) -> None:
        """Write `name = code`."""
        name = self.scope.names.get(var) or self.define(var, eq)
        self.line(f"{name} = {code}", eq, self.typed(var))
        if not is_view(eq):
            self.fresh.add(var)

    def line(self, code: str, eq: Equation, comment: str = "") -> None:
        """Write a statement."""
        self.lines.append(Line(code, comment, eq.source, eq.of is not None))

    def typed(self, *variables: Var) -> str:
        """Return the shapes of variables, and the dtypes where they are other than most."""
        usual = self.program.inputs[0].dtype if self.program.inputs else None
        return ", ".join(str(v.shape) + ("" if v.dtype == usual else f" {v.dtype}") for v in variables)


def _last(x: Var, replaced: dict[Var, Atom]) -> Var:
    """Return the variable that stands for another in the end."""
    while isinstance(new := replaced.get(x), Var):
        x = new
    return x


def _is_named(var: Var) -> bool:
    return var.name is not None and not var.weak


def is_view(eq: Equation) -> bool:
    """Tell whether the result of an equation may share memory with its input."""
    return eq.op.kind == "view" or permutation(eq) is not None or eq.op.name in ("np.real", "np.imag")
