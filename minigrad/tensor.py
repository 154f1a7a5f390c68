"""The Tensor: an array whose history is recorded. It answers to NumPy's two protocols; it is like an ndarray otherwise.

Assignment (`t[i] = v`, `t += v`) never writes into an array that something else may hold. The Tensor object is given a
new value, and so are, when they are next looked at, the Tensors that NumPy would have made views of the same memory.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from minigrad import protocol
from minigrad.arraylike import Arraylike, dtype_of, memory, plain, trace_below
from minigrad.errors import CutGraphError, here, is_internal, unsupported
from minigrad.leaving import refusal
from minigrad.op import OPS, Op, Recorded
from minigrad.views import is_already_there, steps_to, written

__all__ = ["Tensor", "dtype_of", "plain", "trace_below"]


def _owner(x: Any) -> Any:
    """Return the array that owns the memory of x, or None for a scalar."""
    if type(x) is not np.ndarray:
        x = memory(x)
        if not isinstance(x, np.ndarray):
            return None
    while (base := x.base) is not None:
        if not isinstance(base, np.ndarray):
            # np.lib.stride_tricks puts an object of its own between a view and its base.
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                break
        x = base
    return x


class Tensor(Arraylike):
    """An array that records what is done with it. Tensors are made by `value_and_grad`, `vjp` and their relatives.

    In the code being differentiated a Tensor stands where the array stood: NumPy functions, operators, indexing,
    assignment and the methods of ndarray work. Comparisons and integer results, such as `argmax`, are plain arrays,
    so that Python control flow on values works. Turning a Tensor into plain data raises `CutGraphError`, because its
    gradient would be lost; `minigrad.stop_gradient(t)` does it on purpose.
    """

    __slots__ = ("__weakref__",)
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]  # like ndarray: == compares elements

    def __init__(self, value: Any, tape: Any, slot: int, foreign: bool = False) -> None:
        self._value = value
        self._tape = tape
        self._slot = slot
        self._foreign = foreign
        self._base = None
        self._version = 0

    # --- views and assignment -------------------------------------------------------------------------------------

    def _look_through(self, source: Tensor, op: Op, params: dict[str, Any]) -> None:
        """Note that this Tensor is a view of `source`, if their arrays share memory."""
        owner = _owner(self._value)
        if owner is not None and owner is _owner(source._value):
            if source._base is None:
                self._base, self._link = source, (None, op, params)
            else:
                self._base, self._link = source._base, (source._link, op, params)
            self._version = self._base._version
            self._foreign = source._foreign

    def _refresh(self) -> None:
        """Look at the base again: it was written to."""
        base = self._base
        view: Any = base
        for op, params in steps_to(base, self._link):
            view = op(view, **params)
        self._become(view)
        self._version = base._version  # type: ignore[union-attr]

    def _become(self, other: Tensor) -> None:
        self._value = other._value
        self._tape = other._tape
        self._slot = other._slot
        self._foreign = other._foreign

    def _snapshot(self) -> Tensor:
        """Return a Tensor that keeps this one's present value, whatever is assigned to this one later."""
        if self._base is not None and self._version != self._base._version:
            self._refresh()
        return Tensor(self._value, self._tape, self._slot, self._foreign)

    def __setitem__(self, index: Any, value: Any) -> None:
        data = memory(self)
        if not isinstance(data, np.ndarray):
            raise TypeError(f"a NumPy scalar cannot be assigned to ({here()})")
        if not data.flags.writeable:
            raise ValueError(f"assignment destination is read-only ({here()})")
        if data.ndim > 1 and _compiled_code_assigns():
            raise unsupported(
                "assignment by compiled code",
                "rng.shuffle swaps the rows of what it takes for a sequence through views, and loses some; "
                "write t[rng.permutation(len(t))]",
            )
        base, link = (self, None) if self._base is None else (self._base, self._link)
        if base.dtype.kind == "c" and self.dtype.kind != "c":  # type: ignore[attr-defined]
            raise protocol.unsupported(
                "writing to the real or imaginary part", "write the whole number: t[...] = new + 1j * t.imag"
            )
        if not is_already_there(value, base, link, index):
            base._become(written(base, steps_to(base, link), index, value))  # type: ignore[attr-defined]
            base._version += 1

    def _in_place(self, op: Op, other: Any) -> Tensor:
        """Do `self op= other` as NumPy does: the dtype and shape stay, and views of the same memory see it."""
        result = op(self, other)
        if not isinstance(memory(self), np.ndarray):
            return result  # type: ignore[no-any-return]  # NumPy scalars are immutable: the name is bound anew
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(f"{op.name} cannot cast its result from {result.dtype} to {self.dtype} in place ({here()})")
        if self._base is None and isinstance(result, Tensor) and _stands_for(memory(result), memory(self)):
            self._become(result)
            self._version += 1
        else:
            self[...] = result
        return self

    # --- the two protocols ----------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__" and (op := OPS.get(ufunc)) is not None:
            return op.apply(inputs, {})
        return protocol.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        return protocol.call_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return np  # whose functions answer for Tensors

    # --- refusing to become plain data ----------------------------------------------------------------------------

    def _may_be_read(self) -> bool:
        """Tell whether this would be a plain array but for a trace, and that trace is of the present values only."""
        return self._tape.symbolic and not self._tape.any_values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self._may_be_read():
            return np.array(self._tape.read(self), dtype)
        raise self._refused()

    def _refused(self, by: str = "") -> CutGraphError:
        """Return the error for a conversion, such as "by float()", that would lose a gradient or freeze a value."""
        below = trace_below(self)
        return refusal(self, by, compiled=below is not None and below.any_values)

    def _scalar(self, convert: Callable[[Any], Any]) -> Any:
        if self._slot < 0 and not isinstance(self._value, Recorded):
            return convert(self._value)  # a constant has no gradient to lose
        if self._may_be_read():
            return convert(self._tape.read(self))
        raise self._refused(f"by {convert.__name__}()")

    def __float__(self) -> float:
        return self._scalar(float)  # type: ignore[no-any-return]

    def __int__(self) -> int:
        return self._scalar(int)  # type: ignore[no-any-return]

    def __complex__(self) -> complex:
        return self._scalar(complex)  # type: ignore[no-any-return]

    def __index__(self) -> int:
        if self.dtype.kind in "iu" and self._may_be_read():
            return operator.index(self._tape.read(self))
        if trace_below(self) is not None:
            raise self._refused("to an index or a count")
        raise TypeError(
            f"a Tensor ({self.dtype}) cannot be used as an index or a count.\n"
            f"  at   {here()}\n"
            "  fix  int(minigrad.stop_gradient(t)), through which no gradient flows"
        )

    def item(self, *args: Any) -> Any:
        """Refuse, unless this is a constant: a Python number has no gradient."""
        return self._tape.read(self).item(*args) if self._may_be_read() else self._scalar(float)

    def tolist(self) -> Any:
        """Refuse: a list of Python numbers has no gradient."""
        if self._may_be_read():
            return self._tape.read(self).tolist()
        raise self._refused("by tolist()")

    def __reduce__(self) -> NoReturn:
        raise CutGraphError(f"a Tensor cannot be pickled: its gradient would be lost ({here()})")

    def __round__(self, ndigits: int | None = None) -> Any:
        return self._scalar(round) if ndigits is None else np.round(self, ndigits)


def _stands_for(new: Any, old: Any) -> bool:
    """Tell whether an array is of the same shape, dtype and layout as one that may be written to."""
    same = isinstance(new, np.ndarray) and (new.shape, new.dtype, new.strides) == (old.shape, old.dtype, old.strides)
    return same and bool(old.flags.writeable)


def _compiled_code_assigns() -> bool:
    """Tell whether an assignment comes from compiled code, such as that of Generator.shuffle, that the user called."""
    frame = sys._getframe(2)
    opname = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if not opname.startswith(("CALL", "PRECALL")) or is_internal(frame.f_code.co_filename):
        return False
    # A call too, from Python 3.13 on even where no compiled code is between: t.__setitem__(i, x), operator.setitem
    return not {"__setitem__", "setitem"} & {*frame.f_code.co_names}
