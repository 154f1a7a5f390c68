"""A context in which NumPy's constructors answer for Tensors, so that layers written for arrays alone can be traced.

A Tensor refuses to become plain data, and a plain buffer cannot hold one: code that says `np.asarray(x)`, or fills
`np.zeros(shape)` element by element, cannot be differentiated as it stands. Within this context it can. `np.asarray`
of a Tensor is the Tensor; `np.zeros` and its relatives give Tensors that are constants until something is assigned to
them; `isinstance(x, np.ndarray)` is true; functions of `math` take Tensors; and `float(loss)` is remembered.

Nothing in NumPy is changed. What the modules of the user's code call `np`, `math`, `zeros` or `sqrt` is replaced, for
as long as it lasts, by something that answers in its place, on this thread only. (Replacing `numpy.empty` itself would
give Tensors to compiled code, such as `numpy.random`, which looks it up and crashes.) One thread at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from minigrad.array import array as array_of
from minigrad.check.lines import is_users
from minigrad.errors import here, user_frame
from minigrad.leaving import _is_assignment
from minigrad.op import Recorded
from minigrad.special import erf
from minigrad.tensor import Tensor, plain

__all__ = ["Seen", "answering"]

numpy: Any = np  # NumPy's stubs do not know that its functions answer for Tensors
_lock = threading.RLock()


class Seen:
    """What happened in the context: which Tensors were turned into numbers, and where."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[float, Tensor, str]] = {}

    def tensor_of(self, x: Any) -> Any:
        """Return the Tensor that a number came from, or what is given."""
        known = self.numbers.get(id(x))
        return known[1] if known is not None and known[0] is x else x

    def lines(self, without: Iterable[Any] = ()) -> list[str]:
        """Return where Tensors were turned into numbers that are not among these results."""
        kept = {id(x) for x in without}
        return [line for i, (_, _, line) in self.numbers.items() if i not in kept]


@contextmanager
def answering(tape: Any, functions: Iterable[Any] = ()) -> Iterator[Seen]:
    """Let NumPy's constructors answer for Tensors of a tape.

    Parameters
    ----------
    tape
        On which buffers become Tensors.
    functions
        Functions and classes of the user's code. Their modules, and those of the user's that these use, are changed.
    """
    seen = Seen()
    with _lock:
        answers = _Answers(tape, threading.get_ident())
        convert = Tensor._scalar
        before: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for scope in _scopes_of(functions):
                for name, value in list(scope.items()):
                    known = answers.table.get(id(value))
                    if known is not None and known[0] is value:
                        before.append((scope, name, value))
                        scope[name] = known[1]
            Tensor._scalar = _remembering(convert, seen, answers.thread)  # type: ignore[method-assign]
            yield seen
        finally:
            Tensor._scalar = convert  # type: ignore[method-assign]
            for scope, name, value in before:
                scope[name] = value


def _scopes_of(functions: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the global variables of functions and classes of the user's code, and of what these refer to."""
    found: dict[int, dict[str, Any]] = {}
    queue = list(functions)
    while queue:
        x = queue.pop()
        for scope in _globals_of(x):
            file = scope.get("__file__")
            if id(scope) not in found and (file is None or is_users(file)):
                found[id(scope)] = scope
                queue += [v for v in scope.values() if isinstance(v, (type, FunctionType, ModuleType))]
    return list(found.values())


def _globals_of(x: Any) -> list[dict[str, Any]]:
    if isinstance(x, ModuleType):
        return [vars(x)] if getattr(x, "__file__", None) else []
    if isinstance(x, type):
        methods = [
            m for c in x.__mro__ if c is not object for m in vars(c).values() if isinstance(m, FunctionType)
        ]
        return [m.__globals__ for m in methods if is_users(m.__code__.co_filename)]
    x = getattr(x, "func", x)
    x = getattr(x, "__func__", x)
    return [x.__globals__] if isinstance(x, FunctionType) and is_users(x.__code__.co_filename) else []


def _remembering(convert: Callable[..., Any], seen: Seen, thread: int) -> Callable[..., Any]:
    """Return what `float(t)` does in the context: it gives the number, and remembers what it was the value of."""

    def scalar(tensor: Tensor, kind: Callable[[Any], Any]) -> Any:
        frame = user_frame()
        other = threading.get_ident() != thread or kind is not float or tensor._slot < 0
        if other or (frame is not None and _is_assignment(frame)):
            return convert(tensor, kind)
        number = float(plain(tensor))
        seen.numbers[id(number)] = (number, tensor._snapshot(), here())
        return number

    return scalar


class _Answers:
    """The table of substitutes: by the identity of the original."""

    def __init__(self, tape: Any, thread: int) -> None:
        self.tape = tape
        self.thread = thread
        self.table: dict[int, tuple[Any, Any]] = {}
        for f in (np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray):
            self._put(f, _as_array)
        self._put(np.array, _array)
        for name in "zeros ones empty zeros_like ones_like empty_like full_like eye".split():
            self._put(getattr(np, name), self._buffer)
        self._put(np.full, self._full)
        self._put(np.vectorize, _vectorize)
        self._put(np.lib.stride_tricks.as_strided, _as_strided)
        for name, substitute in _MATHEMATICS.items():
            self._put(getattr(math, name), substitute)
        self._put_plainly(np.ndarray, self._array_type())
        self._put_plainly(np.c_, _Columns(np.c_, -1))
        self._put_plainly(np.r_, _Columns(np.r_, 0))
        for module in (np.lib.stride_tricks, np.lib, np, math):
            self._put_plainly(module, _Module(module, self.table))

    def _mine(self) -> bool:
        """Tell whether the caller is on this thread."""
        return threading.get_ident() == self.thread

    def _put_plainly(self, original: Any, substitute: Any) -> None:
        self.table[id(original)] = (original, substitute)

    def _put(self, original: Callable[..., Any], substitute: Callable[..., Any]) -> None:
        def answer(*args: Any, **kwargs: Any) -> Any:
            return substitute(original, *args, **kwargs) if self._mine() else original(*args, **kwargs)

        for attribute in ("__name__", "__doc__", "__module__"):
            setattr(answer, attribute, getattr(original, attribute, None))
        self._put_plainly(original, answer)

    def _buffer(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Give a float array as a constant Tensor, which can be written to."""
        made = original(*args, **kwargs)
        if isinstance(made, np.ndarray) and made.dtype.kind in "fc":
            return Tensor(
                np.zeros_like(made) if original in (np.empty, np.empty_like) else made, self.tape, -1
            )
        return made

    def _full(
        self, original: Callable[..., Any], shape: Any, value: Any, dtype: Any = None, **kwargs: Any
    ) -> Any:
        if isinstance(value, Recorded):
            filled = numpy.copy(numpy.broadcast_to(value, shape))
            return filled if dtype is None else filled.astype(dtype)
        return self._buffer(original, shape, value, dtype, **kwargs)

    def _array_type(self) -> Any:
        """Return a class of which arrays are instances, and Tensors too where the user's code asks."""
        answers = self

        class Kind(type):
            def __instancecheck__(cls, x: Any) -> bool:
                return isinstance(x, original) or (isinstance(x, Recorded) and answers._mine())

            def __subclasscheck__(cls, c: Any) -> bool:
                return c is cls or issubclass(c, original)

            def __call__(cls, *args: Any, **kwargs: Any) -> Any:
                return original(*args, **kwargs)

            def __getattr__(cls, name: str) -> Any:
                return getattr(original, name)

        original = np.ndarray
        ndarray = Kind("ndarray", (), {"__module__": "numpy"})
        return ndarray


def _as_array(original: Callable[..., Any], a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(a, Recorded):
        return a if dtype is None else a.astype(dtype, copy=False)  # type: ignore[attr-defined]
    if _has_tensor(a):
        return array_of(a, dtype)
    return original(a, dtype, *args, **kwargs)


def _array(original: Callable[..., Any], a: Any, dtype: Any = None, **kwargs: Any) -> Any:
    if not _has_tensor(a):
        return original(a, dtype, **kwargs)
    made = array_of(a, dtype)
    if kwargs.get("copy", True) and made is a:
        made = numpy.copy(made)
    missing = kwargs.get("ndmin", 0) - made.ndim
    return made.reshape((1,) * missing + made.shape) if missing > 0 else made


def _has_tensor(a: Any) -> bool:
    return isinstance(a, Recorded) or (isinstance(a, (list, tuple)) and any(_has_tensor(part) for part in a))


def _vectorize(original: Callable[..., Any], f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a vectorised function that is called with an element of a Tensor at a time."""
    usual = original(f, *args, **kwargs)

    def vectorised(*arrays: Any) -> Any:
        if not any(isinstance(a, Recorded) for a in arrays):
            return usual(*arrays)
        shape = np.broadcast_shapes(*map(np.shape, arrays))
        flat = [numpy.broadcast_to(a, shape).reshape(-1) for a in arrays]
        found = [f(*(a[i] for a in flat)) for i in range(flat[0].shape[0])]
        return array_of(found).reshape(shape)

    return vectorised


def _as_strided(
    original: Callable[..., Any], x: Any, shape: Any = None, strides: Any = None, **kwargs: Any
) -> Any:
    """Take the elements that a strided view would show."""
    if not isinstance(x, Recorded):
        return original(x, shape, strides, **kwargs)
    data = plain(x)
    if not data.flags.c_contiguous:
        return original(x, shape, strides, **kwargs)  # which refuses a Tensor, with the reason
    places = np.arange(data.size).reshape(data.shape)
    scale = [s // data.itemsize * places.itemsize for s in (data.strides if strides is None else strides)]
    wanted = original(places, data.shape if shape is None else shape, scale)
    return numpy.take(numpy.reshape(x, -1), np.array(wanted))


class _Module(ModuleType):
    """A module with other functions in place of some."""

    def __init__(self, original: ModuleType, table: dict[int, tuple[Any, Any]]) -> None:
        super().__init__(original.__name__, original.__doc__)
        self._original = original
        for name, value in vars(original).items():
            known = table.get(id(value))
            if known is not None and known[0] is value:
                self.__dict__[name] = known[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __dir__(self) -> list[str]:
        return dir(self._original)


class _Columns:
    """`np.c_` and `np.r_` for arrays, some of which are Tensors."""

    def __init__(self, original: Any, axis: int) -> None:
        self._original = original
        self._axis = axis

    def __getitem__(self, key: Any) -> Any:
        if not _has_tensor(key):
            return self._original[key]
        parts = [numpy.atleast_1d(part) for part in (key if isinstance(key, tuple) else (key,))]
        if self._axis == -1:
            parts = [part.reshape(-1, 1) if part.ndim == 1 else part for part in parts]
        return numpy.concatenate(parts, axis=self._axis)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _of_math(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def answer(original: Callable[..., Any], *args: Any) -> Any:
        return function(*args) if any(isinstance(a, Recorded) for a in args) else original(*args)

    answer.__name__ = name
    return answer


_NAMES: dict[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "fabs": np.abs, "pow": np.power,
    "erf": erf,
}  # fmt: skip
_MATHEMATICS = {name: _of_math(name, function) for name, function in _NAMES.items()}
