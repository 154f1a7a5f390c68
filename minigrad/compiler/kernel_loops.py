"""The loops of a row program: over which axes, what is computed in which stage, and what is read and written where.

A row is gone through in stages, one more after each reduction over it. A kernel does one part of several, a span of an
axis.
"""

from __future__ import annotations

from math import prod

from minigrad.compiler.ops import is_scalar
from minigrad.compiler.plan import Plan
from minigrad.compiler.rowfuse import Group, is_once_per_row, is_per_row, reduction_axis, stages
from minigrad.program import Atom, Equation

__all__ = ["LANES", "RowLoops"]

ENOUGH_WORK = 15_000  # elements times equations: a few microseconds, where sharing begins to pay
LANES = 16  # numbers: a part of a row begins at a multiple of this, so that vectors are whole


class RowLoops:
    """The loops of a group.

    Attributes
    ----------
    rows, n
        The lengths of the axes, once neighbours are merged: of the outer ones, and of a row.
    strides
        Of every array in memory that the loops touch, in elements.
    reduces
        Results of reductions, and over what: "row", "rows" or "all".
    stage, n_stages
        The stage of each result, and how many loops over a row there are.
    """

    def __init__(self, plan: Plan, group: Group, threads: int) -> None:
        assert group.domain is not None
        self.threads = threads
        self.plan, self.group = plan, group
        self.own = {out: eq for eq in group.equations for out in eq.outs}
        self.stored = [v for v in group.results if v in plan.outside[group]]
        self.rows = group.domain[:-1]
        self.n = group.domain[-1]  # n grows when axes are merged
        self.reduces = {eq.outs[0]: reduction_axis(eq) for eq in group.equations if reduction_axis(eq)}
        for eq in group.equations:
            if self.reduces.get(eq.outs[0]) == "rows" and eq.inputs[0].shape[-1] == 1:
                self.reduces[eq.outs[0]] = "all"  # of one number per row
        self._stages()
        self._operands()
        self._collapse()

    def per_row(self, atom: Atom) -> bool:
        """Tell whether an atom is one number per row."""
        return is_per_row(self.group, atom, self.reduces)

    def is_once_per_row(self, eq: Equation) -> bool:
        """Tell whether an equation is computed outside the loops over the elements of a row."""
        return is_once_per_row(self.group, eq, self.reduces)

    def _stages(self) -> None:
        self.stage = stages(self.group)
        self.n_stages = 1 + max(
            (self.stage[eq.outs[0]] for eq in self.group.equations if not self.is_once_per_row(eq)), default=0
        )

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
        by_row = by_row or any(self.per_row(v) for v in self.own) or any(self.per_row(a) for a in lists)
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

    def shared_axis(self) -> int | None:
        """Return the axis whose length is shared among the parts: that of the elements is the last; or None."""
        if self.threads == 1 or prod(self.group.domain or ()) * len(self.group.equations) < ENOUGH_WORK:
            return None
        for axis, n in enumerate(self.rows):
            if n % self.threads == 0 or n >= 8 * self.threads:
                return axis
        whole_rows = all(kind == "all" for kind in self.reduces.values()) and not any(map(self.per_row, self.own))
        if whole_rows and self.n >= LANES * self.threads:
            return len(self.rows)
        return next((axis for axis, n in enumerate(self.rows) if n >= self.threads), None)
