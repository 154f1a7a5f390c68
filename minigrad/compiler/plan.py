"""The plan of a program: steps in order, a view for every variable, and one piece of memory that they share.

A buffer lives from the step that writes it to the last one that reads it; buffers whose lives do not overlap share
memory. Nothing is allocated when the program runs, except what it returns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod

import numpy as np

from minigrad.compiler.layout import Buffer, Orders, View, contiguous, look, ordered
from minigrad.compiler.ops import VIEWS
from minigrad.compiler.recompute import recompute
from minigrad.compiler.rowfuse import Group, group, stages
from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.zero import zero_stays_zero

__all__ = ["SMALL", "Plan", "plan"]

CONCATENATE, MATMUL, WHERE = OPS[np.concatenate], OPS[np.matmul], OPS[np.where]
ALIGNMENT = 64  # bytes: a cache line, and the widest vector
SMALL = 1 << 16  # bytes: an argument or a result up to this size is copied, a larger one is used where it lies
LARGE = 2_000_000  # bytes: more than the caches of a core hold


@dataclass
class Plan:
    """What a backend needs to run a program."""

    program: Program
    groups: list[Group]
    views: dict[Atom, View]
    arena: int  # bytes
    outside: dict[Group, list[Var]] = field(default_factory=dict)  # results of a group that others need

    def __str__(self) -> str:
        lines = [f"{self.program.name}: {len(self.groups)} steps, {self.arena / 1e6:.2f} MB"]
        for i, g in enumerate(self.groups):
            ops = " ".join(eq.op.name.removeprefix("np.") for eq in g.equations)
            lines.append(f"  {i:4}  {g.domain or g.equations[0].outs[0].shape!s:24} {ops}")
        return "\n".join(lines)


def plan(program: Program, orders: Orders, kernels: bool = True, donated: dict[Atom, Var] | None = None) -> Plan:
    """Plan a lowered program.

    Parameters
    ----------
    orders
        Arrays that are kept in another order than C order, from `materialise`.
    kernels
        Whether row programs become kernels, which may reduce over their rows, and for which computing an element
        again costs less than fetching it from memory. With NumPy that only pays for large arrays.
    donated
        Outputs that are written into inputs, which the program may overwrite.
    """
    groups = group(program, sums=kernels, donated=donated or ())
    recompute(program, groups, least=0 if kernels else LARGE)
    views: dict[Atom, View] = {v: contiguous(v.shape, Buffer(v.dtype, prod(v.shape), "input")) for v in program.inputs}
    step_of = {out: i for i, g in enumerate(groups) for out in g.results}
    joined = _written_in_place(program, groups, step_of)
    alone = Counter(a for eq in program.equations for a in eq.inputs)

    def place(atom: Atom) -> View:
        if atom not in views:
            if isinstance(atom, Const):
                views[atom] = contiguous(atom.shape, Buffer(atom.dtype, prod(atom.shape), "constant"))
            elif atom in joined:
                whole, axis, start = joined[atom]
                whole_view = place(whole)
                stride = whole_view.strides[axis]
                views[atom] = View(
                    whole_view.buffer, whole_view.offset + start * stride, atom.shape, whole_view.strides
                )
            else:
                views[atom] = ordered(atom, Buffer(atom.dtype, prod(atom.shape), "arena"), orders)
        return views[atom]

    for eq in program.equations:
        if eq.op in VIEWS and not eq.several:
            seen = look(eq, place(eq.inputs[0]))
            assert seen is not None, "materialise() left a reshape that copies"
            views[eq.outs[0]] = seen
        else:
            if (
                eq.op is zero_stays_zero
                and not kernels
                and alone[eq.inputs[1]] == 1
                and eq.inputs[1].shape == eq.outs[0].shape
            ):
                views[eq.outs[0]] = place(eq.inputs[1])  # NumPy corrects it in place, in the rare case
            for out in eq.outs:
                place(out)
            for atom in eq.inputs:
                place(atom)
    for atom in program.outputs:
        place(atom)

    result = Plan(program, groups, views, 0)
    _find_outside(result, step_of)
    _live(result)
    _donate(result, donated or {}, step_of)
    if kernels:
        _set_results_apart(result)
    _allocate(result)
    return result


def _written_in_place(
    program: Program, groups: list[Group], step_of: dict[Var, int]
) -> dict[Var, tuple[Var, int, int]]:
    """Return the parts of concatenations that can be computed where the whole lies: (whole, axis, start)."""
    users: dict[Atom, list[Equation]] = {}
    for eq in program.equations:
        for a in eq.inputs:
            users.setdefault(a, []).append(eq)
    joined: dict[Var, tuple[Var, int, int]] = {}
    for eq in program.equations:
        if eq.op is not CONCATENATE or eq.params.get("axis", 0) is None:
            continue
        whole = eq.outs[0]
        axis = eq.params.get("axis", 0) % len(whole.shape)
        if any(
            not isinstance(a, Var)
            or a not in step_of
            or not (groups[step_of[a]].domain is not None or groups[step_of[a]].equations[0].op is MATMUL)
            or len(users[a]) > 1
            or a in joined
            or a.dtype != whole.dtype
            or a in program.outputs
            for a in eq.inputs
        ) or len(set(eq.inputs)) < len(eq.inputs):
            continue
        start = 0
        for a in eq.inputs:
            joined[a] = (whole, axis, start)  # type: ignore[index]
            start += a.shape[axis]
    return joined


def _find_outside(p: Plan, step_of: dict[Var, int]) -> None:
    """Note which results of each group are needed outside it: only those need memory."""
    inside: dict[Var, set[int]] = {}
    for i, g in enumerate(p.groups):
        for eq in g.equations:
            for a in eq.inputs:
                if isinstance(a, Var):
                    inside.setdefault(a, set()).add(i)
    needed: set[Var] = {a for a in p.program.outputs if isinstance(a, Var)}
    for eq in p.program.equations:
        if eq.op in VIEWS and not eq.several:
            needed.update(a for a in eq.inputs if isinstance(a, Var))
    for i, g in enumerate(p.groups):
        p.outside[g] = [
            v for v in g.results if g.domain is None or v in needed or v in g.late or inside.get(v, set()) - {i}
        ]


def _live(p: Plan) -> None:
    """Find the first and the last step of every buffer."""
    end = len(p.groups)
    for i, g in enumerate(p.groups):
        internal = set(g.results) - set(p.outside[g])
        for eq in g.equations:
            for atom in (*eq.inputs, *eq.outs):
                if atom in internal or atom not in p.views:
                    continue
                buffer = p.views[atom].buffer
                buffer.first = i if buffer.first < 0 else min(buffer.first, i)
                buffer.last = max(buffer.last, i)
    for atom in p.program.outputs:
        buffer = p.views[atom].buffer
        buffer.first, buffer.last = max(buffer.first, 0) if buffer.first >= 0 else 0, end


def _donate(p: Plan, donated: dict[Atom, Var], step_of: dict[Var, int]) -> None:
    """Let outputs be computed in the memory of inputs that nothing reads later; leave alone those that cannot be."""
    checks = [i for i, g in enumerate(p.groups) if any(eq.op.kind == "effect" for eq in g.equations)]
    tenants: dict[Buffer, list[Atom]] = {}
    for atom, v in p.views.items():
        tenants.setdefault(v.buffer, []).append(atom)
    for output, given in donated.items():
        view, target = p.views[output], p.views[given]
        home = step_of.get(output)  # type: ignore[arg-type]
        if home is not None and home < max(checks, default=0):
            continue  # a check that depends on the output, and leaves everything as it was if it fails
        if home is None or view.buffer.kind != "arena" or not view.is_contiguous:
            continue
        if view.buffer.size != target.buffer.size or target.buffer.last > home or p.groups[home].domain is None:
            continue
        if _is_read_before(p, p.groups[home], output, target.buffer, view):
            for atom in tenants[view.buffer]:
                v = p.views[atom]
                p.views[atom] = View(target.buffer, v.offset, v.shape, v.strides)


def _is_read_before(p: Plan, group: Group, output: Atom, buffer: Buffer, view: View) -> bool:
    """Tell whether a group reads each element of a buffer before it writes the output there."""
    stage = stages(group)
    writer = next(i for i, eq in enumerate(group.equations) if output in eq.outs)
    for i, eq in enumerate(group.equations):
        for a in eq.inputs:
            if a not in p.views or p.views[a].buffer is not buffer:
                continue
            if i > writer or stage[eq.outs[0]] > stage[output]:
                return False
            if i == writer and eq.op in (WHERE, zero_stays_zero):  # NumPy writes these in two passes
                return False
            if p.views[a].shape != view.shape or not p.views[a].is_contiguous:
                return False
    return True


def _set_results_apart(p: Plan) -> None:
    """Give large results memory of their own, which the caller may get: a copy takes as long as many kernels."""
    outputs = Counter(p.views[atom].buffer for atom in p.program.outputs)
    for atom in p.program.outputs:
        view = p.views[atom]
        b = view.buffer
        if (
            b.kind == "arena"
            and outputs[b] == 1
            and b.size * b.dtype.itemsize > SMALL
            and view.is_same(contiguous(view.shape, b))
            and prod(view.shape) == b.size
        ):
            b.kind = "result"


def _allocate(p: Plan) -> None:
    """Give every arena buffer its place: the lowest that is free during its whole life, the largest first."""
    buffers = dict.fromkeys(v.buffer for v in p.views.values() if v.buffer.kind == "arena" and v.buffer.first >= 0)
    sizes = {b: -(-b.size * b.dtype.itemsize // ALIGNMENT) * ALIGNMENT for b in buffers}
    placed = np.zeros((4, len(buffers)), np.int64)  # first and last step, start and end: many are compared at once
    for i, b in enumerate(sorted(buffers, key=lambda b: (-sizes[b], b.first))):
        first, last, starts, ends = placed[:, :i]
        meets = np.flatnonzero((first <= b.last) & (b.first <= last))
        meets = meets[np.argsort(starts[meets])]
        below = np.maximum.accumulate(np.append(0, ends[meets]))  # how far those before each reach, and all
        fits = below[:-1] + sizes[b] <= starts[meets]
        b.start = int(below[np.argmax(fits) if fits.any() else -1])
        placed[:, i] = b.first, b.last, b.start, b.start + sizes[b]
    p.arena = int(placed[3].max(initial=0))
