"""The Tensor: an array whose history is recorded. It answers to NumPy's two protocols, operators and ndarray methods.

Assignment (`t[i] = v`, `t += v`) never writes into an array that something else may hold. The Tensor object is given a
new value, and so are, when they are next looked at, the Tensors that NumPy would have made views of the same memory.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from minigrad import protocol
from minigrad.errors import CutGraphError, here, is_internal, unsupported
from minigrad.leaving import refusal
from minigrad.op import COMPOSITES, OPS, Op, Recorded
from minigrad.rules import index as indexing
from minigrad.rules.unsupported import METHODS
from minigrad.shapes import shape_of
from minigrad.views import is_already_there, steps_to, written

__all__ = ["Tensor", "dtype_of", "plain", "trace_below"]

numpy: Any = np  # NumPy's stubs do not know that its functions answer for Tensors


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of an array, a Tensor or a Python scalar."""
    dtype = getattr(x, "dtype", None)
    return dtype if dtype is not None else np.asarray(x).dtype


def plain(x: Any) -> Any:
    """Return the data below all levels of recording. It is not a copy: it must not be handed out or written to."""
    while isinstance(x, Recorded):
        if x._base is not None and x._version != x._base._version:
            x._refresh()
        if x._tape.symbolic:
            x._tape.settle(x)
        x = x._value
    return x


def memory(x: Any) -> Any:
    """Return the array below all levels of recording, for its layout: a trace may not have written numbers into it."""
    while isinstance(x, Recorded):
        if x._base is not None and x._version != x._base._version:
            x._refresh()
        x = x._value
    return x


def trace_below(x: Any) -> Any:
    """Return the trace that lies below a Tensor: what happens to it is being written down. None if there is none."""
    while isinstance(x, Recorded):
        if x._tape.symbolic:
            return x._tape
        x = x._value
    return None


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


class Tensor(Recorded):
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

    def __getitem__(self, index: Any) -> Any:
        if indexing.is_basic(index):
            return indexing.getitem(self, index=index)
        template, arrays = indexing.split_index(index)
        return indexing.gather(self, *arrays, index=template)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError(f"iteration over a 0-d Tensor ({here()})")
        return (self[i] for i in range(len(self)))

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        try:
            return self._value.shape  # type: ignore[no-any-return]
        except AttributeError:  # a Python number
            return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        return dtype_of(self._value)

    @property
    def ndim(self) -> int:
        return len(shape_of(self._value))

    @property
    def size(self) -> int:
        return np.size(self._value)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def flags(self) -> Any:
        return memory(self).flags

    @property
    def strides(self) -> Any:
        return memory(self).strides

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def T(self) -> Any:
        return numpy.transpose(self)

    @property
    def mT(self) -> Any:
        return numpy.matrix_transpose(self)

    @property
    def real(self) -> Any:
        return numpy.real(self)

    @property
    def imag(self) -> Any:
        return numpy.imag(self)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d Tensor")
        return self.shape[0]

    def __contains__(self, value: Any) -> bool:
        return bool(numpy.any(numpy.equal(self, value)))

    def __repr__(self) -> str:
        elements = np.array2string(np.asarray(plain(self)), separator=", ", prefix="Tensor(")
        return f"Tensor({elements}, dtype={self.dtype})"

    def __format__(self, spec: str) -> str:
        return format(plain(self), spec) if spec else str(self)

    def __bool__(self) -> bool:
        # Like a comparison with zero: control flow, which has no gradient to lose.
        below = trace_below(self)
        return bool(plain(self) if below is None else below.truth(self))

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

    def __copy__(self) -> Any:
        return numpy.copy(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return numpy.copy(self)

    def __round__(self, ndigits: int | None = None) -> Any:
        return self._scalar(round) if ndigits is None else numpy.round(self, ndigits)

    def __divmod__(self, other: Any) -> Any:
        return numpy.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return numpy.divmod(other, self)

    # --- methods whose arguments differ from the function's -------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """As `numpy.ndarray.reshape`: the shape as a tuple or as separate arguments."""
        shape = shape[0] if len(shape) == 1 else shape
        keywords = {"order": order} if copy is None else {"order": order, "copy": copy}
        return protocol.call_function(np.reshape, (self, shape), keywords)

    def transpose(self, *axes: Any) -> Any:
        """As `numpy.ndarray.transpose`: the axes as a tuple or as separate arguments."""
        axes = axes[0] if len(axes) == 1 else axes
        return numpy.transpose(self, axes or None)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """As `numpy.ndarray.astype`. A cast to integers or booleans has no gradient and gives a plain array."""
        if not copy and self.dtype == np.dtype(dtype):
            return self
        return indexing.cast(self, dtype=np.dtype(dtype), casting=casting)

    def copy(self, order: str = "C") -> Any:
        """As `numpy.ndarray.copy`; the copy is recorded, not detached."""
        return numpy.copy(self, order=order)

    def flatten(self, order: str = "C") -> Any:
        """As `numpy.ndarray.flatten`."""
        return numpy.copy(numpy.ravel(self, order=order))

    def dot(self, other: Any, out: Any = None) -> Any:
        """As `numpy.ndarray.dot`."""
        return numpy.dot(self, other) if out is None else numpy.dot(self, other, out=out)

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """As `numpy.ndarray.to_device`: NumPy knows one device, the processor."""
        if device != "cpu":
            raise ValueError(f"a Tensor can be on the device 'cpu' only, got {device!r}")
        return self

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Any:
        """As `numpy.ndarray.compress`."""
        return np.compress(condition, self, axis=axis, out=out)

    def fill(self, value: Any) -> None:
        """As `numpy.ndarray.fill`."""
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """As `numpy.ndarray.sort`: in place."""
        self[...] = numpy.sort(self, axis=axis, kind=kind)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """As `numpy.ndarray.partition`: in place."""
        self[...] = numpy.partition(self, kth, axis=axis)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """As `numpy.ndarray.put`."""
        numpy.put(self, indices, values, mode=mode)

    def view(self, *args: Any) -> Any:
        """Refuse, except for a view of the same dtype."""
        if args and not (len(args) == 1 and args[0] == self.dtype):
            raise protocol.unsupported("ndarray.view", METHODS["view"])
        return self[...]

    def __getattr__(self, name: str) -> Any:
        # NumPy looks for the names with underscores itself, and takes AttributeError for "not there".
        if name in METHODS and not name.startswith("__"):
            raise protocol.unsupported(f"ndarray.{name}", METHODS[name])
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")


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


def _operator(ufunc: np.ufunc, name: str) -> None:
    op = OPS[ufunc]
    apply = op.apply

    def forward(self: Tensor, other: Any) -> Any:
        return NotImplemented if _leaves_alone(other) else apply((self, other), {})

    def reflected(self: Tensor, other: Any) -> Any:
        return NotImplemented if _leaves_alone(other) else apply((other, self), {})

    def in_place(self: Tensor, other: Any) -> Any:
        return self._in_place(op, other)

    for prefix, method in (("", forward), ("r", reflected), ("i", in_place)):
        method.__name__ = f"__{prefix}{name}__"
        setattr(Tensor, method.__name__, method)


def _leaves_alone(x: Any) -> bool:
    """Tell whether an operand asks NumPy to leave it alone (`__array_ufunc__ = None`): it handles the operator."""
    return type(x) is not float and getattr(x, "__array_ufunc__", True) is None


for _ufunc, _name in (
    (np.add, "add"),
    (np.subtract, "sub"),
    (np.multiply, "mul"),
    (np.divide, "truediv"),
    (np.floor_divide, "floordiv"),
    (np.remainder, "mod"),
    (np.power, "pow"),
    (np.matmul, "matmul"),
    (np.bitwise_and, "and"),  # of comparisons, which are Tensors only under a trace
    (np.bitwise_or, "or"),
    (np.bitwise_xor, "xor"),
):
    _operator(_ufunc, _name)


def _method(function: Any, name: str, doc: str) -> None:
    op, other = OPS.get(function), COMPOSITES.get(function)
    if op is None and other is None:
        return

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return protocol.call_function(function, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = doc
    setattr(Tensor, name, method)


def _unary(ufunc: np.ufunc, name: str) -> None:
    op = OPS[ufunc]

    def method(self: Tensor) -> Any:
        return op(self)

    setattr(Tensor, name, method)


def _comparison(ufunc: np.ufunc, name: str) -> None:
    op = OPS[ufunc]

    def method(self: Tensor, other: Any) -> Any:
        return op(self, other) if other is not None else NotImplemented

    setattr(Tensor, name, method)


for _name, _short in (("negative", "neg"), ("positive", "pos"), ("absolute", "abs"), ("invert", "invert")):
    _unary(getattr(np, _name), f"__{_short}__")
for _name, _short in (
    ("equal", "eq"),
    ("not_equal", "ne"),
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
):
    _comparison(getattr(np, _name), f"__{_short}__")
for _name in (
    "sum prod mean std var max min argmax argmin any all cumsum cumprod argsort argpartition round clip conj conjugate "
    "ravel squeeze swapaxes repeat take trace diagonal nonzero searchsorted choose"
).split():
    _method(getattr(np, _name), _name, f"As `numpy.ndarray.{_name}`.")
