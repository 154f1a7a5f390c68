"""Zero stays zero: 0 times an infinite derivative is 0."""

from typing import Any

import numpy as np

from minigrad.op import OPS, Op

__all__ = ["BOUNDED", "MAKES_NAN", "has_nan", "zero_stays_zero"]


def _zero_stays_zero(came: Any, gradient: Any) -> Any:
    undefined = np.isnan(gradient) & (came == 0)
    return np.where(undefined, 0, gradient).astype(gradient.dtype) if np.any(undefined) else gradient


def _adjoint(g: Any, came: Any, gradient: Any) -> Any:
    return np.where(np.isnan(gradient) & (came == 0), 0, g)


zero_stays_zero = Op(_zero_stays_zero, "came gradient", (None, _adjoint), "zero_stays_zero", kind="elementwise")
"""`zero_stays_zero(came, gradient)` is what an adjoint made of `came`, with 0 where 0 came and NaN was made of it.

This is what makes `np.where(x > 0, np.sqrt(x), 0)` differentiable at 0, for every elementwise op, without a word about
it in the rules. Where the derivative is finite nothing is touched, so the result stays linear in what came.
"""

BOUNDED = frozenset(
    OPS[f]
    for f in (
        np.add,
        np.subtract,
        np.negative,
        np.positive,
        np.where,
        np.absolute,
        np.maximum,
        np.minimum,
        np.tanh,
        np.arctan,
        np.copysign,
    )
)
"""Ops whose derivative is finite wherever they are: a compiled function leaves the question out for these."""

MAKES_NAN = frozenset(
    OPS[f]
    for f in (
        np.divide,
        np.power,
        np.float_power,
        np.sqrt,
        np.log,
        np.log2,
        np.log10,
        np.log1p,
        np.arcsin,
        np.arccos,
        np.arccosh,
        np.arctanh,
    )
    if f in OPS
)
"""Ops that make NaN out of ordinary numbers. A tape on which one did looks at every gradient, for 0 * NaN."""


_SMALL = 1 << 12


def has_nan(x: Any) -> bool:
    """Tell whether an array has a NaN in it: one pass over the memory, and no warning."""
    if not isinstance(x, np.ndarray):
        return bool(x != x)  # NaN alone is not itself
    if not x.size:
        return False
    if x.size <= _SMALL and x.flags.c_contiguous:
        x = x.item(x.argmax())  # which takes NaN for the largest, and starts in half the time that a reduction takes
        return bool(x != x)
    least = np.minimum.reduce(x, axis=None)
    return bool(least != least)
