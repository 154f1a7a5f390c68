"""Row programs: equations that one loop over rows can compute.

A row program has a domain, the shape its rows lie in: elementwise equations of that shape, equations of one number
per row, and reductions, over the last axis (their result is one number per row, which later equations of the row may
use) or over all the rows (their result is there when the loop has ended).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass, field

from minigrad.compiler.ops import KERNEL_TYPES, REDUCE, VIEWS, fusable
from minigrad.program import Atom, Const, Equation, Program, Var
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
    """Return the stage at which each result is known: one more after each reduction over the elements of a row."""
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
    return found


def _fits(wanted: Shape, domain: Shape) -> Shape | None:
    """Return the domain that serves both, if one does: numbers per row go along with rows of the same shape."""
    if wanted == domain or (wanted[:-1] == domain[:-1] and wanted[-1] == 1):
        return domain
    return wanted if wanted[:-1] == domain[:-1] and domain[-1] == 1 else None


def group(program: Program, sums: bool = True) -> list[Group]:
    """Return the groups of a program in an order in which they can run. Views belong to no group.

    Without `sums`, reductions over the rows are left to NumPy: its result depends on which numbers it adds at a time.
    """
    groups: list[Group] = []
    maker: dict[Var, int] = {}  # the group whose result a variable is, or looks at
    made: dict[int, list[Var]] = defaultdict(list)  # and the variables of which a group is the maker
    domains = [domain_of(eq) for eq in program.equations]
    alone = [eq for eq, d in zip(program.equations, domains, strict=True) if d is None or eq.op in VIEWS]
    written = {a for eq in alone for a in eq.inputs}  # what loops cannot keep to themselves
    viewed: set[Var] = set()
    for eq, domain in zip(program.equations, domains, strict=True):
        sources = {maker[a] for a in eq.inputs if a in maker}
        if eq.op in VIEWS and not eq.several:
            for out in eq.outs:
                viewed.add(out)
                if sources:
                    maker[out] = next(iter(sources))
                    made[maker[out]].append(out)
            continue
        wanted = domain if sums or reduction_axis(eq) not in ("rows", "all") else None
        home = _home(eq, wanted, groups, maker, viewed, sources, written) if wanted is not None else None
        if home is None:
            groups.append(Group(wanted))
            home = len(groups) - 1
        target = groups[home]
        if wanted is not None and target.domain is not None:
            target.domain = _fits(wanted, target.domain)
        if target.domain is not None:
            for s in sorted(sources - {home}):
                combined = any(
                    maker.get(a) == s and a not in viewed and a.shape == groups[s].domain  # type: ignore[arg-type]
                    for a in eq.inputs
                )
                looked = any(maker.get(a) == s and a in viewed for a in eq.inputs)  # type: ignore[arg-type]
                between = any(groups[q].needs >> s & 1 for q in sources)
                if combined and not looked and not between and _can_merge(groups, home, s, maker):
                    _merge(groups, home, s)
                    maker.update(dict.fromkeys(made[s], home))
                    made[home] += made.pop(s)
                    sources = sources - {s} | {home}
        target.equations.append(eq)
        if wanted is not None and reduction_axis(eq) in ("rows", "all"):
            target.late.update(eq.outs)
        needed = 0
        for s in sources - {home}:
            needed |= groups[s].needs | 1 << s
            groups[s].needed = True
        _add_needs(groups, home, needed)
        maker.update(dict.fromkeys(eq.outs, home))
        made[home] += eq.outs
    return _ordered(groups)


def _add_needs(groups: list[Group], home: int, needed: int) -> None:
    """Say that a group needs others, and so do the groups that need it."""
    if needed & ~groups[home].needs:
        for other in groups if groups[home].needed else [groups[home]]:
            if other is groups[home] or other.needs >> home & 1:
                other.needs |= needed


def _can_merge(groups: list[Group], home: int, other: int, maker: dict[Var, int]) -> bool:
    """Tell whether two groups with results that one equation combines can be one loop."""
    a, b = groups[home], groups[other]
    if a.domain is None or b.domain != a.domain or a.late or b.late:
        return False
    if home - other > FAR and _waits_badly(b, maker):
        return False
    if a.needs >> other & 1 or b.needs >> home & 1:
        return False
    return len(a.equations) + len(b.equations) <= MOST_OPERANDS


def _merge(groups: list[Group], home: int, other: int) -> None:
    """Move the equations of one group to another; the emptied group stays, so that numbers keep their meaning."""
    a, b = groups[home], groups[other]
    a.equations = [*b.equations, *a.equations]
    a.needed |= b.needed
    _add_needs(groups, home, b.needs)
    for g in groups:
        if g.needs >> other & 1:
            g.needs = g.needs & ~(1 << other) | 1 << home | a.needs
    b.equations, b.needs, b.domain = [], 0, None


def _home(
    eq: Equation,
    wanted: Shape,
    groups: list[Group],
    maker: dict[Var, int],
    viewed: set[Var],
    sources: set[int],
    written: set[Atom],
) -> int | None:
    """Return the number of the group this equation can join: that of an input, or one that reads the same arrays."""
    own = sorted((maker[a] for a in eq.inputs if a in maker and a not in viewed), reverse=True)
    for home in dict.fromkeys([*own, *_readers(eq, groups, wanted)]):
        target = groups[home]
        if max(sources, default=home) - home > FAR and _waits_badly(target, maker):
            continue
        if target.domain is None or _fits(wanted, target.domain) is None:
            continue
        if any(a in target.late or (a in viewed and maker.get(a) == home) for a in eq.inputs):
            continue
        if any(s != home and (groups[s].needs >> home & 1) for s in sources):
            continue  # an input needs the group: joining would make a circle
        if eq.outs[0] in written and len(written.intersection(target.results)) >= MOST_WRITTEN:
            continue
        if _n_operands(target, eq) <= MOST_OPERANDS:
            return home
    return None


def _waits_badly(group: Group, maker: dict[Var, int]) -> bool:
    """Tell whether a group reads several computed arrays, which would have to be kept until it runs."""
    read = {a for eq in group.equations for a in eq.inputs if a.shape == group.domain and a in maker}
    return len(read.difference(group.results)) > 1


def _readers(eq: Equation, groups: list[Group], wanted: Shape) -> list[int]:
    """Return the last few groups that read an array this equation reads: the array is then read once."""
    arrays = {a for a in eq.inputs if a.shape == wanted}
    if not arrays:
        return []
    recent = range(len(groups) - 1, max(len(groups) - 8, -1), -1)
    return [
        i for i in recent if groups[i].domain == wanted and any(arrays & set(e.inputs) for e in groups[i].equations)
    ]


def _n_operands(target: Group, eq: Equation) -> int:
    atoms = {a for e in (*target.equations, eq) for a in (*e.inputs, *e.outs) if not isinstance(a, Const) or a.shape}
    return len(atoms) - sum(len(e.outs) for e in target.equations) // 2


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
