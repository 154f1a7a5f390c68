"""compile(f): traced once per structure and shapes, planned once, run many times."""

from __future__ import annotations

import functools
import inspect
import os
import re
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from minigrad import tree
from minigrad.compiler.executable import Executable
from minigrad.compiler.kinds import kind
from minigrad.compiler.plan import Plan
from minigrad.compiler.report import MemoryReport, Profile, measure, timeline
from minigrad.errors import check_function, install_hint
from minigrad.op import Recorded
from minigrad.program import Program

__all__ = ["Compiled", "compile"]

LLVMLITE = (0, 45)  # the oldest: on AVX-512, LLVM 15 of 0.44 aborts the process on some kernels


@overload
def compile(f: Callable[..., Any], *, donate: int | Sequence[int] = (), backend: str = "auto") -> Compiled: ...


@overload
def compile(
    f: None = None, *, donate: int | Sequence[int] = (), backend: str = "auto"
) -> Callable[[Callable[..., Any]], Compiled]: ...


def compile(f: Callable[..., Any] | None = None, *, donate: int | Sequence[int] = (), backend: str = "auto") -> Any:
    """Return a function that does what `f` does, planned once and run many times.

    As a decorator it is written `@minigrad.compile` or, with options, `@minigrad.compile(donate=(0, 1))`.

    Parameters
    ----------
    f
        A function of arrays and trees of arrays. It may differentiate, and update parameters. It is traced for every
        new structure, shape and dtype of its arguments; Python values among them are part of the program, arrays that
        it captures are read at each run, and a `numpy.random.Generator` draws as it would eagerly.
    donate
        Positional arguments whose arrays the results may overwrite, such as parameters and the optimiser's state:
        an argument goes with the first result of its structure and shapes, what is left with results of the same
        shape. Numbers (0-d arrays) stay out of it.
    backend : {"auto", "numpy", "llvm"}
        "auto" takes "llvm", kernels of machine code, where llvmlite 0.45 or later is installed. They are shared among
        MINIGRAD_NUM_THREADS threads, one for each core by default; see docs/compile.md. "numba" means "llvm" too.

    Returns
    -------
    Compiled
        Call it like `f`. `print(compiled.program)`, `print(compiled.plan)`, `compiled.profile()`,
        `compiled.memory()`.

    Raises
    ------
    ControlFlowError
        When it is called, if Python control flow or a shape depends on the value of an array.
    CutGraphError
        When it is called, if a value becomes a Python number or a plain array, and so would be frozen.
    OverwrittenError
        When it is called, if `f` changes an argument in place.
    """
    if backend not in ("auto", "numpy", "llvm", "numba"):
        raise ValueError(f"compile: backend should be 'auto', 'numpy' or 'llvm', got {backend!r}")
    if backend == "numba":  # its name when numba compiled a part of it
        backend = "llvm"
    if backend == "auto":
        backend = "llvm" if _has_llvm() else "numpy"
    elif backend == "llvm" and not _has_llvm():
        oldest = ".".join(map(str, LLVMLITE))
        raise ImportError(f'compile: backend "llvm" needs llvmlite {oldest} or later: {install_hint("fast")}')
    donated = _positions(donate)
    return functools.partial(Compiled, donate=donated, backend=backend) if f is None else Compiled(f, donated, backend)


def _positions(donate: Any) -> tuple[int, ...]:
    """Return the positions of arguments that donate= names."""
    given = tuple(donate) if hasattr(donate, "__iter__") else (donate,)
    if not all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) and i >= 0 for i in given):
        raise TypeError(f"compile: donate takes positions of arguments, such as 0 or (0, 1), got {donate!r}")
    return tuple(map(int, given))


def _has_llvm() -> bool:
    from importlib import metadata

    try:
        found = re.match(r"(\d+)\.(\d+)", metadata.version("llvmlite"))
    except metadata.PackageNotFoundError:
        return False
    return found is not None and tuple(map(int, found.groups())) >= LLVMLITE


class Compiled:
    """A function that is planned once per structure and shapes of its arguments."""

    def __init__(self, f: Callable[..., Any], donate: tuple[int, ...], backend: str) -> None:
        check_function(f, "compile")
        functools.update_wrapper(self, f)
        self.f = f
        self.donate = donate
        self.backend = backend
        self._begin_anew()
        self._process = os.getpid()

    def _begin_anew(self) -> None:
        self._made: dict[Any, Executable] = {}
        self._last: Executable | None = None
        self._last_key: Any = None
        self._lock = threading.RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Compiled:
        """Return the same function with programs of its own, still to be made."""
        return Compiled(self.f, self.donate, self.backend)

    def __get__(self, instance: Any, owner: Any = None) -> Compiled:
        """Refuse to be a method: an object is neither an argument that can be traced nor, like a closure, fixed."""
        if instance is None:
            return self
        name = getattr(self.f, "__name__", "f")
        raise TypeError(
            f"compile: {name} is a method of {type(instance).__name__}, compiled for the class\n"
            f"  fix  leave the decorator out, and compile it for an object: {name} = minigrad.compile(x.{name})"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, compiling it if they are of a new kind."""
        if kwargs:
            bound = inspect.signature(self.f).bind(*args, **kwargs)
            if bound.kwargs:
                raise TypeError(
                    f"compile: {', '.join(bound.kwargs)} cannot be given by position, so not to a compiled function"
                )
            args = bound.args
        if any(not 0 <= i < len(args) for i in self.donate):
            there = f"{len(args)} were given"
            raise ValueError(f"compile: donate={self.donate} names an argument that is not there: {there}")
        if self._process != os.getpid():
            self._after_fork()
        structure: Any = self._last_key[0] if self._last_key is not None else None
        leaves: Any = tree.leaves_of(structure, args) if structure is not None else None
        if leaves is None:
            leaves, structure = tree.flatten(args)
        if any(isinstance(leaf, Recorded) for leaf in leaves):
            return self.f(*args)  # inside a differentiation or another trace: be part of it
        key = (structure, tuple(map(kind, leaves)), structure.orders)  # the function may go through a dict
        with self._lock:  # a program has one memory
            executable = self._last if key == self._last_key else self._made.get(key)
            if executable is None:
                self._say_why(key, args)
                executable = self._made[key] = Executable(self.f, args, self.donate, self.backend)
            self._last, self._last_key = executable, key
            return executable(leaves)

    def _after_fork(self) -> None:
        """Forget the programs if a thread of the parent was in one of them: here it will never end."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._begin_anew()
        self._process = os.getpid()

    def _say_why(self, key: Any, args: tuple[Any, ...]) -> None:
        """Warn, with the reason, when the function is compiled again and again."""
        n = len(self._made)
        if not n or n % 8:
            return
        before = next(reversed(self._made))[1]
        paths = [f"argument {i} {p}".strip() for i, a in enumerate(args) for p in tree.paths(a)]
        changed = [f"{p} is {a[-1]}, was {b[-1]}" for p, a, b in zip(paths, key[1], before, strict=False) if a != b]
        arrays = any(a != b and a[0] == "array" for a, b in zip(key[1], before, strict=False))
        fix = "pad arrays to a few shapes" if arrays else "pass a number that changes as an array: np.float32(x)"
        warnings.warn(
            f"{getattr(self.f, '__name__', 'f')} is compiled for the {n + 1}th time: "
            f"{'; '.join(changed[:3]) or 'the structure of the arguments changed'}.\n"
            f"  fix  {fix}",
            RuntimeWarning,
            stacklevel=3,
        )

    @property
    def executable(self) -> Executable:
        """What ran last."""
        if self._last is None:
            raise RuntimeError(f"{getattr(self.f, '__name__', 'f')} has not been called yet: it is compiled when it is")
        return self._last

    @property
    def program(self) -> Program:
        """The program that ran last, as it was planned."""
        return self.executable.program

    @property
    def plan(self) -> Plan:
        """Its steps."""
        return self.executable.plan

    def profile(self, repeat: int = 20) -> Profile:
        """Return a table of the steps of the program that ran last: how often, how long, how much memory they touch."""
        return measure(self.executable, repeat)

    def memory(self) -> MemoryReport:
        """Return the planned memory of the program that ran last: its peak, and what is alive at each step."""
        return timeline(self.plan)
