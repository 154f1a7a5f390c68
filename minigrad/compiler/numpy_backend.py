"""Running a plan with NumPy alone: every equation writes into memory that was set aside for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minigrad.compiler.blocks import Blocks
from minigrad.compiler.layout import View
from minigrad.compiler.ops import ELEMENTWISE, REDUCE, is_scalar
from minigrad.compiler.plan import CONCATENATE, Plan
from minigrad.compiler.rows_by_number import takes_rows
from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation
from minigrad.rules.index import cast, gather, scatter
from minigrad.zero import zero_stays_zero

__all__ = ["Memory", "equation_step", "is_done_in_place", "numpy_steps"]

Step = Callable[[], Any]
MATMUL, WHERE, COPY = OPS[np.matmul], OPS[np.where], OPS[np.copy]


class Memory:
    """The arrays behind the buffers of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.arena = _aligned(plan.arena)
        self.plan = plan
        self.invalid = Flag()
        self.flat: dict[Any, np.ndarray] = {}
        self._copies: list[tuple[np.ndarray, np.ndarray]] = []
        for atom, view in plan.views.items():
            buffer = view.buffer
            if buffer.kind == "arena" and buffer.start >= 0 and buffer not in self.flat:
                size = buffer.size * buffer.dtype.itemsize
                self.flat[buffer] = self.arena[buffer.start : buffer.start + size].view(buffer.dtype)
            elif buffer.kind == "constant" and isinstance(atom, Const) and buffer not in self.flat:
                value = np.asarray(atom.value)
                self.flat[buffer] = np.ravel(value)
                if not value.flags.c_contiguous:  # a copy, which is to follow what the caller does with the array
                    self._copies.append((self.flat[buffer].reshape(value.shape), value))

    def read_captured(self) -> None:
        """Copy what the program captures and cannot read where it lies."""
        for copy, value in self._copies:
            np.copyto(copy, value)

    def array(self, atom: Atom) -> Any:
        """Return the array of an atom; a number for a constant number."""
        if is_scalar(atom):
            return atom.value  # type: ignore[union-attr]
        view: View = self.plan.views[atom]
        return view.of(self.flat[view.buffer])


def _aligned(n_bytes: int) -> np.ndarray:
    raw = np.zeros(n_bytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + n_bytes]


def numpy_steps(memory: Memory, separate: bool = True) -> list[tuple[Step, list[Equation]]]:
    """Return the steps of a plan, each with the equations it computes: those of a group together."""
    steps: list[tuple[Step, list[Equation]]] = []
    blocks: dict[int, Blocks] = {}
    for group in memory.plan.groups:
        if group.domain is not None and not memory.plan.outside[group]:
            continue  # all of it is computed again where it is needed
        if group.domain is None or len(group.equations) == 1:
            steps += [(equation_step(memory, eq), [eq]) for eq in group.equations]
        else:
            blocks[len(steps)] = Blocks(memory.plan, group, memory.array)
            steps.append((_nothing, group.equations))
    scratch = _aligned(max((b.scratch_bytes for b in blocks.values()), default=0))
    for i, b in blocks.items():
        calls = []
        for part in b.parts:
            array = b.arrays(part, scratch)
            calls += [_step(memory.invalid, array, eq) for eq in b.group.equations]
        steps[i] = partial(_all, calls), b.group.equations
    return steps


def _nothing() -> None:
    pass


def _all(calls: list[Step]) -> None:
    for call in calls:
        call()


def equation_step(memory: Memory, eq: Equation) -> Step:
    """Return a function of no arguments that computes one equation into its memory."""
    return _step(memory.invalid, memory.array, eq)


def _step(invalid: Flag, array: Callable[[Atom], Any], eq: Equation) -> Step:
    inputs = [array(a) for a in eq.inputs]
    outs = [array(o) for o in eq.outs]
    out = outs[0]
    if eq.op is MATMUL:
        return _matmul(inputs[0], inputs[1], out)
    if eq.op in REDUCE and eq.params.get("keepdims") and set(eq.params) <= {"axis", "keepdims"}:
        return partial(REDUCE[eq.op].reduce, inputs[0], axis=eq.params["axis"], keepdims=True, out=out)
    if eq.op is zero_stays_zero:
        return _zero_stays_zero(invalid, inputs[0], inputs[1], out)
    if eq.op is cast:
        return partial(np.copyto, out, inputs[0], casting="unsafe")
    if eq.op is COPY:
        return partial(np.copyto, out, inputs[0])
    if eq.op is WHERE and np.asarray(inputs[0]).dtype == bool:
        return _where(inputs[0], inputs[1], inputs[2], out)
    if eq.op in ELEMENTWISE and ELEMENTWISE[eq.op][0] is not None:
        return partial(ELEMENTWISE[eq.op][0], *inputs, out=out)
    if eq.op is CONCATENATE and eq.params.get("axis", 0) is not None:
        return _concatenate(eq, inputs, out)
    if eq.op is gather and takes_rows(eq) is not None:  # in range: where mode is "raise" NumPy copies the result
        return partial(np.take, inputs[0], inputs[1], axis=0, out=out, mode="wrap")
    if eq.op is scatter and not eq.inputs[1:]:
        return _fill_slice(out, inputs[0], _tuple(eq.params["index"]))

    def call() -> None:
        result = eq.op.function(*inputs, **eq.params)
        for place, value in zip(outs, result if eq.several else (result,), strict=True):
            np.copyto(place, value, casting="unsafe")

    return call


def _matmul(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> Step:
    """Multiply; a batch with one matrix is one product, and NumPy's loop over small ones is avoided."""
    if x.ndim > 2 and y.ndim == 2 and x.flags.c_contiguous and out.flags.c_contiguous and x.size and out.size:
        x, out = x.reshape(-1, x.shape[-1]), out.reshape(-1, out.shape[-1])
    return partial(np.matmul, x, y, out=out)


class Flag:
    """Set by NumPy when an operation of the run made a NaN out of numbers."""

    raised = False

    def __call__(self, kind: str, flag: int) -> None:
        self.raised = True


def _zero_stays_zero(invalid: Flag, came: Any, gradient: np.ndarray, out: np.ndarray) -> Step:
    same = gradient.__array_interface__["data"] == out.__array_interface__["data"]

    def correct() -> None:
        if not same:
            np.copyto(out, gradient)
        if invalid.raised:
            np.copyto(out, 0, where=np.isnan(out) & (came == 0))

    return correct


def _where(condition: np.ndarray, x: Any, y: Any, out: np.ndarray) -> Step:
    def where() -> None:
        np.copyto(out, y, casting="unsafe")
        np.copyto(out, x, where=condition, casting="unsafe")

    return where


def _tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _fill_slice(out: np.ndarray, g: np.ndarray, index: Any) -> Step:
    part = out[(*index, ...) if Ellipsis not in index else index]

    def fill() -> None:
        out.fill(0)
        np.copyto(part, g)

    return fill


def is_done_in_place(memory: Memory, eq: Equation) -> bool:
    """Tell whether all parts of a concatenation are computed where the whole lies."""
    if eq.op is not CONCATENATE or eq.params.get("axis", 0) is None:
        return False
    return not _copies(eq, [memory.array(a) for a in eq.inputs], memory.array(eq.outs[0]))


def _concatenate(eq: Equation, parts: list[np.ndarray], out: np.ndarray) -> Step:
    copies = _copies(eq, parts, out)

    def copy() -> None:
        for target, part in copies:
            np.copyto(target, part)

    return copy


def _copies(eq: Equation, parts: list[np.ndarray], out: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
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
