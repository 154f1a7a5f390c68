"""A context in which NumPy's constructors answer for Tensors, so that layers written for arrays alone can be traced.

A Tensor refuses to become plain data, and a plain buffer cannot hold one: code that says `np.asarray(x)`, or fills
`np.zeros(shape)` element by element, cannot be differentiated as it stands. Within this context it can. `np.asarray`
of a Tensor is the Tensor; `np.zeros` and its relatives give Tensors that are constants until something is assigned to
them; `isinstance(x, np.ndarray)` is true; functions of `math` take Tensors; and `float(x)` is a Tensor without axes.

Nothing in NumPy is changed. What the modules of the user's code call `np`, `math`, `zeros`, `sqrt` or `float` is
replaced, for as long as it lasts, by something that answers in its place, on this thread only. (Replacing `numpy.empty`
itself would give Tensors to compiled code, such as `numpy.random`, which looks it up and crashes.) One thread at a
time.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from minigrad.check.lines import is_users
from minigrad.check.stand_ins import STAND_INS, Columns, in_place_of_class, of_scipy
from minigrad.errors import here, user_frame
from minigrad.leaving import _is_assignment
from minigrad.op import Recorded
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
        convert, item = Tensor._scalar, Tensor.item
        before: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for scope in _scopes_of(functions):
                for name, value in list(scope.items()):
                    known = answers.table.get(id(value))
                    if known is not None and known[0] is value:
                        before.append((scope, name, value))
                        scope[name] = known[1]
                if "float" not in scope:  # a built-in one
                    before.append((scope, "float", None))
                    scope["float"] = answers.float
            Tensor._scalar = _remembering(convert, seen, answers.thread)  # type: ignore[method-assign]
            Tensor.item = lambda x, *i: item(x, *i) if i else answers.float(x)  # type: ignore[method-assign]
            yield seen
        finally:
            Tensor._scalar, Tensor.item = convert, item  # type: ignore[method-assign]
            for scope, name, value in before:
                if value is None:
                    del scope[name]
                else:
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
        methods = [m for c in x.__mro__ if c is not object for m in vars(c).values() if isinstance(m, FunctionType)]
        return [m.__globals__ for m in methods if is_users(m.__code__.co_filename)]
    x = getattr(x, "func", x)
    x = getattr(x, "__func__", x)
    return [x.__globals__] if isinstance(x, FunctionType) and is_users(x.__code__.co_filename) else []


def _remembering(convert: Callable[..., Any], seen: Seen, thread: int) -> Callable[..., Any]:
    """Return what `float(t)` does in the context: it gives the number, and remembers what it was the value of."""

    def scalar(tensor: Tensor, kind: Callable[[Any], Any]) -> Any:
        frame = user_frame()
        other = threading.get_ident() != thread or kind not in (float, int) or tensor._slot < 0
        if other or (frame is not None and _is_assignment(frame)):
            return convert(tensor, kind)
        if kind is int:  # a count or an index: it does not move with the Tensor
            return int(plain(tensor))
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
        for original, stand_in in (*STAND_INS, *of_scipy()):
            self._put(original, stand_in)
        for name in "zeros ones empty zeros_like ones_like empty_like eye identity".split():
            self._put(getattr(np, name), self._buffer)
        self._put(np.full, self._full)
        self._put(np.full_like, self._full_like)
        self._put_plainly(np.ndarray, in_place_of_class(np.ndarray, self._is_tensor, self._buffer, {}))
        self.float = in_place_of_class(float, self._is_number, self._number, {"dtype": np.dtype(float)})
        self._put_plainly(np.c_, Columns(np.c_, -1))
        self._put_plainly(np.r_, Columns(np.r_, 0))
        scipy = (sys.modules.get(name) for name in ("scipy.signal", "scipy.special", "scipy"))
        for module in (np.lib.stride_tricks, np.lib, np, math, *filter(None, scipy)):
            self._put_plainly(module, _Module(module, self.table))

    def _mine(self) -> bool:
        """Tell whether the caller is on this thread."""
        return threading.get_ident() == self.thread

    def _is_tensor(self, x: Any) -> bool:
        return isinstance(x, Recorded) and self._mine()

    def _is_number(self, x: Any) -> bool:
        return self._is_tensor(x) and not x.shape and x.dtype == float

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
            return Tensor(np.zeros_like(made) if original in (np.empty, np.empty_like) else made, self.tape, -1)
        return made

    def _full(self, original: Callable[..., Any], shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Any:
        if isinstance(fill_value, Recorded):
            filled = numpy.copy(numpy.broadcast_to(fill_value, shape))
            return filled if dtype is None else filled.astype(dtype)
        return self._buffer(original, shape, fill_value, dtype, **kwargs)

    def _full_like(
        self, original: Callable[..., Any], a: Any, fill_value: Any, dtype: Any = None, **kwargs: Any
    ) -> Any:
        if isinstance(fill_value, Recorded):
            return self._full(original, a.shape, fill_value, a.dtype if dtype is None else dtype)
        return self._buffer(original, a, fill_value, dtype, **kwargs)

    def _number(self, original: type, *args: Any) -> Any:
        """Give what `float(x)` is of a Tensor: the same Tensor, without axes."""
        (x,) = args or (0.0,)
        if isinstance(x, Tensor) and x._slot >= 0 and x.size == 1 and self._mine():
            return x.reshape(()).astype(float, copy=False)
        return original(x)


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
