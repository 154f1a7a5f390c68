"""Every error minigrad raises, and where in the user's code it happened.

    MinigradError
    ├── CutGraphError        (RuntimeError)         a Tensor was about to become plain data, losing its gradient, or
    │                                               being frozen in a compiled function
    ├── UnsupportedError     (NotImplementedError)  a NumPy function, method or keyword that is not differentiated
    ├── MissingAdjoint       (NotImplementedError)  the derivative exists, but nobody has written it
    ├── OverwrittenError     (RuntimeError)         an array the tape relies on changed before the backward pass
    ├── NonFiniteError       (FloatingPointError)   under minigrad.debug(): a NaN or infinity appeared
    ├── ControlFlowError     (RuntimeError)         Python control flow on a value, in a function being compiled
    ├── LeakedTensorError    (RuntimeError)         a Tensor used after the call that created it had ended
    ├── ShapeError           (ValueError)           an array of the wrong shape
    ├── DtypeError           (TypeError)            an array of the wrong dtype, such as an integer parameter
    ├── AdjointMismatch      (AssertionError)       a gradient that was checked is wrong; has the report
    └── StructureError       (ValueError)           two trees that should have the same structure do not

    UnusedParameterWarning   (UserWarning)          a parameter that the loss does not depend on

An error message says what was wanted, what came, where in the user's code, and what to do about it.
"""

import linecache
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy

__all__ = [
    "AdjointMismatch",
    "ControlFlowError",
    "CutGraphError",
    "DtypeError",
    "LeakedTensorError",
    "MinigradError",
    "MissingAdjoint",
    "NonFiniteError",
    "OverwrittenError",
    "ShapeError",
    "StructureError",
    "UnsupportedError",
    "UnusedParameterWarning",
    "install_hint",
]


class MinigradError(Exception):
    """Base class of every error raised by minigrad."""


# CutGraphError must not be a TypeError: NumPy replaces a TypeError raised inside `__float__` by its own
# "setting an array element with a sequence", and the explanation would be lost.
class CutGraphError(MinigradError, RuntimeError):
    """A Tensor was about to be turned into plain data: its gradient would be lost, or its value frozen, silently."""


class UnsupportedError(MinigradError, NotImplementedError):
    """A NumPy function, method or keyword that minigrad does not differentiate."""


class MissingAdjoint(MinigradError, NotImplementedError):
    """A gradient was needed through an input whose adjoint is not written."""


class OverwrittenError(MinigradError, RuntimeError):
    """An array that the backward pass needs was changed after the forward pass had used it."""


class NonFiniteError(MinigradError, FloatingPointError):
    """A NaN or an infinity appeared; raised under `minigrad.debug()` only."""


class ControlFlowError(MinigradError, RuntimeError):
    """Python control flow depends on a value, in a function that is compiled for any values."""


class LeakedTensorError(MinigradError, RuntimeError):
    """A Tensor was used after the differentiation that created it had ended."""


class ShapeError(MinigradError, ValueError):
    """An array has another shape than it should have."""


class DtypeError(MinigradError, TypeError):
    """An array has another dtype than it should have."""


class StructureError(MinigradError, ValueError):
    """Two trees should have the same structure and do not."""


class AdjointMismatch(MinigradError, AssertionError):
    """A gradient that was checked is wrong. The message is the report's text, `report` the report itself."""

    def __init__(self, report: Any) -> None:
        super().__init__(str(report))
        self.report = report


class UnusedParameterWarning(UserWarning):
    """The loss does not depend on a parameter; its gradient is zero."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code, or what was generated for it."""

    file: str
    line: int
    is_adjoint: bool = False

    @property
    def text(self) -> str:
        """The line itself, or an empty string where the source cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def short(self) -> str:
        """The file's name and the line, without folders and text."""
        return f"{'adjoint of ' if self.is_adjoint else ''}{Path(self.file).name}:{self.line}"

    def __str__(self) -> str:
        place = f"{'adjoint of ' if self.is_adjoint else ''}{self.file}:{self.line}"
        return place + (f"    {self.text}" if self.text else "")


_SCIPY = str(Path(numpy.__file__).parents[1] / "scipy") + os.sep
_OURS = (str(Path(__file__).parent) + os.sep, str(Path(numpy.__file__).parent) + os.sep, _SCIPY)


class _Internal(dict[str, bool]):
    """Whether a file is internal, by its name: looked up for every recorded op, so the answer is remembered."""

    def __missing__(self, file: str) -> bool:
        internal = self[file] = file.startswith(_OURS) or file.startswith("<__array_function__")
        return internal


_internal = _Internal()


def user_frame(depth: int = 1) -> FrameType | None:
    """Return the innermost frame of the user's code: the first that belongs to none of minigrad, NumPy and SciPy.

    `depth` is how many frames can be passed over unseen, as in `sys._getframe`.
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and _internal[frame.f_code.co_filename]:
        frame = frame.f_back
    return frame


def is_internal(file: str) -> bool:
    """Tell whether a file belongs to minigrad, NumPy or SciPy."""
    return _internal[file]


def source_line(code: CodeType | None, instruction: int, is_adjoint: bool = False) -> SourceLine | None:
    """Return the line that a frame was at: finding it is left until an error needs it."""
    if code is None:
        return None
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return SourceLine(code.co_filename, line, is_adjoint)
    return SourceLine(code.co_filename, code.co_firstlineno, is_adjoint)


def here() -> str:
    """Return `file:line    text` of the user's code that is running now."""
    frame = user_frame()
    return "<unknown>" if frame is None else str(SourceLine(frame.f_code.co_filename, frame.f_lineno))


def scipy_calls() -> list[str]:
    """Return the names of SciPy's functions, such as scipy.special.softmax, that stand between the user and here."""
    names = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_SCIPY):
            public = [part for part in frame.f_globals["__name__"].split(".") if not part.startswith("_")]
            names.append(".".join([*public, frame.f_code.co_name]))
        frame = frame.f_back
    return names[::-1]


def warn(message: str, category: type[Warning], depth: int = 1) -> None:
    """Give a warning at the user's line, however deep in minigrad its cause lies; `depth` as for `user_frame`."""
    frame = user_frame(depth + 1)
    if frame is None:
        warnings.warn(message, category, stacklevel=depth + 1)
    else:
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def _warn_of_event(kind: str, flag: int) -> None:
    """Give NumPy's warning of a floating-point event; NumPy itself would place it in minigrad, where it ran."""
    op = sys._getframe(1).f_locals.get("op") if is_internal(sys._getframe(1).f_code.co_filename) else None
    name = getattr(op, "name", "").removeprefix("np.")
    warn(f"{kind} encountered" + (f" in {name}" if name else ""), RuntimeWarning)


@contextmanager
def user_code() -> Iterator[None]:
    """Within this context, where a user's function runs, what NumPy reports of it is reported as it should be.

    Warnings of floating-point events have the user's line. And what `Tensor.__float__` raises in `array[i] = t` is
    raised: NumPy hides it behind "setting an array element with a sequence".
    """
    modes = numpy.geterr()
    if "call" in modes.values() or "log" in modes.values():  # the user's own handler, or ours, in the outer function
        settings: dict[str, Any] = {}
    else:
        settings = {kind: "call" if mode == "warn" else mode for kind, mode in modes.items()}
        settings["call"] = _warn_of_event
    try:
        with numpy.errstate(**settings):
            yield
    except ValueError as error:
        if isinstance(error.__cause__, CutGraphError):
            raise error.__cause__ from None
        raise


def parameter_names(f: Callable[..., Any], n: int) -> list[str]:
    """Return what a function calls its first n positional arguments."""
    import inspect

    if isinstance(f, numpy.ufunc):  # their signatures are newer: from NumPy 2.4 on
        return ["x"] if f.nin == 1 else [f"x{i + 1}" for i in range(n)]
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    more = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "x")
    return [placed[i].name if i < len(placed) else f"{more}{i - len(placed)}" for i in range(n)]


def check_function(f: Any, who: str) -> None:
    """Raise TypeError unless f can be called: grad(loss(p, x)) is a common slip for grad(loss)(p, x)."""
    if not callable(f):
        form = f"minigrad.{who}(f, x)" if who in ("vjp", "jvp") else f"minigrad.{who}(f)(x)"
        raise TypeError(
            f"{who}: wanted a function, got {type(f).__name__}.\n"
            f"  at   {here()}\n"
            f"  fix  pass the function itself, {form}, not what it returns, minigrad.{who}(f(x))"
        )


def install_hint(extra: str) -> str:
    """Return the command that installs what an extra of minigrad brings."""
    return f'pip install "minigrad[{extra}]" (in a checkout: pip install -e ".[{extra}]")'


def unsupported(name: str, reason: str) -> UnsupportedError:
    """Return the error for a function that is not differentiated."""
    return UnsupportedError(
        f"{name} of a Tensor is not supported: {reason}\n"
        f"  at   {here()}\n"
        "  fix  write it with other NumPy functions, or wrap it in minigrad.custom_adjoint;\n"
        "       where no gradient is wanted, pass minigrad.stop_gradient(t)"
    )
