"""Values as Python source: numbers, shapes, indices, dtypes, and the arrays that can be said in a few words."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from minigrad.rules.index import Slot

__all__ = ["ADD", "ATOM", "COMPARE", "MULTIPLY", "POWER", "UNARY", "Text", "array_in_words", "dtype_text", "index_text"]

COMPARE, OR, XOR, AND, ADD, MULTIPLY, UNARY, POWER, ATOM = range(9)  # how tightly Python binds, the loosest first
MOST_ELEMENTS, MOST_CHARACTERS = 8, 60  # of an array that is written out


class Text(NamedTuple):
    """A piece of source, and how tightly it is bound."""

    code: str
    level: int = ATOM

    def at_least(self, level: int) -> str:
        """Return the source as an operand of an operator of this level."""
        return self.code if self.level >= level else f"({self.code})"


def number_text(x: Any) -> Text:
    """Return a Python number as source."""
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        signed_zero = isinstance(x, complex) and "-0.0" in (repr(x.real), repr(x.imag))
        return Text(f"complex({x.real}, {x.imag})" if signed_zero else repr(x))  # 1 - 0j would be 1 + 0j
    if x != x:
        return Text("np.nan")
    if x in (math.inf, -math.inf):
        return Text("np.inf") if x > 0 else Text("-np.inf", UNARY)
    if isinstance(x, int):
        return Text(repr(int(x)), ATOM if x >= 0 else UNARY)
    return Text(_float_text(float(x)), ATOM if math.copysign(1, x) > 0 else UNARY)


def _float_text(x: float) -> str:
    """Return a float as people write it: 1e-5, not 1e-05, and 1e9, not 1000000000.0."""
    text = repr(x)
    if "e" in text:
        digits, exponent = text.split("e")
        return f"{digits}e{int(exponent)}"
    digits = text.removesuffix(".0").rstrip("0")
    zeros = len(text) - len(".0") - len(digits)
    return f"{digits}e{zeros}" if text.endswith("000000.0") else text


def formula_text(x: Any) -> Text | None:
    """Return a number of many digits as what it is, to the last digit or two: 2 / 3, 1 / math.sqrt(8)."""
    if not isinstance(x, float) or len(repr(x)) <= 10 or not 1e-6 < abs(x) < 1e6:
        return None
    sign = "-" if x < 0 else ""
    for value, code in ((abs(x), "{}"), (x * x, "math.sqrt({})"), (x * x * math.pi, "math.sqrt({} / math.pi)")):
        near = Fraction(value).limit_denominator(64)
        p, q = near.numerator, near.denominator
        if not p or abs(value - p / q) > 1e-15 * value or p > 64:
            continue
        if code == "{}":
            if 10**6 % q == 0:  # a decimal number, as 0.15 is, which 3 * 0.05 is not to the last digit
                return number_text(math.copysign(p / q, x))
            return Text(f"{sign}{p} / {q}", MULTIPLY)
        if p == 1 and q > 1:
            inside = f"{q} * math.pi" if "pi" in code else str(q)
            return Text(f"{sign}1 / math.sqrt({inside})", MULTIPLY)
        ratio = str(p) if q == 1 else f"({p} / {q})" if "pi" in code else f"{p} / {q}"
        return Text(sign + code.format(ratio), UNARY if sign else ATOM)
    return None


def dtype_text(dtype: Any) -> str:
    """Return a dtype as source."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return "bool"
    return f"np.{dtype.name}" if hasattr(np, dtype.name) else f"np.dtype({dtype.str!r})"


def scalar_text(x: np.generic) -> Text:
    """Return a NumPy scalar as source; it keeps its dtype."""
    return Text(f"{dtype_text(x.dtype)}({_element(x)})") if x.dtype != bool else Text(str(bool(x)))


def _element(x: Any) -> str:
    """Return an element of an array, in as few digits as its dtype needs."""
    if x.dtype.kind == "f" and x.dtype != np.float64 and np.isfinite(x):
        return str(x)
    return number_text(x.item()).code


def index_text(index: Any, arrays: list[str]) -> str:
    """Return what stands between the brackets; `arrays` are the texts of the index arrays."""
    items = index if isinstance(index, tuple) and not isinstance(index, Slot) else (index,)
    texts = [_item_text(item, arrays) for item in items]
    return ", ".join(texts) or "()"


def _item_text(item: Any, arrays: list[str]) -> str:
    if isinstance(item, Slot):
        return arrays[item.i]
    if isinstance(item, slice):
        start, stop, step = ("" if i is None else str(int(i)) for i in (item.start, item.stop, item.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")
    return "..." if item is Ellipsis else "None" if item is None else str(int(item))


def array_in_words(x: np.ndarray, written_out: bool = True) -> Text | None:
    """Return an array as a short expression, if it is a usual one, or a small one that may be written out."""
    if x.dtype.kind not in "biufc":
        return None
    dtype = "" if x.dtype in (np.float64, np.int64, bool, np.complex128) else f", {dtype_text(x.dtype)}"
    typed = "" if x.dtype == np.float64 else f", {dtype_text(x.dtype)}"
    shape = str(x.shape[0]) if x.ndim == 1 else str(x.shape)
    if x.size != 1 and (not x.size or bool(np.all(x == x.flat[0]))):
        if not x.size or x.flat[0] in (0, 1):
            return Text(f"np.{'ones' if x.size and x.flat[0] else 'zeros'}({shape}{typed})")
        return Text(f"np.full({shape}, {_element(x.flat[0])}{dtype})")
    flat = x.ravel()
    long = [n for n in x.shape if n != 1]
    if x.dtype.kind == "i" and len(long) == 1 and x.size > 1 and np.array_equal(flat, np.arange(x.size)):
        place = [":" if n != 1 else "None" for n in x.shape]
        tail = "" if x.ndim == 1 else f"[{', '.join(place)}]"
        return Text(f"np.arange({x.size}{dtype}){tail}")
    if x.dtype == np.int64 and x.size > 1 and np.array_equal(flat, np.arange(x.size)):
        return Text(f"np.arange({x.size}).reshape({shape[1:-1]})")
    if x.ndim == 2 and x.size > 1:
        rows, columns = x.shape
        if rows == columns and np.array_equal(x, np.eye(rows)):
            return Text(f"np.eye({rows}{_keyword(typed)})")
        if np.array_equal(x, np.tri(rows, columns, columns - rows)):
            more = "" if rows == columns else f", {columns}, {columns - rows}"
            return Text(f"np.tri({rows}{more}{_keyword(typed)})")
        if rows == columns and np.array_equal(x, np.tri(rows) - 0.5 * np.eye(rows)):
            return Text(f"np.tri({rows}{_keyword(typed)}) - 0.5 * np.eye({rows}{_keyword(typed)})", ADD)
        if np.array_equal(x, np.triu(np.ones_like(x), 1)):
            return Text(f"np.triu(np.ones({shape}{typed}), 1)")
    text = f"np.array({_nested(x)}{dtype})" if x.size <= MOST_ELEMENTS and written_out else ""
    return Text(text) if 0 < len(text) <= MOST_CHARACTERS else None


def _keyword(typed: str) -> str:
    return typed.replace(", ", ", dtype=")


def _nested(x: np.ndarray) -> str:
    return _element(x[()]) if not x.ndim else f"[{', '.join(_nested(part) for part in x)}]"
