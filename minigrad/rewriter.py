"""What every pass over a Program is written with: a new program is built, equation by equation, out of an old one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minigrad.op import Op
from minigrad.program import Atom, Equation, Program, Var, validate

__all__ = ["Rewriter"]


class Rewriter:
    """Builds a program, equation by equation, out of an old one."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.equations: list[Equation] = []
        self.made: dict[Var, Equation] = {}  # which new equation computes a variable
        self.replaced: dict[Atom, Atom] = {}

    def now(self, atom: Atom) -> Atom:
        """Return what stands for an atom of the old program."""
        return self.replaced.get(atom, atom)

    def inputs(self, eq: Equation) -> tuple[Atom, ...]:
        """Return what stands for the inputs of an equation of the old program."""
        if self.replaced.keys().isdisjoint(eq.inputs):
            return eq.inputs
        return tuple(map(self.now, eq.inputs))

    def let(self, old: Var, new: Atom) -> None:
        """Say that `new`, which takes over the name, replaces `old` from here on."""
        self.replaced[old] = new
        self.program.notes.setdefault("replaced", {})[old] = new
        if isinstance(new, Var) and new not in self.program.inputs:
            if old.name and (new.name is None or (new.weak and not old.weak)):
                new.name, new.weak = old.name, old.weak
            gradients = self.program.notes.get("gradients", {})
            if old in gradients:
                gradients.setdefault(new, gradients[old])

    def add(self, eq: Equation) -> None:
        """Add an equation."""
        self.equations.append(eq)
        for out in eq.outs:
            self.made[out] = eq

    def emit(self, op: Op, inputs: tuple[Atom, ...], out: Var, like: Equation, **params: Any) -> Var:
        """Add an equation for `out` that stands where another stood."""
        self.add(Equation((out,), op, inputs, params, like.source, of=like.of))
        return out

    def keep(self, eq: Equation) -> None:
        """Add an equation of the old program, on the new atoms."""
        inputs = self.inputs(eq)
        self.add(eq if inputs is eq.inputs else replace(eq, inputs=inputs))

    def done(self) -> Program:
        """Return the new program."""
        old = self.program
        outputs = tuple(map(self.now, old.outputs))
        return validate(Program(old.inputs, tuple(self.equations), outputs, old.name, old.notes))
