"""Sums that are zero whatever the values: of what is left of a softmax's gradient, or of deviations from a mean.

Code that subtracts the largest score before it takes the exponential has a gradient for that maximum which is zero but
for rounding. So is a part of the gradient of the mean in a batch norm. A person leaves these out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minigrad.emit.algebra import Product, exact, merged
from minigrad.emit.building import MEAN, SUM
from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program
from minigrad.rewriter import Rewriter
from minigrad.shapes import Shape, kept_shape, normal_axes, reduced_count
from minigrad.simplify import ADD, BROADCAST, DIVIDE, MULTIPLY, NEGATIVE, RESHAPING, SUBTRACT

__all__ = ["without_vanishing_sums"]

MOST_TERMS = 8  # of what is multiplied out
SQUARE = OPS[np.square]


def without_vanishing_sums(program: Program) -> Program:
    """Return the program with zeros for sums of the backward pass that vanish."""
    r = _Sums(program)
    for eq in program.equations:
        if eq.op in (SUM, ADD, SUBTRACT) and eq.of is not None and r.vanishes(eq):
            r.let(eq.outs[0], Const(np.zeros(eq.outs[0].shape, eq.outs[0].dtype)))
        else:
            r.keep(eq)
    return r.done()


class _Sums(Rewriter):
    """Multiplies out. The sum of a product over some axes is an atom of its own: ("sum", axes, shape, product)."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.known: dict[Atom, list[Product]] = {}

    def vanishes(self, eq: Equation) -> bool:
        """Tell whether the terms of a sum cancel."""
        eq = replace(eq, inputs=tuple(map(self.now, eq.inputs)))
        return eq.outs[0].dtype.kind in "fc" and (self.summed(eq) if eq.op is SUM else self.opened(eq)) == []

    def terms(self, x: Atom) -> list[Product]:
        """Return x as a sum of products."""
        if isinstance(x, Const):
            number = exact(x.value)
            return [Product(powers={x: 1}) if number is None else Product(number)]
        if x not in self.known:
            eq = self.made.get(x)
            found = None if eq is None or eq.several or x.dtype.kind not in "fc" else self.opened(eq)
            self.known[x] = found if found is not None and len(found) <= MOST_TERMS else [Product(powers={x: 1})]
        return self.known[x]

    def opened(self, eq: Equation) -> list[Product] | None:
        """Return what an equation computes as a sum of products, or None if it is no arithmetic."""
        a, b = eq.inputs[0], eq.inputs[-1]
        if eq.op in (ADD, SUBTRACT):
            return merged([*self.terms(a), *(t.times(1 if eq.op is ADD else -1) for t in self.terms(b))])
        if eq.op is MULTIPLY:
            return merged([s * t for s in self.terms(a) for t in self.terms(b)])
        if eq.op is DIVIDE:
            below = self.terms(b)
            below = below if len(below) == 1 and below[0].number.value else [Product(powers={b: 1})]
            return [t / below[0] for t in self.terms(a)]
        if eq.op is NEGATIVE:
            return [t.times(-1) for t in self.terms(a)]
        if eq.op in RESHAPING or eq.op is BROADCAST:
            made = self.made.get(a)  # type: ignore[arg-type]
            if made is not None and made.op in (SUM, MEAN) and eq.outs[0].shape == _kept(made):
                return self.summed(made)
            stretches = eq.op is BROADCAST and len(a.shape) == len(eq.outs[0].shape)
            return self.terms(a) if stretches else None
        if eq.op in (SUM, MEAN):
            axes = normal_axes(eq.params.get("axis"), len(a.shape))
            is_aligned = eq.params.get("keepdims") or axes == tuple(range(len(axes)))
            return self.summed(eq) if is_aligned else None
        return None

    def summed(self, eq: Equation) -> list[Product] | None:
        """Return a sum or a mean as a sum of products."""
        x, where = eq.inputs[:2]
        shape, axes = x.shape, normal_axes(eq.params.get("axis"), len(x.shape))
        n = exact(reduced_count(shape, axes))
        if set(eq.params) - {"axis", "keepdims"} or not isinstance(where, Const) or where.value is not True:
            return None
        if n is None or not n.value:
            return None
        found = []
        for term in self.terms(x):
            outer = {a: p for a, p in term.powers.items() if _is_constant(_shape(a), shape, axes)}
            inner = Product(powers={a: p for a, p in term.powers.items() if a not in outer})
            total: Any = ("sum", axes, kept_shape(shape, axes), inner.key)
            result = Product(term.number, outer) * (Product(powers={total: 1}) if inner.powers else Product(n))
            found.append(result / Product(n) if eq.op is MEAN else result)
        return merged(found)


def _shape(atom: Any) -> Shape:
    return atom[2] if isinstance(atom, tuple) else atom.shape  # type: ignore[no-any-return]


def _is_constant(shape: Shape, whole: Shape, axes: tuple[int, ...]) -> bool:
    """Tell whether an array of a shape is the same along axes of the whole, with which it is broadcast."""
    lengths = (1,) * (len(whole) - len(shape)) + shape
    return all(lengths[axis] == 1 for axis in axes)


def _kept(eq: Equation) -> Shape:
    return kept_shape(eq.inputs[0].shape, eq.params.get("axis"))
