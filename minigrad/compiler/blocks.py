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

from minigrad.compiler.ops import is_scalar
from minigrad.compiler.plan import Plan
from minigrad.compiler.rowfuse import Group
from minigrad.program import Atom, Var
from minigrad.shapes import Shape

__all__ = ["Blocks"]

BLOCK = 1 << 16  # elements: a few arrays of as many float32 fit in a second-level cache of 1 or 2 MB
ALIGNMENT = 64


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
        self.parts = list(_parts(self.domain))
        self.largest = tuple(part.stop - part.start for part in self.parts[0])
        self.slots, self.scratch_bytes = self._slots()

    def _slots(self) -> tuple[dict[Var, int], int]:
        """Return where in scratch memory each inner result begins, and the bytes needed."""
        last = {a: i for i, eq in enumerate(self.group.equations) for a in eq.inputs}
        free: dict[int, list[int]] = {}
        slots: dict[Var, int] = {}
        inside = set(self.inside)
        total = 0
        for i, eq in enumerate(self.group.equations):
            for out in inside.intersection(eq.outs):
                n = self._bytes(out)
                if free.get(n):
                    slots[out] = free[n].pop()
                else:
                    slots[out], total = total, total + n
            for a in {*eq.inputs, *eq.outs} & inside:
                if last.get(a, i) == i:
                    free.setdefault(self._bytes(a), []).append(slots[a])  # type: ignore[index]
        return slots, total

    def _bytes(self, atom: Atom) -> int:
        n = prod(_shape(atom.shape, self.domain, self.largest)) * atom.dtype.itemsize
        return -(-n // ALIGNMENT) * ALIGNMENT

    def arrays(self, part: tuple[slice, ...], scratch: np.ndarray) -> Callable[[Atom], Any]:
        """Return a function that gives the array of an atom in a block."""
        lengths = tuple(s.stop - s.start for s in part)
        made: dict[Atom, Any] = {}

        def array(atom: Atom) -> Any:
            if is_scalar(atom):
                return atom.value  # type: ignore[union-attr]
            if atom not in made:
                if atom in self.whole:
                    missing = len(self.domain) - len(atom.shape)
                    index = [s if n != 1 else slice(None) for n, s in zip(atom.shape, part[missing:], strict=False)]
                    made[atom] = self.whole[atom][(*index, ...)]
                else:
                    shape = _shape(atom.shape, self.domain, lengths)
                    start = self.slots[atom]  # type: ignore[index]
                    n = prod(shape) * atom.dtype.itemsize
                    made[atom] = scratch[start : start + n].view(atom.dtype).reshape(shape)
            return made[atom]

        return array


def _parts(domain: Shape) -> Iterator[tuple[slice, ...]]:
    """Yield the leading axes of each block: single ones of the outer axes, spans of the last of them."""
    axis = 0
    while axis < len(domain) - 2 and prod(domain[axis + 1 :]) > BLOCK:
        axis += 1
    rows = max(1, BLOCK // max(prod(domain[axis + 1 :]), 1)) if axis < len(domain) - 1 else domain[axis]
    spans = [slice(i, min(i + rows, domain[axis])) for i in range(0, domain[axis], rows)]
    for outer in itertools.product(*(range(n) for n in domain[:axis])):
        for span in spans:
            yield (*(slice(i, i + 1) for i in outer), span)


def _shape(shape: Shape, domain: Shape, lengths: tuple[int, ...]) -> Shape:
    """Return the shape of an array in a block whose leading axes have these lengths."""
    missing = len(domain) - len(shape)
    lead = lengths[missing:]
    return (*(min(n, m) for n, m in zip(shape, lead, strict=False)), *shape[len(lead) :])
