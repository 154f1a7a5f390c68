"""Row programs: equations that one loop over rows can compute.

A row program has a domain, the shape its rows lie in: elementwise equations of that shape, equations of one number
per row, and reductions, over the last axis (their result is one number per row, which later equations of the row may
use) or over all the rows (their result is there when the loop has ended).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container
from dataclasses import dataclass, field

from minigrad.compiler.ops import KERNEL_TYPES, REDUCE, VIEWS, fusable
from minigrad.program import Atom, Equation, Program, Var
from minigrad.shapes import Shape

__all__ = ["Group", "domain_of", "group", "is_once_per_row", "is_per_row", "stages"]

FAR = 2  # groups: one does not wait for another that is further away
MOST_WRITTEN = 4  # arrays that one loop writes for others: as many as a core writes to at once without trouble
MOST_OPERANDS = 24  # arrays that one loop reads and writes; more than this spills addresses, and slows compilation


@dataclass(eq=False)
class Group:
    """Equations computed together. A group of one equation that does not fuse has no domain."""

    domain: Shape | None
    equations: list[Equation] = field(default_factory=list)
    late: set[Var] = field(default_factory=set)  # reduced over the rows: known only when the loop has ended
    needs: int = 0  # the groups that must come before, as a bit mask
    needed: bool = False  # whether another needs it
    for_checks: bool = False  # whether a check of values needs it
    overwrites: bool = False  # whether it writes into arguments, which a check that fails leaves as they were

    @property
    def results(self) -> list[Var]:
        """Everything the group computes."""
        return [out for eq in self.equations for out in eq.outs]


def reduction_axis(eq: Equation) -> str | None:
    """Return "row" for a reduction over the last axis, "rows" for one over the leading axes, "all", or None."""
    if eq.op not in REDUCE or not eq.params.get("keepdims"):
        return None
    axis, ndim = eq.params["axis"], len(eq.inputs[0].shape)
    if ndim == 0 or eq.outs[0].dtype.kind != "f" or eq.outs[0].dtype not in KERNEL_TYPES or 0 in eq.inputs[0].shape:
        return None
    if axis == tuple(range(ndim)) and ndim > 1:
        return "all"
    if axis == (ndim - 1,):
        return "row"
    if axis == tuple(range(ndim - 1)) and REDUCE[eq.op].__name__ == "add":
        return "rows"
    return None


def domain_of(eq: Equation) -> Shape | None:
    """Return the shape an equation loops over, or None if it does not fuse."""
    if reduction_axis(eq) is not None:
        return eq.inputs[0].shape
    if 0 in eq.outs[0].shape:
        return None  # nothing to loop over
    return eq.outs[0].shape or (1,) if fusable(eq) else None


def is_per_row(group: Group, atom: Atom, reduced: Container[Atom]) -> bool:
    """Tell whether an atom is one number per row (or per loop), not one per element."""
    assert group.domain is not None
    if atom in reduced:
        return True
    return group.domain[-1] != 1 and (len(atom.shape) == 0 or atom.shape[-1] == 1)


def is_once_per_row(group: Group, eq: Equation, reduced: Container[Atom]) -> bool:
    """Tell whether an equation is computed once per row, outside the loops over the elements."""
    assert group.domain is not None
    if eq.outs[0] in reduced:
        return group.domain[-1] != 1 and is_per_row(group, eq.inputs[0], reduced)
    return is_per_row(group, eq.outs[0], reduced)


def stages(group: Group) -> dict[Atom, int]:
    """Return the stage at which each result is known: one more after each reduction over the elements of a row.

    What only a later stage needs, and can have from memory and numbers per row, is left to that stage.
    """
    own = {out: eq for eq in group.equations for out in eq.outs}
    reduced = {out for out, eq in own.items() if reduction_axis(eq)}
    found: dict[Atom, int] = {}
    for eq in group.equations:
        at = 0
        for a in eq.inputs:
            if a in own and a not in group.late:
                ends = reduction_axis(own[a]) == "row" and not is_once_per_row(group, own[a], reduced)
                at = max(at, found[a] + ends)
        found[eq.outs[0]] = at
    first: dict[Atom, int] = {}  # the first stage that reads a result
    at_hand: set[Atom] = set()
    for eq in group.equations:
        inside = [a for a in eq.inputs if a in own and not is_per_row(group, a, reduced)]
        if eq.outs[0] not in reduced and at_hand.issuperset(inside) and not is_once_per_row(group, eq, reduced):
            at_hand.update(eq.outs)
    for eq in reversed(group.equations):
        out = eq.outs[0]
        if out in at_hand:
            found[out] = first.get(out, found[out])
        for a in eq.inputs:
            first[a] = min(first.get(a, found[out]), found[out])
    return found


def _fits(wanted: Shape, domain: Shape) -> Shape | None:
    """Return the domain that serves both, if one does: numbers per row go along with rows of the same shape."""
    if wanted == domain or (wanted[:-1] == domain[:-1] and wanted[-1] == 1):
        return domain
    return wanted if wanted[:-1] == domain[:-1] and domain[-1] == 1 else None


def group(program: Program, sums: bool = True, donated: Collection[Atom] = ()) -> list[Group]:
    """Return the groups of a program in an order in which they can run. Views belong to no group.

    Without `sums`, reductions over the rows are left to NumPy: its result depends on which numbers it adds at a time.
    `donated` are the results that are to be written into arguments: after the checks, so in loops of their own.
    """
    domains = [domain_of(eq) for eq in program.equations]
    alone = [eq for eq, d in zip(program.equations, domains, strict=True) if d is None or eq.op in VIEWS]
    grouping = _Grouping({a for eq in alone for a in eq.inputs}, donated, _checked(program) if donated else set())
    for eq, domain in zip(program.equations, domains, strict=True):
        if eq.op in VIEWS and not eq.several:
            grouping.look(eq)
        else:
            grouping.add(eq, domain if sums or reduction_axis(eq) not in ("rows", "all") else None)
    return _ordered(grouping.groups)


class _Grouping:
    """Groups that grow, one equation after the other. They are referred to by their numbers."""

    def __init__(self, written: set[Atom], donated: Collection[Atom], checked: set[Atom]) -> None:
        self.groups: list[Group] = []
        self.donated = donated
        self.checked = checked  # what checks of values depend on
        self.inputs: list[set[Atom]] = []  # of each group
        self.results: list[set[Atom]] = []
        self.operands: list[set[Atom]] = []  # both, without numbers
        self.written = written  # what loops cannot keep to themselves
        self.maker: dict[Atom, int] = {}  # the group whose result a variable is, or looks at
        self.made: dict[int, list[Var]] = defaultdict(list)  # and the variables of which a group is the maker
        self.viewed: set[Atom] = set()

    def look(self, eq: Equation) -> None:
        """Note what a view looks at."""
        sources = {self.maker[a] for a in eq.inputs if a in self.maker}
        for out in eq.outs:
            self.viewed.add(out)
            if sources:
                self.maker[out] = next(iter(sources))
                self.made[self.maker[out]].append(out)

    def add(self, eq: Equation, wanted: Shape | None) -> None:
        """Add an equation to a group that loops over the shape it wants, or to a new one; merge what it combines."""
        groups, maker = self.groups, self.maker
        sources = {maker[a] for a in eq.inputs if a in maker}
        home = self._home(eq, wanted, sources) if wanted is not None else None
        if home is None:
            home = len(groups)
            groups.append(Group(wanted))
            for of_groups in (self.inputs, self.results, self.operands):
                of_groups.append(set())
        target = groups[home]
        target.for_checks |= eq.outs[0] in self.checked
        target.overwrites |= eq.outs[0] in self.donated
        if wanted is not None and target.domain is not None:
            target.domain = _fits(wanted, target.domain)
        if target.domain is not None:
            for s in sorted(sources - {home}):
                mine = [a for a in eq.inputs if maker.get(a) == s]
                combined = any(a not in self.viewed and a.shape == groups[s].domain for a in mine)
                between = any(groups[q].needs >> s & 1 for q in sources)
                if combined and self.viewed.isdisjoint(mine) and not between and self._can_merge(home, s):
                    self._merge(home, s)
                    sources = sources - {s} | {home}
        target.equations.append(eq)
        if wanted is not None and reduction_axis(eq) in ("rows", "all"):
            target.late.update(eq.outs)
        needed = 0
        for s in sources - {home}:
            needed |= groups[s].needs | 1 << s
            groups[s].needed = True
        _add_needs(groups, home, needed)
        self.inputs[home].update(eq.inputs)
        self.results[home].update(eq.outs)
        self.operands[home].update(_operands(eq))
        maker.update(dict.fromkeys(eq.outs, home))
        self.made[home] += eq.outs

    def _home(self, eq: Equation, wanted: Shape, sources: set[int]) -> int | None:
        """Return the group an equation can join: that of an input, or one that reads the same arrays."""
        maker, viewed = self.maker, self.viewed
        is_checked, is_donated = eq.outs[0] in self.checked, eq.outs[0] in self.donated
        own = sorted((maker[a] for a in eq.inputs if a in maker and a not in viewed), reverse=True)
        for home in dict.fromkeys([*own, *self._readers(eq, wanted)]):
            target = self.groups[home]
            if max(sources, default=home) - home > FAR and self._waits_badly(home):
                continue
            if target.domain is None or _fits(wanted, target.domain) is None:
                continue
            if (is_checked and target.overwrites) or (is_donated and not is_checked and target.for_checks):
                continue
            if any(a in target.late or (a in viewed and maker.get(a) == home) for a in eq.inputs):
                continue
            if any(s != home and (self.groups[s].needs >> home & 1) for s in sources):
                continue  # an input needs the group: joining would make a circle
            if eq.outs[0] in self.written and len(self.written & self.results[home]) >= MOST_WRITTEN:
                continue
            operands = len(self.operands[home].union(_operands(eq))) - len(self.results[home]) // 2
            if operands <= MOST_OPERANDS:
                return home
        return None

    def _readers(self, eq: Equation, wanted: Shape) -> list[int]:
        """Return the last few groups that read an array this equation reads: the array is then read once."""
        arrays = {a for a in eq.inputs if a.shape == wanted}
        recent = range(len(self.groups) - 1, max(len(self.groups) - 8, -1), -1)
        return [i for i in recent if self.groups[i].domain == wanted and not arrays.isdisjoint(self.inputs[i])]

    def _waits_badly(self, i: int) -> bool:
        """Tell whether a group reads several computed arrays, which would have to be kept until it runs."""
        domain = self.groups[i].domain
        return sum(a.shape == domain and a in self.maker for a in self.inputs[i] - self.results[i]) > 1

    def _can_merge(self, home: int, other: int) -> bool:
        """Tell whether two groups with results that one equation combines can be one loop."""
        a, b = self.groups[home], self.groups[other]
        if a.domain is None or b.domain != a.domain or a.late or b.late:
            return False
        if (a.for_checks and b.overwrites) or (b.for_checks and a.overwrites):
            return False
        if home - other > FAR and self._waits_badly(other):
            return False
        if a.needs >> other & 1 or b.needs >> home & 1:
            return False
        return len(a.equations) + len(b.equations) <= MOST_OPERANDS

    def _merge(self, home: int, other: int) -> None:
        """Move the equations of one group to another; the emptied group stays, so that numbers keep their meaning."""
        a, b = self.groups[home], self.groups[other]
        a.equations = [*b.equations, *a.equations]
        a.needed |= b.needed
        a.for_checks |= b.for_checks
        a.overwrites |= b.overwrites
        _add_needs(self.groups, home, b.needs)
        for g in self.groups if b.needed else ():
            if g.needs >> other & 1:
                g.needs = g.needs & ~(1 << other) | 1 << home | a.needs
        b.equations, b.needs, b.domain = [], 0, None
        for of_groups in (self.inputs, self.results, self.operands):
            of_groups[home] |= of_groups[other]
        self.maker.update(dict.fromkeys(self.made[other], home))
        self.made[home] += self.made.pop(other)


def _checked(program: Program) -> set[Atom]:
    """Return what the checks of a program depend on."""
    found: set[Atom] = set()
    for eq in reversed(program.equations):
        if eq.op.kind == "effect" or not found.isdisjoint(eq.outs):
            found.update(eq.inputs)
    return found


def _operands(eq: Equation) -> list[Atom]:
    return [a for a in (*eq.inputs, *eq.outs) if isinstance(a, Var) or a.shape]


def _add_needs(groups: list[Group], home: int, needed: int) -> None:
    """Say that a group needs others, and so do the groups that need it."""
    if needed & ~groups[home].needs:
        for other in groups if groups[home].needed else [groups[home]]:
            if other is groups[home] or other.needs >> home & 1:
                other.needs |= needed


def _ordered(groups: list[Group]) -> list[Group]:
    """Return the groups so that each comes after those it needs: checks of values first, otherwise as they were.

    A check that fails leaves everything as it was, and what comes after the last one needs no Python.
    """
    early = 0
    for i, g in enumerate(groups):
        if any(eq.op.kind == "effect" for eq in g.equations):
            early |= g.needs | 1 << i
    done, order, waiting = 0, [], [i for i, g in enumerate(groups) if g.equations]
    waiting.sort(key=lambda i: not early >> i & 1)
    while waiting:
        ready = next((i for i in waiting if not groups[i].needs & ~done), None)
        assert ready is not None, "groups need each other"
        waiting.remove(ready)
        order.append(groups[ready])
        done |= 1 << ready
    return order
