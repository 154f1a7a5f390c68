"""The calls of NumPy that compute equations into memory that was set aside for their results."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minigrad.compiler.ops import ELEMENTWISE, REDUCE
from minigrad.compiler.plan import CONCATENATE
from minigrad.compiler.rows_by_number import takes_rows
from minigrad.op import OPS
from minigrad.program import Atom, Equation
from minigrad.rules.index import cast, gather, scatter
from minigrad.zero import zero_stays_zero

__all__ = [
    "MATMUL", "Call", "Flag", "along", "call_into_memory", "call_of", "folded", "not_in_place", "products", "work",
]  # fmt: skip

Call = Callable[[], Any]
Arrays = Callable[[Atom], Any]  # gives the array of an atom
MATMUL, WHERE, COPY = OPS[np.matmul], OPS[np.where], OPS[np.copy]
MOST_WORK_ALONE = 1 << 18  # multiplications: with fewer, one thread does them all


def call_of(invalid: Flag, array: Arrays, eq: Equation) -> Call:
    """Return a function of no arguments that computes an equation into its memory."""
    known = call_into_memory(invalid, array, eq)
    if known is not None:
        return known
    inputs = [array(a) for a in eq.inputs]
    outs = [array(o) for o in eq.outs]

    def call() -> None:
        result = eq.op.function(*inputs, **eq.params)
        for place, value in zip(outs, result if eq.several else (result,), strict=True):
            np.copyto(place, value, casting="unsafe")

    return call


def call_into_memory(invalid: Flag, array: Arrays, eq: Equation) -> Call | None:
    """Return a call of NumPy that writes the result where it belongs, None if there is none for an equation."""
    inputs = [array(a) for a in eq.inputs]
    outs = [array(o) for o in eq.outs]
    out = outs[0]
    if eq.op is MATMUL:
        return partial(np.matmul, *products(inputs[0], inputs[1], out, 1)[0])
    if eq.op in REDUCE and eq.params.get("keepdims") and set(eq.params) <= {"axis", "keepdims"}:
        return partial(REDUCE[eq.op].reduce, inputs[0], eq.params["axis"], None, out, True)
    if eq.op is zero_stays_zero:
        return _zero_stays_zero(invalid, inputs[0], inputs[1], out)
    if eq.op is cast or eq.op is COPY:
        return partial(out.__setitem__, ..., inputs[0])
    if eq.op is WHERE and np.asarray(inputs[0]).dtype == bool:
        return _where(inputs[0], inputs[1], inputs[2], out)
    if eq.op in ELEMENTWISE and ELEMENTWISE[eq.op][0] is not None:
        return _ufunc(ELEMENTWISE[eq.op][0], inputs, out)
    if eq.op is CONCATENATE and eq.params.get("axis", 0) is not None:
        return _concatenate(eq, inputs, out)
    if eq.op is gather and takes_rows(eq) is not None:  # in range: where mode is "raise" NumPy copies the result
        return partial(np.take, inputs[0], inputs[1], axis=0, out=out, mode="wrap")
    if eq.op is scatter and not eq.inputs[1:]:
        return _fill_slice(out, inputs[0], _tuple(eq.params["index"]))
    return None


def products(x: np.ndarray, y: np.ndarray, out: np.ndarray, most: int) -> list[tuple[np.ndarray, ...]]:
    """Share a product out: matrices of a batch, or else rows of the result."""
    x, y, out = folded(x, y, out)
    parts = min(most, 2 * work(x, y, out) // MOST_WORK_ALONE)
    axis = next((i for i, n in enumerate(out.shape[:-1]) if n >= parts), None)
    if parts < 2 or axis is None or x.ndim < 2 or y.ndim < 2:
        return [(x, y, out)]
    n, back = out.shape[axis], axis - out.ndim
    ends = [n * i // parts for i in range(parts + 1)]
    return [
        (along(x, back, *ab), y if back == -2 else along(y, back, *ab), along(out, back, *ab))
        for ab in itertools.pairwise(ends)
    ]


def work(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> int:
    """Return how many multiplications a product takes."""
    return int(out.size * x.shape[-1])


def folded(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a batch with one matrix as one product: a loop over small ones is avoided."""
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous and out.flags.c_contiguous and x.size and out.size:
        return x.reshape(-1, x.shape[-1]), y, out.reshape(-1, out.shape[-1])
    return x, y, out


def along(array: np.ndarray, axis: int, low: int, high: int) -> np.ndarray:
    """Return what lies from low to high along an axis counted from the last; all, if that is broadcast."""
    if array.ndim < -axis or (axis < -2 and array.shape[axis] == 1):
        return array
    return array[(slice(None),) * (array.ndim + axis) + (slice(low, high),)]


def _ufunc(ufunc: Any, inputs: list[Any], out: np.ndarray) -> Call:
    """Call a ufunc; by position `out` takes half a microsecond less."""
    operands = inputs if all(isinstance(a, np.ndarray) for a in inputs) else _numbers_as_arrays(ufunc, inputs)
    if ufunc in (np.maximum, np.minimum):  # it is deprecated for these
        return partial(ufunc, *operands, out=out)
    return partial(ufunc, *operands, out)


def _numbers_as_arrays(ufunc: Any, inputs: list[Any]) -> list[Any]:
    """Return the operands, numbers as arrays of the type they are computed in: found out once, not in every call."""
    dtypes = [a.dtype if isinstance(a, (np.ndarray, np.generic)) else type(a) for a in inputs]
    if any(d.kind != "f" if isinstance(d, np.dtype) else d not in (int, float) for d in dtypes):
        return inputs  # there are rules of their own for whole numbers that are out of range
    loop = ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))
    return [a if isinstance(a, np.ndarray) else np.asarray(a, d) for a, d in zip(inputs, loop, strict=False)]


class Flag:
    """Set by NumPy when an operation of the run made a NaN out of numbers."""

    raised = False

    def __call__(self, kind: str, flag: int) -> None:
        self.raised = True


def _zero_stays_zero(invalid: Flag, came: Any, gradient: np.ndarray, out: np.ndarray) -> Call:
    if _starts_at(gradient, out):
        return partial(_correct, invalid, came, out)

    def copy_and_correct() -> None:
        out[...] = gradient
        _correct(invalid, came, out)

    return copy_and_correct


def _correct(invalid: Flag, came: Any, out: np.ndarray) -> None:
    if invalid.raised:
        np.copyto(out, 0, where=np.isnan(out) & (came == 0))


def _where(condition: np.ndarray, x: Any, y: Any, out: np.ndarray) -> Call:
    in_place = _starts_at(y, out)

    def where() -> None:
        if not in_place:
            out[...] = y
        np.copyto(out, x, where=condition, casting="unsafe")

    return where


def _starts_at(x: Any, y: np.ndarray) -> bool:
    return isinstance(x, np.ndarray) and x.__array_interface__["data"] == y.__array_interface__["data"]


def _tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _fill_slice(out: np.ndarray, g: np.ndarray, index: Any) -> Call:
    part = out[(*index, ...) if Ellipsis not in index else index]

    def fill() -> None:
        out.fill(0)
        np.copyto(part, g)

    return fill


def _concatenate(eq: Equation, parts: list[np.ndarray], out: np.ndarray) -> Call:
    copies = not_in_place(eq, parts, out)

    def copy() -> None:
        for target, part in copies:
            np.copyto(target, part)

    return copy


def not_in_place(eq: Equation, parts: list[np.ndarray], out: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the parts that were not computed in their place, each after its place."""
    axis, start, copies = eq.params.get("axis", 0), 0, []
    for part in parts:
        n = part.shape[axis]
        index = [slice(None)] * out.ndim
        index[axis] = slice(start, start + n)
        target = out[tuple(index)]
        if target.__array_interface__["data"] != part.__array_interface__["data"]:
            copies.append((target, part))
        start += n
    return copies
