"""The results of an emitted function: gradients under their names, each an array of its own; or what f returns."""

from __future__ import annotations

import numpy as np

from minigrad.emit.filling import FillingWriter, zeros_text
from minigrad.emit.writer import Line, is_view
from minigrad.program import Atom, Const, Equation, Var
from minigrad.simplify import BROADCAST

__all__ = ["AdjointWriter", "ForwardWriter"]


class AdjointWriter(FillingWriter):
    """Writes the statements of an adjoint."""

    def write_outputs(self, labels: list[str]) -> list[str]:
        """Write the statements, and return the names of the gradients: the labels, unless something else has them."""
        outputs = self.program.outputs
        for atom, label in zip(outputs, labels, strict=True):
            if isinstance(atom, Var) and atom in self.made and atom not in self.scope.names:
                atom.name, atom.weak = label, False
                self.scope.names[atom] = self.scope.new(label)
        self.write()
        names: list[str] = []
        for i, (atom, label) in enumerate(zip(outputs, labels, strict=True)):
            repeated = atom in outputs[:i]
            if repeated or atom not in self.made:
                names.append(self.scope.new(label))
                self.copy(atom, names[-1])
            else:
                names.append(self.scope.names[atom])
                if self.shares(atom):
                    self.own(names[-1])
        return names

    def shares(self, atom: Atom) -> bool:
        """Tell whether an array is a view of an argument or of another gradient, or cannot be written to."""
        while atom in self.made and is_view(eq := self.made[atom]):
            atom = eq.inputs[0]
            if eq.op is BROADCAST or atom in self.program.outputs:
                return True
        return atom not in self.made

    def copy(self, atom: Atom, name: str) -> None:
        """Write a gradient that is an argument, a constant, or another gradient."""
        if isinstance(atom, Var):
            code = f"np.copy({self.scope.names[atom]})"
        elif isinstance(atom.value, np.ndarray) and not np.any(atom.value):
            like = next((v for v in self.program.inputs if f"d{v.name}" == name), None)
            code = zeros_text(atom, like, self.scope)
        else:
            code = self.scope.constant(atom, []).code
        self.lines.append(Line(f"{name} = {code}", str(atom.shape), None, True))

    def own(self, name: str) -> None:
        """Make the array that a statement computes one of its own."""
        if self.scope.exact:  # a sum of a view may add in another order than one of a copy
            self.lines.append(Line(f"{name} = np.copy({name})", "", None, True))
            return
        start = f"{name} = "
        place = next(i for i, line in enumerate(self.lines) if line.code.startswith(start))
        line = self.lines[place]
        code = f"{start}np.copy({line.code.removeprefix(start)})"
        self.lines[place] = Line(code, line.comment, line.source, line.backward)


class ForwardWriter(FillingWriter):
    """Writes the statements of a function."""

    def write_outputs(self) -> list[str]:
        """Write the statements, and return the results as text; one that has no name is a formula."""
        self.write()
        texts = []
        for atom in self.program.outputs:
            if isinstance(atom, Const):
                texts.append(self.scope.constant(atom, []).code)
            else:
                texts.append(self.pending[atom].code if atom in self.pending else self.scope.names[atom])
        return texts

    def define(self, var: Var, eq: Equation) -> str:
        """Give a variable a name: the one it has in the user's code, once what had it before is no longer needed."""
        wanted, names = self.name(var, eq), self.scope.names
        holders = [x for x, name in names.items() if name == wanted and x is not var]
        if self.scope.exact or not holders or any(self.last_read.get(x, 0) > self.places[eq] for x in holders):
            return super().define(var, eq)
        names[var] = wanted
        return wanted

    def is_inlined(self, out: Var) -> bool:
        """Tell whether a value is written into the formula that uses it, or into the return statement."""
        if out not in self.program.outputs:
            return super().is_inlined(out)
        return not self.scope.exact and self.uses[out] == 1 and (out.name is None or out.weak)
