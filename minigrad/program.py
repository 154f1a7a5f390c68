"""The Program: straight-line code in single-assignment form. Emitted source and compiled steps start from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.errors import MinigradError, SourceLine
from minigrad.op import Op
from minigrad.shapes import Shape, shape_of

__all__ = ["Atom", "Const", "Equation", "Program", "Var", "validate"]


@dataclass(eq=False, slots=True)
class Var:
    """A value that is computed, or an input. Compared by identity."""

    shape: Shape
    dtype: np.dtype[Any]
    name: str | None = None  # as the user's code calls it, where that is known
    weak: bool = False  # the name is not that of a variable, but of the function that returned it, or of a parameter


@dataclass(frozen=True, eq=False)
class Const:
    """An array or a scalar that was there when the program was traced. Arrays are held by reference, not copied."""

    value: Any
    name: str | None = None

    @property
    def shape(self) -> Shape:
        return shape_of(self.value)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = getattr(self.value, "dtype", None)
        return dtype if dtype is not None else np.asarray(self.value).dtype


Atom = Var | Const


@dataclass(frozen=True, eq=False)
class Equation:
    """One op: `outs = op(*inputs, **params)`."""

    outs: tuple[Var, ...]
    op: Op
    inputs: tuple[Atom, ...]
    params: dict[str, Any]
    source: SourceLine | None = None  # where the user wrote it; of a backward equation, the line it is the adjoint of
    several: bool = False  # the op returns a tuple, even of one
    of: Op | None = None  # of a backward equation, the op it is part of the adjoint of; None: a forward equation


@dataclass(frozen=True)
class Program:
    """A function of arrays: inputs, equations in the order they run, outputs."""

    inputs: tuple[Var, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]
    name: str = "f"
    notes: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Run the program with NumPy, an equation at a time."""
        if len(arrays) != len(self.inputs):
            raise MinigradError(f"{self.name} takes {len(self.inputs)} arrays, got {len(arrays)}")
        env: dict[Var, Any] = dict(zip(self.inputs, arrays, strict=True))

        def read(atom: Atom) -> Any:
            return atom.value if isinstance(atom, Const) else env[atom]

        for eq in self.equations:
            out = eq.op.function(*map(read, eq.inputs), **eq.params)
            env.update(zip(eq.outs, out if eq.several else (out,), strict=True))
        return tuple(map(read, self.outputs))

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(program: Program) -> Iterator[str]:
    names = naming(program)

    def show(atom: Atom) -> str:
        if isinstance(atom, Var):
            return names[atom]
        return repr(atom.value) if atom.shape == () else f"<{atom.dtype}{list(atom.shape)}>"

    def typed(var: Var) -> str:
        return f"{names[var]}:{var.dtype}{list(var.shape)}"

    yield f"{program.name}({', '.join(map(typed, program.inputs))}):"
    for eq in program.equations:
        keywords = [f"{k}={v!r}" for k, v in eq.params.items()]
        call = f"{eq.op.name}({', '.join([*map(show, eq.inputs), *keywords])})"
        where = f"    # {eq.source.short}" if eq.source else ""
        yield f"  {', '.join(map(typed, eq.outs))} = {call}{where}"
    yield f"  return {', '.join(map(show, program.outputs))}"


def naming(program: Program) -> dict[Var, str]:
    """Return a distinct name for every variable: the user's where there is one, numbered where it repeats."""
    names: dict[Var, str] = {}
    taken: set[str] = set()
    for var in (*program.inputs, *(out for eq in program.equations for out in eq.outs)):
        base = var.name or "t"
        name, n = base if var.name else "t0", 1
        while name in taken:
            name, n = f"{base}{n if var.name is None else f'_{n + 1}'}", n + 1
        taken.add(name)
        names[var] = name
    return names


def validate(program: Program) -> Program:
    """Return the program if every variable is defined once, before it is used; raise otherwise.

    Called at the end of every pass that makes or rewrites a program.
    """
    defined: set[Atom] = set(program.inputs)
    assert len(defined) == len(program.inputs), f"{program.name}: an input appears twice"
    for eq in program.equations:
        for atom in eq.inputs:
            known = atom in defined or isinstance(atom, Const)
            assert known, f"{program.name}: {eq.op.name} uses an undefined variable"
        assert defined.isdisjoint(eq.outs), f"{program.name}: {eq.op.name} defines a variable twice"
        defined.update(eq.outs)
    for atom in program.outputs:
        assert isinstance(atom, Const) or atom in defined, f"{program.name}: an output is undefined"
    return program


def without_dead_code(program: Program) -> Program:
    """Drop the equations that no output needs. What is left of a valid program is valid."""
    needed = set(program.outputs)
    kept = []
    for eq in reversed(program.equations):
        if eq.op.kind == "effect" or not needed.isdisjoint(eq.outs):
            kept.append(eq)
            needed.update(eq.inputs)
    return Program(program.inputs, tuple(reversed(kept)), program.outputs, program.name, program.notes)
