"""What the user's code calls its values: found by looking at its frames while it runs, not by parsing its source.

So closures, lambdas and functions typed at a prompt have names too.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from minigrad.errors import is_internal
from minigrad.op import Recorded
from minigrad.tape import Tape

__all__ = ["Names"]

ASSIGNED, RETURNED, PASSED = range(3)  # how telling a name is: the lower the better
_NOT_HOLDERS = (type, FunctionType, ModuleType)
_STANDARD = sysconfig.get_paths()["stdlib"]


class Names:
    """The names of Tensors and of plain values.

    Of several names for one Tensor the most telling wins: that of a local variable it was assigned to, then that of
    the function that returned it, then that of a parameter it was passed as. Of equals, the first.
    """

    def __init__(self) -> None:
        # By the level of the tape, which is its own: a tape that is done with is not kept, as it may keep large arrays.
        self._found: dict[int, dict[int, tuple[int, str]]] = {}
        self._constants: dict[int, tuple[Any, str]] = {}  # by id; the value is held so that its id stays its own
        self._arguments: dict[FrameType, dict[str, tuple[Any, int]]] = {}  # of the frames that are running

    def of(self, tape: Tape) -> dict[int, tuple[str, bool]]:
        """Return the name of each named slot of a tape, and whether a variable has it, or only a function."""
        found = self._found.get(tape.level, {}).items()
        return {slot: (name, rank != ASSIGNED) for slot, (rank, name) in found}

    def of_constant(self, value: Any) -> str | None:
        """Return the name of an array, or a Python float, that came from outside."""
        known = self._constants.get(id(value))
        return None if known is None else known[1]

    def look(self, frame: FrameType | None, constants: Iterable[Any] = ()) -> None:
        """Note the names that a frame gives to Tensors now, and to these constants."""
        if frame is None or _is_library(frame.f_code):
            return
        came = self._arguments.get(frame)
        parameters = _parameters(frame.f_code)
        for name, value in frame.f_locals.items():
            if isinstance(value, Recorded) and name.isidentifier():
                passed = name in parameters
                if passed and came is not None:
                    first, slot = came.get(name, (None, -1))
                    passed = value is first and value._slot == slot  # else the parameter was assigned to
                self._note(value, name, PASSED if passed else ASSIGNED)
        for value in constants:
            if isinstance(value, (np.ndarray, float)) and id(value) not in self._constants:
                called = _name_in(frame, value)
                if called is not None:
                    self._constants[id(value)] = (value, called)

    def _note(self, value: Any, name: str, rank: int) -> None:
        while isinstance(value, Recorded):
            if value._slot >= 0:
                names = self._found.setdefault(value._tape.level, {})
                known = names.get(value._slot)
                if known is None or rank < known[0]:
                    names[value._slot] = (rank, name)
            value = value._value

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at every frame of the user's code as it is entered and left, on this thread only."""
        before = sys.getprofile()

        def profile(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call" and not _is_library(frame.f_code):
                self._arguments[frame] = {
                    name: (value, value._slot) for name, value in frame.f_locals.items() if isinstance(value, Recorded)
                }
            elif event == "return" and not _is_library(frame.f_code):
                self.look(frame)
                self._arguments.pop(frame, None)
                name = frame.f_code.co_name
                if isinstance(arg, Recorded) and name.isidentifier() and not name.startswith("__"):
                    self._note(arg, name.strip("_"), RETURNED)

        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(before if callable(before) else None)
            if before is not None and not callable(before):  # a profiler written in C: it cannot be set, but enabled
                before.enable()


def _is_library(code: CodeType) -> bool:
    """Tell whether code belongs to minigrad, NumPy or the standard library."""
    file = code.co_filename
    return is_internal(file) or (file.startswith((_STANDARD, "<frozen")) and "-packages" not in file)


def _parameters(code: CodeType) -> tuple[str, ...]:
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    return code.co_varnames[:n]


def _name_in(frame: FrameType, value: Any) -> str | None:
    """Return what a frame calls a value: a local, an attribute of a local such as self, or a global."""
    local = frame.f_locals
    attributes = [vars(v) for v in local.values() if hasattr(v, "__dict__") and not isinstance(v, _NOT_HOLDERS)]
    scopes = [local, *attributes, {n: frame.f_globals[n] for n in frame.f_code.co_names if n in frame.f_globals}]
    for scope in scopes:
        for name, v in scope.items():
            if v is value and name.isidentifier():
                return name.strip("_") or None
    return None
