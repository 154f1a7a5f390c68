"""Gradients of slices, added up piece by piece.

The adjoint of `k[..., a:b, :]` is zeros with a slice filled; of many slices it is a sum of such arrays, each as large
as the whole. Here a sum is a list of pieces along one axis, which lie side by side: the gradient of another slice is
added to the pieces it meets, and the whole is made once, by joining them. So attention a tile at a time touches only
the gradient of the tile, and a recurrence over x[:, t] only that of the step.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.rewriter import Rewriter
from minigrad.rules.index import getitem, scatter

__all__ = ["join_pieces"]

ADD, RESHAPE, BROADCAST, CONCATENATE = (OPS[f] for f in (np.add, np.reshape, np.broadcast_to, np.concatenate))

Piece = tuple[int, int, Atom]  # from, to, and what lies there


@dataclass
class Sum:
    """An array that is zero but for its pieces, which are in order and do not overlap."""

    axis: int
    pieces: list[Piece]
    plain: tuple[Atom, Atom] | None = None  # the two arrays of which it is the sum, where adding them is as cheap


def join_pieces(program: Program) -> Program:
    """Compute sums of gradients of slices by pieces."""
    return _Pieces(program).run()


class _Pieces(Rewriter):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.sums: dict[Atom, Sum] = {}
        self.of: dict[Atom, Equation] = {}

    def run(self) -> Program:
        for eq in self.program.equations:
            if not (eq.op is scatter and len(eq.inputs) == 1 and self._scatter(eq)) and not (
                eq.op is ADD and self._add(eq)
            ):
                for atom in eq.inputs:
                    self._whole(atom, eq)
                self.keep(eq)
        for atom in self.program.outputs:
            if atom in self.sums:
                self._whole(atom, self.of[atom])
        return self.done()

    def _scatter(self, eq: Equation) -> bool:
        """Understand a scatter as a piece, if it fills a slice along one axis."""
        g, out = eq.inputs[0], eq.outs[0]
        found = _slice(eq.params["index"], out.shape)
        if found is None:
            return False
        axis, start, stop = found
        inner = self.sums.get(g)
        if inner is not None and g.shape == out.shape:  # the slice is the whole
            self.sums[out], self.of[out] = inner, eq
            return True
        if inner is not None and inner.axis == axis and len(g.shape) == len(out.shape):
            pieces = [(a + start, b + start, x) for a, b, x in inner.pieces]
        else:
            x = self._whole(g, eq)
            shape = (*out.shape[:axis], stop - start, *out.shape[axis + 1 :])
            if x.shape != shape:  # the gradient of x[:, t], which has an axis less
                x = self.emit(RESHAPE, (x,), Var(shape, out.dtype), eq, shape=shape)
            pieces = [(start, stop, x)]
        self.sums[out], self.of[out] = Sum(axis, pieces), eq
        return True

    def _add(self, eq: Equation) -> bool:
        """Add two sums by pieces, one of which may be an array like any other."""
        out = eq.outs[0]
        sums = [self.sums.get(a) for a in eq.inputs]
        axis = next((s.axis for s in sums if s is not None), None)
        if axis is None or any(a.shape != out.shape or a.dtype != out.dtype for a in eq.inputs):
            return False
        if any(s is not None and s.axis != axis for s in sums):
            return False
        n = out.shape[axis]
        x, y = (s.pieces if s else [(0, n, self.now(a))] for a, s in zip(eq.inputs, sums, strict=True))
        cuts = [_cut_by(x, y), _cut_by(y, x)]
        if sum(map(len, cuts)) > 1:  # windows that slide: their pieces would be small, and many
            return False
        x, y = (self._cut(p, c, axis, eq) for p, c in zip((x, y), cuts, strict=True))
        pieces = {a: (b, atom) for a, b, atom in x}
        for a, b, atom in y:
            if a in pieces:
                both = (pieces[a][1], atom)
                atom = self.emit(ADD, both, Var(atom.shape, out.dtype), eq)
            pieces[a] = (b, atom)
        plain = (eq.inputs[0], eq.inputs[1]) if None in sums else None
        self.sums[out] = Sum(axis, [(a, *pieces[a]) for a in sorted(pieces)], plain)
        self.of[out] = eq
        return True

    def _cut(self, pieces: list[Piece], cuts: list[int], axis: int, like: Equation) -> list[Piece]:
        """Return the pieces, cut at some places."""
        result = []
        for a, b, x in pieces:
            ends = [a, *(c for c in cuts if a < c < b), b]
            for low, high in itertools.pairwise(ends):
                part = x
                if (low, high) != (a, b):
                    index = (*(slice(None),) * axis, slice(low - a, high - a))
                    shape = (*x.shape[:axis], high - low, *x.shape[axis + 1 :])
                    part = self.emit(getitem, (x,), Var(shape, x.dtype), like, index=index)
                result.append((low, high, part))
        return result

    def _whole(self, atom: Atom, like: Equation) -> Atom:
        """Return an array; where it is a sum of pieces, compute it."""
        found = self.sums.pop(atom, None)
        if found is None:
            return self.now(atom)
        assert isinstance(atom, Var)
        made = self.of[atom]
        if found.plain is not None:
            x, y = (self._whole(a, made) for a in found.plain)
            return self.emit(ADD, (x, y), atom, made)
        axis, n = found.axis, atom.shape[found.axis]
        if [(a, b) for a, b, _ in found.pieces] == [(0, n)]:
            self.let(atom, found.pieces[0][2])
            return found.pieces[0][2]
        if len(found.pieces) == 1:
            ((a, b, x),) = found.pieces
            index = (*(slice(None),) * axis, slice(a, b))
            return self.emit(scatter, (x,), atom, made, index=index, shape=atom.shape)
        parts: list[Atom] = []
        for (_, end, _), (start, _, x) in itertools.pairwise([(0, 0, atom), *found.pieces, (n, n, atom)]):
            if end < start:
                shape = (*atom.shape[:axis], start - end, *atom.shape[axis + 1 :])
                zero = Const(atom.dtype.type(0))
                parts.append(self.emit(BROADCAST, (zero,), Var(shape, atom.dtype), made, shape=shape))
            parts.append(x)
        return self.emit(CONCATENATE, tuple(parts[:-1]), atom, made, axis=axis)


def _slice(index: Any, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return axis, start and stop of an index that leaves all axes whole but for at most one; or None."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(i is None or isinstance(i, bool) for i in items) or not shape or 0 in shape:
        return None
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    spans = [range(n)[i if isinstance(i, slice) else slice(i, i + 1 or n)] for i, n in zip(items, shape, strict=False)]
    cut = [axis for axis, (span, n) in enumerate(zip(spans, shape, strict=False)) if span != range(n)]
    cut = cut or [len(shape) - 1]
    axes_less = [axis for axis, i in enumerate(items) if not isinstance(i, slice)]
    if len(cut) > 1 or any(axis not in cut for axis in axes_less):
        return None
    span = spans[cut[0]] if cut[0] < len(spans) else range(shape[cut[0]])
    return (cut[0], span.start, span.stop) if span.step == 1 and span else None


def _cut_by(pieces: list[Piece], others: list[Piece]) -> list[int]:
    """Return where pieces must be cut so that others fit to them."""
    ends = {end for a, b, _ in others for end in (a, b)}
    return [end for end in sorted(ends) if any(a < end < b for a, b, _ in pieces)]
