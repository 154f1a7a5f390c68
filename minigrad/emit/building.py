"""Writing equations for sums of products, as a person would write the formula."""

from __future__ import annotations

from math import prod

import numpy as np

from minigrad.emit.algebra import Product, natural_dtype, natural_shape
from minigrad.emit.reading import RECIPROCAL, Count, Reader, is_named, is_scalar, is_unnamed_number
from minigrad.op import OPS, Op
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.shapes import normal_axes
from minigrad.simplify import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT

__all__ = ["MEAN", "SUM", "Builder"]

SUM, MEAN = OPS[np.sum], OPS[np.mean]


class Builder(Reader):
    """Makes equations for sums and products.

    Parameters
    ----------
    program
        The old program.
    final
        This is the last pass: the number of elements of an average becomes a number like any other.
    """

    def __init__(self, program: Program, final: bool = False) -> None:
        super().__init__(program)
        self.final = final
        self.known = _known_products(program)

    def with_known(self, product: Product) -> Product:
        """Refer to a value of the forward pass instead of computing it again."""
        for value, known in self.known:
            while value not in product.powers and all(
                abs(product.powers.get(a, 0)) >= abs(p) and product.powers[a] * p > 0 for a, p in known.powers.items()
            ):
                product = product / known * Product(powers={value: 1})
        return product

    def with_means(self, product: Product, like: Equation) -> Product:
        """Turn a sum over n elements, divided by n, into a mean."""
        for x in list(product.powers):
            eq = self.opened(x, {SUM})
            if eq is None or product.powers[x] != 1:
                continue
            array = eq.inputs[0]
            n = prod(array.shape[i] for i in normal_axes(eq.params.get("axis"), len(array.shape)))
            count = self.atom(Const(Count(n)))
            if product.powers.get(count, 0) < 0:
                mean = Var(x.shape, x.dtype)
                self.emit(MEAN, eq.inputs, mean, like, **eq.params)
                product = product * Product(powers={mean: 1, count: 1}) / Product(powers={x: 1})
        return product

    def sum(self, terms: list[Product], like: Equation) -> Atom:
        """Return a new variable for a sum; what is added comes first, what is subtracted after it."""
        added = [t for t in terms if t.number.value > 0]
        taken = [t for t in terms if t.number.value < 0]
        first, *more = added or taken
        total = self.build(first, like)
        for term in more:
            if added:
                total = self.binary(ADD, total, self.build(term, like), like)
            else:
                total = self.binary(SUBTRACT, total, self.build(term.times(-1), like), like)
        for term in taken if added else []:
            total = self.binary(SUBTRACT, total, self.build(term.times(-1), like), like)
        return total

    def build(self, product: Product, like: Equation) -> Atom:
        """Return a new variable for a product."""
        product = self.with_means(product, like)
        number = product.number.value
        top, bottom = (number, 1) if product.number.decimal else (number.numerator, number.denominator)
        above = [x for x, power in product.powers.items() for _ in range(power)]
        below = [x for x, power in product.powers.items() for _ in range(-power)]
        counts = [x for x in below if isinstance(x, Const) and isinstance(x.value, Count)]
        below = [x for x in below if x not in counts]
        if self.final:
            bottom *= prod(int(x.value) for x in counts)
            counts = []
        numbers = [x.value for x in above if is_unnamed_number(x)]  # type: ignore[union-attr]
        above = sorted((x for x in above if not is_unnamed_number(x)), key=self.place)
        total: Atom | None = None
        if numbers:
            total = Const(numbers[0] if len(numbers) == 1 and top == 1 else prod(numbers) * float(top))
        elif abs(top) != 1 or not above:
            total = Const(float(top) if product.number.decimal else int(top))
        elif top == -1:
            total = self.unary(NEGATIVE, above.pop(0), like)
        for x in above:
            total = x if total is None else self.binary(MULTIPLY, total, x, like)
        divisor: Atom | None = Const(int(bottom)) if bottom != 1 else None
        for x in below:
            divisor = x if divisor is None else self.binary(MULTIPLY, divisor, x, like)
        assert total is not None
        for x in counts if divisor is None else [divisor, *counts]:
            total = self.binary(DIVIDE, total, x, like)
        return total

    def place(self, x: Atom) -> int:
        """Return where in a product x stands: first what has a name, then what is a formula."""
        if isinstance(x, Const) and isinstance(x.value, complex):
            return 2  # Python's complex * np.float64 is Python's complex: no array
        return int(self.uses[x] <= 1 and x in self.made and not is_named(x))

    def binary(self, op: Op, a: Atom, b: Atom, like: Equation) -> Atom:
        """Return a new variable for an operation on two atoms."""
        if isinstance(a, Const) and isinstance(b, Const) and is_scalar(a) and is_scalar(b):
            return Const(op.function(a.value, b.value).item())
        dtype = natural_dtype((a, b), division=op is DIVIDE)
        return self.emit(op, (a, b), Var(natural_shape((a, b)), dtype), like)

    def unary(self, op: Op, x: Atom, like: Equation) -> Atom:
        """Return a new variable for an operation on an atom."""
        if isinstance(x, Const) and is_scalar(x):
            return Const(-x.value)
        return self.emit(op, (x,), Var(x.shape, x.dtype), like)


def _known_products(program: Program) -> list[tuple[Var, Product]]:
    """Return the quotients and products that the forward pass computes, each with its variable."""
    quotients, products = [], []
    for eq in program.equations:
        if eq.of is not None or eq.several or eq.outs[0].dtype.kind not in "fc":
            continue
        a, b = eq.inputs[0], eq.inputs[-1]
        if eq.op is RECIPROCAL or (eq.op is DIVIDE and is_scalar(a) and a.value == 1 and isinstance(b, Var)):  # type: ignore[union-attr]
            quotients.append((eq.outs[0], Product() / Product(powers={b: 1})))
        elif isinstance(a, Var) and isinstance(b, Var) and a is not b:
            if eq.op is DIVIDE:
                quotients.append((eq.outs[0], Product(powers={a: 1}) / Product(powers={b: 1})))
            elif eq.op is MULTIPLY:
                products.append((eq.outs[0], Product(powers={a: 1, b: 1})))
    return quotients + products
