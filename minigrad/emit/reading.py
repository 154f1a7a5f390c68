"""Reading the equations of a backward pass as sums of products."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from minigrad.emit.algebra import Number, Product, exact
from minigrad.op import OPS, Op
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.rewriter import Rewriter
from minigrad.simplify import (
    ADD,
    BROADCAST,
    DIVIDE,
    MULTIPLY,
    NEGATIVE,
    POSITIVE,
    POWER,
    RESHAPE,
    SUBTRACT,
    uses,
)

__all__ = ["PRODUCTS", "SUMS", "Count", "Reader", "is_named", "is_scalar", "is_unnamed_number"]

SQUARE, RECIPROCAL = OPS[np.square], OPS[np.reciprocal]
AVERAGES = {OPS[np.mean], OPS[np.var], OPS[np.std]}
PRODUCTS = {MULTIPLY, DIVIDE, NEGATIVE, POSITIVE, POWER, SQUARE, RECIPROCAL, BROADCAST}
SUMS = {ADD, SUBTRACT}
MOST_FACTORS = 6  # of a formula that takes in a step the user gave a name


class Count(int):
    """How many elements an average is taken over: 1 / n times a sum over n elements is a mean."""


class Reader(Rewriter):
    """Reads what the equations made so far compute.

    A variable that is used once is looked into, so that its equation becomes part of the formula that uses it. One
    that the user's code has a variable for is not if it is a sum: that is a step of its own.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.uses = uses(program)
        self.constants: dict[Any, Const] = {}

    def let(self, old: Var, new: Atom) -> None:
        """Replace, and count the uses together."""
        super().let(old, new)
        self.uses[new] += self.uses[old]

    def atom(self, x: Atom) -> Atom:
        """Return what stands for an atom; equal constants are one."""
        x = self.now(x)
        if isinstance(x, Const):
            array = isinstance(x.value, np.ndarray)
            return self.constants.setdefault(id(x.value) if array else (type(x.value), repr(x.value)), x)
        return x

    def opened(self, x: Atom, ops: set[Op]) -> Equation | None:
        """Return the backward equation that computes x if it may be taken into the formula that uses x."""
        eq = self.made.get(x)  # type: ignore[arg-type]
        if eq is None or eq.of is None or eq.several or eq.op not in ops or self.uses[x] > 1:
            return None
        return eq

    def product(self, x: Atom) -> Product:
        """Return x as a product."""
        x = self.atom(x)
        if isinstance(x, Const):
            number = exact(x.value) if x.name is None else None
            if number is not None:
                return Product(number)
            if x.name is None and type(x.value) is float and x.value < 0:
                return self.product(Const(-x.value)).times(-1)
            if isinstance(x.value, np.ndarray) and x.dtype.kind in "fc" and x.value.size:
                for value in (0, 1):
                    if np.all(x.value == value):
                        return Product(Number(Fraction(value)))
            return Product(powers={x: 1})
        eq = self.opened(x, PRODUCTS)
        if eq is None and (reshaped := self.opened(x, {RESHAPE})) and _adds_axes_before(reshaped):
            return self.product(reshaped.inputs[0])
        if eq is not None:
            inside = self.product_of(eq)
            if x.name is None or x.weak or len(inside.powers) <= MOST_FACTORS:
                return inside
        return self.scaled(x)

    def scaled(self, x: Atom) -> Product:
        """Return x, or the number times an atom that it is: a number costs nothing, and is no step of its own."""
        eq = self.made.get(x)  # type: ignore[arg-type]
        if eq is not None and not eq.several and (eq.of is not None or not is_named(x)):
            a, b = eq.inputs[0], eq.inputs[-1]
            if eq.op is NEGATIVE:
                return Product(powers={self.atom(a): 1}).times(-1)
            if eq.op is MULTIPLY and (is_scalar(a) or is_scalar(b)):
                number, atom = (a, b) if is_scalar(a) else (b, a)
                return self.product(number) * Product(powers={self.atom(atom): 1})
            if eq.op is DIVIDE and is_scalar(b):
                return Product(powers={self.atom(a): 1}) / self.product(b)
        return Product(powers={x: 1})

    def product_of(self, eq: Equation) -> Product:
        """Return what an equation computes as a product."""
        first, second = self.atom(eq.inputs[0]), self.atom(eq.inputs[-1])
        if eq.op is MULTIPLY:
            if eq.of in AVERAGES:
                return self.with_count(first) * self.with_count(second)
            return self.product(first) * self.product(second)
        if eq.op is DIVIDE:
            if eq.of in AVERAGES and isinstance(second, Const) and type(second.value) is int:
                second = Const(Count(second.value))
            return self.product(first) / self.product(second)
        if eq.op is NEGATIVE:
            return self.product(first).times(-1)
        if eq.op is SQUARE:
            return self.product(first) * self.product(first)
        if eq.op is RECIPROCAL:
            return Product() / self.product(first)
        if eq.op is POWER:
            base, exponent = self.product(first), second.value if isinstance(second, Const) else None
            if type(exponent) in (int, float) and exponent in (1, 2, 3):
                return base if exponent == 1 else base * base if exponent == 2 else base * base * base
            return Product(powers={eq.outs[0]: 1})
        return self.product(first)  # BROADCAST and POSITIVE

    def with_count(self, x: Atom) -> Product:
        """Return a number such as 0.4, the 2 / n in the adjoint of np.var, as a quotient by the number of elements."""
        n = round(2 / x.value) if isinstance(x, Const) and type(x.value) is float and x.value > 0 else 0
        if n and 2 / n == x.value:  # type: ignore[union-attr]
            return Product(Number(Fraction(2))) / Product(powers={self.atom(Const(Count(n))): 1})
        return self.product(x)

    def terms(self, eq: Equation) -> list[Product]:
        """Return what an equation computes as a sum of products."""
        if eq.op not in SUMS:
            return self.distributed(self.product_of(eq))
        left, right = (self.addend(a) for a in eq.inputs)
        return left + [t.times(-1 if eq.op is SUBTRACT else 1) for t in right]

    def addend(self, x: Atom) -> list[Product]:
        """Return an addend, itself a sum perhaps, as terms."""
        x = self.atom(x)
        eq = self.opened(x, SUMS)
        if eq is not None and not is_named(x):
            return self.terms(eq)
        return self.distributed(self.product(x))

    def distributed(self, product: Product) -> list[Product]:
        """Return the terms of -(a + b)."""
        if len(product.powers) == 1 and abs(product.number.value) == 1:
            ((x, power),) = product.powers.items()
            eq = self.opened(x, SUMS)
            if eq is not None and power == 1 and not is_named(x):
                return [t.times(int(product.number.value)) for t in self.terms(eq)]
        return [product]


def _adds_axes_before(eq: Equation) -> bool:
    """Tell whether a reshape only adds axes of length 1 in front, as broadcasting does by itself."""
    before, after = eq.inputs[0].shape, eq.outs[0].shape
    return after == (1,) * (len(after) - len(before)) + before


def is_named(x: Atom) -> bool:
    """Tell whether the user's code has a variable for x."""
    return isinstance(x, Var) and x.name is not None and not x.weak


def is_unnamed_number(x: Atom) -> bool:
    return isinstance(x, Const) and x.name is None and type(x.value) in (int, float)


def is_scalar(x: Atom) -> bool:
    return isinstance(x, Const) and type(x.value) in (int, float, complex)
