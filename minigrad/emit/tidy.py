"""Tidying a backward pass for a reader: the formula a person would write, equal but for rounding.

Only equations of the backward pass are rewritten; the forward pass stays as the user wrote it. Variables that are
used once are taken into the formula that uses them, unless they have a name and are a sum; a value of the forward
pass that occurs in a formula, such as e / total, is referred to; common factors are written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.emit.algebra import Product, common_factor, groups, merged, natural_dtype, natural_shape
from minigrad.emit.building import SUM, Builder
from minigrad.emit.matrices import matrices
from minigrad.emit.parts import parts
from minigrad.emit.reading import PRODUCTS, SUMS
from minigrad.emit.stacking import stacks
from minigrad.emit.vanishing import without_vanishing_sums
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.shapes import kept_shape, normal_axes
from minigrad.simplify import BROADCAST, simplify

__all__ = ["tidy"]

MOST_ROUNDS = 12  # each takes one more layer of a formula into another


def tidy(program: Program) -> Program:
    """Return the program of an adjoint in the form that a person would write."""
    before: list[Any] = []
    program = stacks(program)
    for _ in range(MOST_ROUNDS):
        program = simplify(_Arithmetic(simplify(matrices(without_vanishing_sums(parts(program))))).rewritten())
        now = [(eq.op, len(eq.inputs)) for eq in program.equations]
        if now == before:
            break
        before = now
    return simplify(_Arithmetic(program, final=True).rewritten())


class _Arithmetic(Builder):
    """One pass over the sums and products of a backward pass."""

    def rewritten(self) -> Program:
        """Return the program with its sums and products in normal form."""
        for eq in self.program.equations:
            if eq.of is None or eq.several or eq.outs[0].dtype.kind not in "fc":
                self.keep(eq)
            elif eq.op in PRODUCTS or eq.op in SUMS:
                self.rebuild(eq)
            elif eq.op is SUM:
                self.pull_out(eq)
            else:
                self.keep(eq)
        return self.done()

    def rebuild(self, eq: Equation) -> None:
        """Write an equation anew from its normal form."""
        out = eq.outs[0]
        terms = [self.with_known(t) for t in merged(self.terms(eq))]
        if any(out in t.powers for t in terms):
            self.keep(eq)
        elif not terms:
            self.let(out, Const(np.zeros(out.shape, out.dtype)))
        elif len(terms) == 1:
            self.product_to(terms[0], eq)
        else:
            common = common_factor(terms)
            if common.powers or common.number.value != 1:
                self.product_to(self.factored(terms, eq), eq)
            else:
                self.finish(self.sum([self.factored(group, eq) for group in groups(terms)], eq), eq)

    def factored(self, terms: list[Product], eq: Equation) -> Product:
        """Return a sum as a product, its common factor times the rest."""
        if len(terms) == 1:
            return terms[0]
        common = common_factor(terms)
        return self.with_known(common * Product(powers={self.sum([t / common for t in terms], eq): 1}))

    def product_to(self, product: Product, eq: Equation) -> None:
        """Compute the result of an equation as a product."""
        self.finish(self.build(product, eq), eq)

    def finish(self, result: Atom, eq: Equation) -> None:
        """Let the result of an equation be `result`, of which the shape may have to be stretched."""
        out = eq.outs[0]
        if result.dtype != out.dtype and not isinstance(result, Const):
            self.keep(eq)
        elif result.shape != out.shape:
            self.emit(BROADCAST, (result,), out, eq, shape=out.shape)
        elif self.equations and self.equations[-1].outs == (result,) and result not in self.uses:
            last = self.equations.pop()
            self.emit(last.op, last.inputs, out, eq, **last.params)
        else:
            self.let(out, result)

    def pull_out(self, eq: Equation) -> None:
        """Take factors that are constant along the summed axes out of a sum."""
        x, out = self.atom(eq.inputs[0]), eq.outs[0]
        axes, keep = normal_axes(eq.params.get("axis"), len(x.shape)), eq.params.get("keepdims", False)
        product = self.with_known(self.product(x))
        outer: dict[Atom, int] = {}
        inner: dict[Atom, int] = {}
        leading = axes == tuple(range(len(axes)))
        for atom, power in product.powers.items():
            lengths = (1,) * (len(x.shape) - len(atom.shape)) + atom.shape
            stays_aligned = keep or atom.shape == () or (leading and len(atom.shape) <= len(out.shape))
            constant = stays_aligned and all(lengths[axis] == 1 for axis in axes)
            (outer if constant else inner)[atom] = power
        shape = natural_shape(inner)
        simple = (
            set(eq.params) <= {"axis", "keepdims"} and isinstance(eq.inputs[1], Const) and eq.inputs[1].value is True
        )
        covers = len(shape) == len(x.shape) and all(shape[axis] == x.shape[axis] for axis in axes)
        if not inner or not simple or not covers or natural_dtype(inner) != out.dtype or not product.number.value:
            self.keep(eq)
            return
        summed = self.build(Product(powers=inner), eq)
        kept = kept_shape(shape, axes)
        total = Var(kept if keep else tuple(n for i, n in enumerate(kept) if i not in axes), out.dtype)
        self.emit(SUM, (summed, eq.inputs[1]), total, eq, **eq.params)
        self.product_to(Product(product.number, outer) * Product(powers={total: 1}), eq)
