"""Computing again instead of keeping: what a later loop can have from arrays that it reads anyway is not stored.

The backward pass of SwiGLU needs the sigmoid, its derivative and the gated value of each element; all of them follow
from the gate, which it reads too. Fewer arrays go through memory twice, and the peak is lower (Chen et al. 2016,
"Training deep nets with sublinear memory cost", where no more than elementwise equations are done twice).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from minigrad.compiler.ops import ELEMENTWISE, VIEWS
from minigrad.compiler.rowfuse import Group
from minigrad.program import Atom, Const, Equation, Program, Var

__all__ = ["recompute"]

MOST_EQUATIONS = 8  # done again for one array
SMALL = 8  # an array smaller than this share is kept without asking


def recompute(program: Program, groups: list[Group], least: int = 0) -> None:
    """Change groups so that they compute elementwise results of earlier groups again, where these need not be kept.

    Results of less than `least` bytes are kept all the same.
    """
    pass_ = _Recompute(program, groups)
    for i, group in enumerate(groups):
        for eq in group.equations:
            out = eq.outs[0]
            if group.domain is not None and eq.op in ELEMENTWISE and prod(out.shape) * out.dtype.itemsize >= least:
                pass_.consider(i, eq)


class _Recompute:
    def __init__(self, program: Program, groups: list[Group]) -> None:
        self.groups = groups
        self.maker = {out: (i, eq) for i, g in enumerate(groups) for eq in g.equations for out in eq.outs}
        self.direct: dict[Atom, set[int]] = {}  # the groups that read it
        self.root: dict[Atom, Atom] = {}
        self.seen_elsewhere: set[Atom] = {a for a in program.outputs if isinstance(a, Var)}
        for eq in program.equations:
            if eq.op in VIEWS and not eq.several:
                self.root[eq.outs[0]] = self.root.get(eq.inputs[0], eq.inputs[0])
                self.seen_elsewhere.add(eq.inputs[0])
        self.last: dict[Atom, int] = {}  # the last group that reads its memory
        for i, g in enumerate(groups):
            for eq in g.equations:
                for a in eq.inputs:
                    self.direct.setdefault(a, set()).add(i)
                    root = self.root.get(a, a)
                    self.last[root] = max(self.last.get(root, 0), i)
        for a in self.seen_elsewhere & set(program.outputs):
            self.last[a] = len(groups)
        self.dropped: set[Atom] = set()
        self.again: dict[int, dict[Atom, Var]] = {}  # what a group computes again, and what that is there

    def consider(self, home: int, eq: Equation) -> None:
        """Let the readers of a result compute it again, if all of them can."""
        out = eq.outs[0]
        readers = sorted(self.direct.get(out, set()) - {home})
        if not readers or len(readers) > 2 or out in self.seen_elsewhere:
            return
        chains = [self._chain(out, reader) for reader in readers]
        if any(chain is None for chain in chains):
            return
        self.dropped.add(out)
        for reader, chain in zip(readers, chains, strict=True):
            self._insert(reader, out, chain)  # type: ignore[arg-type]

    def _chain(self, wanted: Var, reader: int) -> list[Equation] | None:
        """Return the equations that compute a result from what is there when a group runs, or None."""
        target = self.groups[reader]
        if target.domain is None or wanted.shape != target.domain:
            return None
        chain: list[Equation] = []
        found: set[Atom] = set(self.again.get(reader, ()))

        def need(atom: Atom, above: int = 0) -> bool:
            if atom in found or self._there(atom, reader, wanted):
                return True
            made = self.maker.get(atom) if isinstance(atom, Var) else None
            if made is None:
                return False
            i, eq = made
            if eq.op not in ELEMENTWISE or self.groups[i].domain is None or atom.shape != wanted.shape:
                return False
            if max(above, len(chain)) >= MOST_EQUATIONS or not all(need(a, above + 1) for a in eq.inputs):
                return False
            chain.append(eq)
            found.add(atom)
            return True

        return chain if need(wanted) and len(chain) <= MOST_EQUATIONS else None

    def _there(self, atom: Atom, reader: int, wanted: Var) -> bool:
        """Tell whether an atom is kept until a group runs, or is small enough to be kept for it."""
        if isinstance(atom, Const):
            return True
        if atom is wanted or atom in self.dropped:
            return False
        if prod(atom.shape) * SMALL <= prod(wanted.shape):
            return True
        root = self.root.get(atom, atom)
        return root not in self.dropped and self.last.get(root, -1) >= reader

    def _insert(self, reader: int, out: Var, chain: list[Equation]) -> None:
        target = self.groups[reader]
        again = self.again.setdefault(reader, {})
        for eq in chain:
            again[eq.outs[0]] = Var(eq.outs[0].shape, eq.outs[0].dtype)
        copies = [replace(eq, outs=(again[eq.outs[0]],), inputs=_renamed(eq.inputs, again)) for eq in chain]
        rest = [replace(eq, inputs=_renamed(eq.inputs, {out: again[out]})) for eq in target.equations]
        first = len(again) - len(copies)  # the copies come first, each after those that it needs
        target.equations = [*rest[:first], *copies, *rest[first:]]
        for copy in copies:
            self.maker[copy.outs[0]] = (reader, copy)
            for a in copy.inputs:
                self.direct.setdefault(a, set()).add(reader)
        self.direct[out].discard(reader)


def _renamed(atoms: tuple[Atom, ...], names: Mapping[Atom, Var]) -> tuple[Atom, ...]:
    return tuple(names.get(a, a) for a in atoms)
