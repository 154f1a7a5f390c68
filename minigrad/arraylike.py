"""What a Tensor has in common with an ndarray: the attributes, the operators and the methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigrad import protocol
from minigrad.errors import here
from minigrad.op import COMPOSITES, OPS, Recorded
from minigrad.rules import index as indexing
from minigrad.rules.unsupported import METHODS
from minigrad.shapes import shape_of

__all__ = ["Arraylike", "dtype_of", "memory", "plain", "trace_below"]

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


class Arraylike(Recorded):
    """A recorded value that answers as an ndarray does. Tensors add to it what differs: assignment, and refusals."""

    __slots__ = ()

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

    def __getitem__(self, index: Any) -> Any:
        if indexing.is_basic(index):
            return indexing.getitem(self, index=index)
        template, arrays = indexing.split_index(index)
        return indexing.gather(self, *arrays, index=template)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError(f"iteration over a 0-d Tensor ({here()})")
        return (self[i] for i in range(len(self)))

    def __copy__(self) -> Any:
        return numpy.copy(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return numpy.copy(self)

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

    def fill(self: Any, value: Any) -> None:
        """As `numpy.ndarray.fill`."""
        self[...] = value

    def sort(self: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """As `numpy.ndarray.sort`: in place."""
        self[...] = numpy.sort(self, axis=axis, kind=kind)

    def partition(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
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


def _operator(ufunc: np.ufunc, name: str) -> None:
    op = OPS[ufunc]
    apply = op.apply

    def forward(self: Any, other: Any) -> Any:
        return NotImplemented if _leaves_alone(other) else apply((self, other), {})

    def reflected(self: Any, other: Any) -> Any:
        return NotImplemented if _leaves_alone(other) else apply((other, self), {})

    def in_place(self: Any, other: Any) -> Any:
        return self._in_place(op, other)

    for prefix, method in (("", forward), ("r", reflected), ("i", in_place)):
        method.__name__ = f"__{prefix}{name}__"
        setattr(Arraylike, method.__name__, method)


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

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return protocol.call_function(function, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = doc
    setattr(Arraylike, name, method)


def _unary(ufunc: np.ufunc, name: str) -> None:
    op = OPS[ufunc]

    def method(self: Any) -> Any:
        return op(self)

    setattr(Arraylike, name, method)


def _comparison(ufunc: np.ufunc, name: str) -> None:
    op = OPS[ufunc]

    def method(self: Any, other: Any) -> Any:
        return op(self, other) if other is not None else NotImplemented

    setattr(Arraylike, name, method)


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
