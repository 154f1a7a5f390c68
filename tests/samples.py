"""Arrays to test with: small decimals, the same on every run, no two alike, none near zero.

A case is written with descriptions, `real(3, 2)`, that are drawn when the case is used: the numbers depend on the
case's name only, so adding a case changes no other. What is described is what is differentiated; every other
argument stands as it is written.
"""

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Real:
    """An array of distinct numbers from low to high, 0.1 or more away from zero."""

    shape: tuple[int, ...]
    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return the array: evenly spaced numbers, shaken, rounded to two decimals and shuffled."""
        n = int(np.prod(self.shape))
        step = (self.high - self.low) / max(n, 1)
        x = self.low + step * (np.arange(n) + rng.uniform(0.25, 0.75, n))
        if self.low < 0 < self.high:
            x = x + np.copysign(0.1, x)
        return rng.permutation(x.round(2 if step > 0.05 else 4)).reshape(self.shape)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Real:
    """Describe an array of a shape, with numbers from low to high."""
    return Real(shape, low, high)


def positive(*shape: int, low: float = 0.3, high: float = 2.5) -> Real:
    """Describe an array of positive numbers."""
    return Real(shape, low, high)


def generator(name: str) -> np.random.Generator:
    """Return a generator that depends on the name only."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def leaves(structure) -> list:
    """Return the descriptions in nested lists, tuples and dicts, in order."""
    if isinstance(structure, dict):
        return [leaf for value in structure.values() for leaf in leaves(value)]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in leaves(item)]
    return [structure] if isinstance(structure, Real) else []


def replaced(structure, arrays):
    """Return the structure with each description replaced by the next of an iterator of arrays."""
    if isinstance(structure, dict):
        return {key: replaced(value, arrays) for key, value in structure.items()}
    if isinstance(structure, (list, tuple)):
        return type(structure)(replaced(item, arrays) for item in structure)
    return next(arrays) if isinstance(structure, Real) else structure


def direction(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a random array of the shape and dtype of x: standard normal to two decimals, complex where x is."""
    x = np.asarray(x)
    t = rng.normal(size=x.shape).round(2)
    if x.dtype.kind == "c":
        t = t + 1j * rng.normal(size=x.shape).round(2)
    return t.astype(x.dtype)
