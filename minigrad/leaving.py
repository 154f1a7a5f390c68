"""Why a Tensor may not become plain data, and what to write instead: the error of `Tensor.__array__` and its like."""

from __future__ import annotations

import dis
import sys
from types import FrameType
from typing import Any

from minigrad.errors import CutGraphError, here, is_internal, scipy_calls, user_frame
from minigrad.op import Recorded
from minigrad.rules.special import INSTEAD

__all__ = ["refusal"]

OF_NUMPY = {  # what some functions of NumPy that convert their arguments are called inside, and what to write instead
    "as_strided": ("np.lib.stride_tricks.as_strided", "np.lib.stride_tricks.sliding_window_view(x, window), or slices"),
    "_vectorize_call": ("np.vectorize", "the function for whole arrays: NumPy's functions broadcast, np.where chooses"),
}
STACK = "use NumPy functions on it (np.stack or minigrad.array on several)"
INDENT = "\n         "
LOST = "which would lose its gradient."
FROZEN = "it would be frozen as it is now, because a compiled function is traced only once."


def refusal(tensor: Any, by: str = "", compiled: bool = False) -> CutGraphError:
    """Return the error for a Tensor that is about to become plain data, by a conversion such as float().

    In a compiled function more than the gradient would be lost, and `minigrad.stop_gradient` is no help.
    """
    frame = user_frame()
    holder = None if frame is None else _holder(frame, tensor)
    calls, numpys = scipy_calls(), _numpys()
    kind = "a value of the compiled function" if compiled else "a Tensor"
    loss = f": {FROZEN}" if compiled else f", {LOST}"
    if frame is not None and _is_assignment(frame):
        what = f"{kind} was assigned into a plain array{loss if compiled else ', which cannot carry its gradient.'}"
        fix = "make the array from a Tensor (np.zeros_like(t), np.empty_like(t)) or collect parts with np.stack"
    elif holder is not None and not by:
        what = f"`{holder}`, a list of Tensors, was converted to a plain array{loss}"
        fix = (
            f"minigrad.array({holder}) makes one Tensor of it; a parameter that is a list is a tree of separate "
            f"parameters:{INDENT}pass np.array([...]) for one array"
        )
    else:
        what = f"{kind} was converted {by or 'to a plain array'}{loss}"
        detach = f"{STACK}, or minigrad.stop_gradient(t) where no gradient is wanted"
        fix = _instead_of_freezing(tensor) if compiled else detach
    if calls:
        called = next((name for name in calls if name in INSTEAD), calls[0])
        what = f"{called} converts a Tensor to a plain array{loss}"
        other = fix if compiled else f"{fix};{INDENT}minigrad.custom_adjoint gives {called} a gradient"
        fix = f"write {INSTEAD[called]}" if called in INSTEAD else other
    elif numpys is not None:
        what, fix = f"{numpys[0]} converts a Tensor to a plain array{loss}", f"write {numpys[1]}"
    return CutGraphError(f"{what}\n  at     {here()}\n  input  {tensor.dtype} {tensor.shape}\n  fix    {fix}")


def _numpys() -> tuple[str, str] | None:
    """Return the function of NumPy that stands between the user and here, if it is one of those above."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        if frame.f_code.co_name in OF_NUMPY and frame.f_globals["__name__"].startswith("numpy."):
            return OF_NUMPY[frame.f_code.co_name]
        frame = frame.f_back
    return None


def _instead_of_freezing(tensor: Any) -> str:
    by_kind = {"b": "np.where(t, a, 0) for a[t]", "i": "for a[t], make a an argument too"}
    example = by_kind.get(tensor.dtype.kind, "t.astype(dtype) for dtype(t)")
    return (
        f"use NumPy functions on it ({example}; np.stack or minigrad.array on several);{INDENT}"
        f"a count or a shape is part of the program: pass a Python number for it;{INDENT}"
        "a check at every run is minigrad.require; anything else is done outside, on what the function returns"
    )


def _holder(frame: FrameType, tensor: Any) -> str | None:
    """Return the name of a sequence in a frame that has the Tensor in it."""
    local = frame.f_locals
    if any(value is tensor for value in local.values()):
        return None  # it was meant itself
    for name, value in local.items():
        if isinstance(value, (list, tuple)) and name.isidentifier() and _has(value, tensor):
            return name
    return None


def _has(x: Any, tensor: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(_has(part, tensor) for part in x)
    return isinstance(x, Recorded) and (x is tensor or x._value is tensor)


def _is_assignment(frame: FrameType) -> bool:
    """Tell whether the user's code is in the middle of `array[...] = t` or `array[...] += t`."""
    instruction = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
    return instruction is not None and instruction.opname in ("STORE_SUBSCR", "STORE_SLICE")
