"""Sums of products: the normal form in which the equations of a backward pass are tidied.

A product is a number times powers of atoms, a sum a list of products. Both are commutative, so that equal terms and
common factors are found by comparing dictionaries. What a reader sees is made from the normal form again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import gcd, lcm
from typing import Any

import numpy as np

from minigrad.program import Atom, Const, Var
from minigrad.shapes import Shape

__all__ = ["Number", "Product", "common_factor", "exact", "groups", "merged", "natural_dtype", "natural_shape"]


@dataclass(frozen=True)
class Number:
    """A coefficient, and whether to write it as a decimal: 0.25 * x, or x / 4."""

    value: Fraction = Fraction(1)
    decimal: bool = False

    def __mul__(self, other: Number) -> Number:
        return Number(self.value * other.value, self.decimal or other.decimal)

    def __truediv__(self, other: Number) -> Number:
        return Number(self.value / other.value, self.decimal or other.decimal)


@dataclass
class Product:
    """A number times powers of atoms."""

    number: Number = field(default_factory=Number)
    powers: dict[Atom, int] = field(default_factory=dict)  # none of them 0, in the order they came

    def __mul__(self, other: Product) -> Product:
        return Product(self.number * other.number, _added(self.powers, other.powers, 1))

    def __truediv__(self, other: Product) -> Product:
        return Product(self.number / other.number, _added(self.powers, other.powers, -1))

    def times(self, value: int) -> Product:
        """Return the product with its number multiplied."""
        return Product(self.number * Number(Fraction(value)), self.powers)

    @property
    def key(self) -> frozenset[tuple[Atom, int]]:
        """What products that differ in their number only have in common."""
        return frozenset(self.powers.items())


def _added(a: dict[Atom, int], b: dict[Atom, int], sign: int) -> dict[Atom, int]:
    powers = dict(a)
    for atom, power in b.items():
        powers[atom] = powers.get(atom, 0) + sign * power
    return {atom: power for atom, power in powers.items() if power}


def exact(x: Any) -> Number | None:
    """Return a Python number as a coefficient if it is a small fraction, as 2, 0.25 or -1.0 are."""
    if type(x) not in (int, float) or x != x or x in (np.inf, -np.inf):
        return None
    value = Fraction(x)
    if value.denominator > 64 or abs(value.numerator) > 1 << 20:
        return None
    return Number(value, decimal=type(x) is float and value.denominator > 1)


def merged(terms: Iterable[Product]) -> list[Product]:
    """Add the terms that differ in their numbers only."""
    found: dict[Any, Product] = {}
    for term in terms:
        if term.key in found:
            a, b = found[term.key].number, term.number
            found[term.key] = Product(Number(a.value + b.value, a.decimal or b.decimal), found[term.key].powers)
        else:
            found[term.key] = term
    return [term for term in found.values() if term.number.value]


def common_factor(terms: list[Product]) -> Product:
    """Return the largest product that divides every term; its number is 1 unless all numbers have it."""
    first, *rest = terms
    powers = {}
    for atom, power in first.powers.items():
        others = [term.powers.get(atom, 0) for term in rest]
        if power > 0 and min(others) > 0:
            powers[atom] = min(power, *others)
        elif power < 0 and max(others) < 0:
            powers[atom] = max(power, *others)
    values = [term.number.value for term in terms]
    size = Fraction(reduce(gcd, (v.numerator for v in values)), reduce(lcm, (v.denominator for v in values)))
    size = abs(values[0]) if len({abs(v) for v in values}) == 1 else size if size.denominator == 1 else Fraction(1)
    sign = -1 if all(v < 0 for v in values) else 1
    return Product(Number(sign * size, any(term.number.decimal for term in terms)), powers)


def groups(terms: list[Product]) -> list[list[Product]]:
    """Return the terms in groups that have a divisor in common; a group of one for a term that shares none."""
    found: dict[Any, list[Product]] = {}
    for term in terms:
        below = frozenset((atom, power) for atom, power in term.powers.items() if power < 0)
        found.setdefault(below or id(term), []).append(term)
    return list(found.values())


def natural_shape(atoms: Iterable[Atom]) -> Shape:
    """Return the shape that arithmetic on these atoms has."""
    return np.broadcast_shapes(*(a.shape for a in atoms))


def natural_dtype(atoms: Iterable[Atom], division: bool = False) -> np.dtype[Any]:
    """Return the dtype that arithmetic on these atoms has. Python numbers have none of their own."""
    kinds = [a.value if isinstance(a, Const) and type(a.value) in (int, float, complex) else a.dtype for a in atoms]
    dtype = np.result_type(*kinds)
    return np.dtype(np.float64) if division and dtype.kind in "iub" else dtype


def is_field(atom: Atom) -> bool:
    """Tell whether an atom is a real or complex floating-point value that is computed, or an array of them."""
    return isinstance(atom, Var) and atom.dtype.kind in "fc"
