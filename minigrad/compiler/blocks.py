"""A row program with NumPy: all its equations on a block of rows that fits in the cache, then on the next block.

What no other step needs lives in a piece of scratch memory of the size of a block, and is written over as soon as
its last reader has run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from minigrad.compiler.ops import ELEMENTWISE, is_scalar
from minigrad.compiler.plan import Plan
from minigrad.compiler.rowfuse import Group
from minigrad.op import OPS
from minigrad.program import Atom, Equation
from minigrad.shapes import Shape
from minigrad.zero import zero_stays_zero

__all__ = ["Blocks", "Part"]

BLOCK = 1 << 16  # elements: a few arrays of as many float32 fit in a second-level cache of 1 or 2 MB
ALIGNMENT = 64
Part = tuple[slice, ...]  # of the leading axes


class Blocks:
    """The blocks of a group, and the arrays of each.

    Parameters
    ----------
    array
        Returns the whole array of an atom that has memory of its own.
    """

    def __init__(self, plan: Plan, group: Group, array: Callable[[Atom], Any]) -> None:
        assert group.domain is not None
        self.domain = group.domain
        self.group = group
        self.whole: dict[Atom, Any] = {}
        outside = set(plan.outside[group])
        self.inside = [out for eq in group.equations for out in eq.outs if out not in outside]
        for atom in {a for eq in group.equations for a in (*eq.inputs, *eq.outs)}.difference(self.inside):
            self.whole[atom] = array(atom)
        self.axis = next((i for i, n in enumerate(self.domain[:-1]) if n > 1), 0)  # along which it can be shared out
        ((_, blocks),) = self.shares(1)
        self.largest = tuple(part.stop - part.start for part in blocks[0])
        self.slots, self.scratch_bytes = self._slots()

    def shares(self, most: int) -> list[tuple[Part, list[Part]]]:
        """Return what each of several threads computes, as one part and as blocks of it: rows of the outermost axis."""
        n = self.domain[self.axis]
        shares = min(most, n) if len(self.domain) > 1 else 1
        limit = BLOCK if len(self.group.equations) > 1 else prod(self.domain)  # one equation is one pass anyway
        result = []
        for i in range(shares):
            span = slice(n * i // shares, n * (i + 1) // shares)
            whole = (*(slice(0, 1) for _ in self.domain[: self.axis]), span)
            result.append((whole, list(_parts(self.domain, self.axis, span, limit))))
        return result

    def _slots(self) -> tuple[dict[Atom, int], int]:
        """Return where in scratch memory each inner result begins, and the bytes needed."""
        last = {a: i for i, eq in enumerate(self.group.equations) for a in eq.inputs}
        free: dict[int, list[int]] = {}
        slots: dict[Atom, int] = {}
        inside: set[Atom] = set(self.inside)
        taken: set[Atom] = set()
        total = 0
        for i, eq in enumerate(self.group.equations):
            for out in inside.intersection(eq.outs):
                n = self._bytes(out)
                over = next((a for a in _may_be_overwritten(eq) if a in inside and last[a] == i), None)
                if over is not None:
                    slots[out] = slots[over]
                    taken.add(over)
                elif free.get(n):
                    slots[out] = free[n].pop()
                else:
                    slots[out], total = total, total + n
            for a in ({*eq.inputs, *eq.outs} & inside) - taken:
                if last.get(a, i) == i:
                    free.setdefault(self._bytes(a), []).append(slots[a])
        return slots, total

    def _bytes(self, atom: Atom) -> int:
        n = prod(_shape(atom.shape, self.domain, self.largest)) * atom.dtype.itemsize
        return -(-n // ALIGNMENT) * ALIGNMENT

    def arrays(self, part: Part, scratch: np.ndarray) -> Callable[[Atom], Any]:
        """Return a function that gives the array of an atom in a block."""
        lengths = tuple(s.stop - s.start for s in part)
        made: dict[Atom, Any] = {}

        def array(atom: Atom) -> Any:
            if atom not in made:
                if is_scalar(atom):
                    made[atom] = atom.value  # type: ignore[union-attr]
                elif atom in self.whole:
                    missing = len(self.domain) - len(atom.shape)
                    index = [s if n != 1 else slice(None) for n, s in zip(atom.shape, part[missing:], strict=False)]
                    made[atom] = self.whole[atom][(*index, ...)]
                else:
                    shape = _shape(atom.shape, self.domain, lengths)
                    start = self.slots[atom]
                    n = prod(shape) * atom.dtype.itemsize
                    made[atom] = scratch[start : start + n].view(atom.dtype).reshape(shape)
            return made[atom]

        return array


def _may_be_overwritten(eq: Equation) -> list[Atom]:
    """Return the inputs that the result may replace in memory, as NumPy reads each element before it writes it."""
    if eq.op in (OPS[np.where], zero_stays_zero):  # written in two passes, of which the first one copies the last input
        inputs = eq.inputs[-1:]
    else:
        inputs = eq.inputs if eq.op in ELEMENTWISE and len(eq.outs) == 1 else ()
    return [a for a in inputs if a.shape == eq.outs[0].shape and a.dtype == eq.outs[0].dtype and not is_scalar(a)]


def _parts(domain: Shape, shared: int, span: slice, limit: int) -> Iterator[Part]:
    """Yield the leading axes of each block: single ones of the outer axes, spans of the last of them.

    Of the axis that is shared out, before which all are of length 1, no more than a span.
    """
    axis = shared
    while axis < len(domain) - 2 and prod(domain[axis + 1 :]) > limit:
        axis += 1
    rows = max(1, limit // max(prod(domain[axis + 1 :]), 1)) if axis < len(domain) - 1 else domain[axis]
    ranges = [range(n)[span] if i == shared else range(n) for i, n in enumerate(domain)]
    stop = ranges[axis].stop
    for outer in itertools.product(*ranges[:axis]):
        for start in ranges[axis][::rows]:
            yield (*(slice(i, i + 1) for i in outer), slice(start, min(start + rows, stop)))


def _shape(shape: Shape, domain: Shape, lengths: tuple[int, ...]) -> Shape:
    """Return the shape of an array in a block whose leading axes have these lengths."""
    if shape == domain:
        return (*lengths, *shape[len(lengths) :])
    missing = len(domain) - len(shape)
    lead = lengths[missing:]
    return (*(min(n, m) for n, m in zip(shape, lead, strict=False)), *shape[len(lead) :])
