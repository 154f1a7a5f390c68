"""Finding the line where a computation goes wrong: the first non-finite value, and float64 in a float32 computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minigrad import tape
from minigrad.errors import DtypeError, NonFiniteError, here, source_line
from minigrad.op import Op, Recorded
from minigrad.shapes import shape_of
from minigrad.tensor import dtype_of, plain

__all__ = ["debug"]


class DebugTape(tape.Tape, tape.Observer):
    """A tape that looks at every result and every gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.observer = self

    def record(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record an op; raise if its result is the first to be non-finite, or float64 out of float32."""
        result = super().record(op, inputs, params)
        for out in result if isinstance(result, tuple) else (result,):
            _check_given(op, inputs, out)
            what = _new_trouble(out, inputs)
            if what:
                raise NonFiniteError(
                    f"{op.name} gave {what}, from inputs without one.\n  at     {here()}\n{_facts(op, inputs)}"
                )
            _check_width(op, inputs, params, out)
        return result

    def sent(self, node: tape.Node, g: Any, kept: tuple[Any, ...], gradient: Any) -> None:
        """Raise if this gradient is the first non-finite one of the backward pass."""
        what = _new_trouble(gradient, g if isinstance(g, tuple) else (g,))
        if what:
            shapes = ", ".join(f"{dtype_of(k)} {shape_of(k)}" for k in kept if hasattr(k, "dtype"))
            raise NonFiniteError(
                f"the adjoint of {node.op.name} gave {what}, from a gradient without one.\n"
                f"  at     {source_line(node.code, node.instruction)}\n"
                f"  kept   {shapes or 'nothing'}"
            )


def _new_trouble(out: Any, inputs: tuple[Any, ...]) -> str | None:
    """Name the NaN or infinity in a result that none of the inputs has."""
    values = plain(out)
    if not isinstance(values, (np.ndarray, np.generic)) or values.dtype.kind not in "fc" or np.all(np.isfinite(values)):
        return None
    numbers = [np.asarray(plain(x)) for x in inputs if isinstance(plain(x), (np.ndarray, np.generic, float, complex))]
    numbers = [x for x in numbers if x.dtype.kind in "fc"]
    if np.any(np.isnan(values)):
        return None if any(np.any(np.isnan(x)) for x in numbers) else _place(np.isnan(values), "a NaN")
    return None if any(not np.all(np.isfinite(x)) for x in numbers) else _place(np.isinf(values), "an infinity")


def _check_given(op: Op, inputs: tuple[Any, ...], out: Any) -> None:
    """Raise if the result has a NaN because an input has one: it came from outside, or an earlier op had raised."""
    if op.kind == "view" or not _has_nan(out):  # a view may be looked at before it is used: np.isnan(x[0])
        return
    for x in inputs:
        if _has_nan(x):
            raise NonFiniteError(
                f"{op.name} was given {_place(np.isnan(plain(x)), 'a NaN')}, which no operation made: it was in the "
                f"data or the parameters already.\n  at     {here()}\n{_facts(op, inputs)}\n"
                "  fix    look at the array with np.isnan, or leave the NaN out with np.where or np.nansum"
            )


def _has_nan(x: Any) -> bool:
    values = plain(x)
    return (
        isinstance(values, (np.ndarray, np.generic, float, complex))
        and np.asarray(values).dtype.kind in "fc"
        and bool(np.any(np.isnan(values)))
    )


def _place(bad: Any, what: str) -> str:
    """Return "a NaN at index (1, 2), and 3 more"."""
    where = np.argwhere(bad)
    index = f" at index {tuple(where[0].tolist())}" if where.shape[1] else ""
    return what + index + (f" and {len(where) - 1} more" if len(where) > 1 else "")


def _facts(op: Op, inputs: tuple[Any, ...]) -> str:
    lines = []
    for i, x in enumerate(inputs):
        name = op.inputs[min(i, len(op.inputs) - 1)].lstrip("*")
        values = plain(x)
        kind = f"{dtype_of(values)} {shape_of(values)}"
        if isinstance(values, np.ndarray) and values.size and values.dtype.kind == "f":
            kind += f", from {np.min(values):.4g} to {np.max(values):.4g}"
        elif np.ndim(values) == 0:
            kind += f", {values}"
        lines.append(f"  {name:<6} {kind}")
    return "\n".join(lines)


def _check_width(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], out: Any) -> None:
    """Raise if the result is wider than every Tensor that went in, without having been asked to be."""
    if "dtype" in params or not isinstance(out, Recorded):
        return
    widths = [dtype_of(x) for x in inputs if isinstance(x, Recorded)]
    narrow = all(w.type in (np.float16, np.float32, np.complex64) for w in widths)
    if narrow and dtype_of(out) in (np.float64, np.complex128):
        raise DtypeError(
            f"{op.name} made {dtype_of(out)} out of {', '.join(map(str, widths))}: a float32 computation grew wider.\n"
            f"  at     {here()}\n{_facts(op, inputs)}\n"
            "  fix    make the wide operand float32, or a Python float, which never widens"
        )


@contextmanager
def debug() -> Iterator[None]:
    """Within this context, raise at the first non-finite value or unwanted float64 of a differentiation.

    Every result of the forward pass and every gradient of the backward pass is looked at. The error has the op, the
    shapes, and the line of the user's code. An infinity that was put in, such as -inf in a mask, is not reported; a
    NaN that was put in is, where it reaches a result.

    Raises
    ------
    NonFiniteError
        At the first NaN or infinity that the inputs of an op did not have, or the first NaN that came in with them.
    DtypeError
        When an op on float32 Tensors gives float64.
    """
    token = tape.NEW_TAPE.set(DebugTape)
    try:
        yield
    finally:
        tape.NEW_TAPE.reset(token)
