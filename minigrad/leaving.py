"""Why a Tensor may not become plain data, and what to write instead: the error of `Tensor.__array__` and its like."""

from __future__ import annotations

import dis
from types import FrameType
from typing import Any

from minigrad.errors import CutGraphError, here, scipy_calls, user_frame
from minigrad.op import Recorded
from minigrad.rules.special import INSTEAD

__all__ = ["refusal"]

STACK = "use NumPy functions on it (np.stack or minigrad.array on several)"


def refusal(tensor: Any, by: str = "") -> CutGraphError:
    """Return the error for a Tensor that is about to become plain data, by a conversion such as float()."""
    frame = user_frame()
    holder = None if frame is None else _holder(frame, tensor)
    calls = scipy_calls()
    if frame is not None and _is_assignment(frame):
        what = "a Tensor was assigned into a plain array, which cannot carry its gradient."
        fix = "make the array from a Tensor (np.zeros_like(t), np.empty_like(t)) or collect parts with np.stack"
    elif tensor.dtype.kind in "biu":  # which are Tensors in a compiled function only
        what = "a value of the compiled function was converted to a plain array: it would be frozen as it is now."
        fix = "make the array that it indexes an argument of the compiled function, or use NumPy functions on it"
    elif holder is not None and not by:
        what = f"`{holder}`, a list of Tensors, was converted to a plain array, which would lose its gradient."
        fix = (
            f"minigrad.array({holder}) makes one Tensor of it; a parameter that is a list is a tree of separate "
            "parameters:\n         pass np.array([...]) for one array"
        )
    else:
        what = f"a Tensor was converted {by or 'to a plain array'}, which would lose its gradient."
        fix = f"{STACK}, or minigrad.stop_gradient(t) where no gradient is wanted"
    if calls:
        called = next((name for name in calls if name in INSTEAD), calls[0])
        what = f"{called} converts a Tensor to a plain array, which would lose its gradient."
        other = f"{fix};\n         minigrad.custom_adjoint gives {called} a gradient"
        fix = f"write {INSTEAD[called]}" if called in INSTEAD else other
    return CutGraphError(f"{what}\n  at     {here()}\n  input  {tensor.dtype} {tensor.shape}\n  fix    {fix}")


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
