"""compile(f): traced once per structure and shapes, planned once, run many times."""

from __future__ import annotations

import ctypes
import functools
import inspect
import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from minigrad import tree
from minigrad.compiler.captured import Captured
from minigrad.compiler.donate import pair
from minigrad.compiler.draws import Source, recording_draws, refill
from minigrad.compiler.kinds import kind
from minigrad.compiler.layout import materialise
from minigrad.compiler.lower import lower
from minigrad.compiler.numpy_backend import Memory, Step, numpy_steps
from minigrad.compiler.plan import Plan, plan
from minigrad.compiler.report import MemoryReport, Profile, measure, timeline
from minigrad.errors import check_function, install_hint
from minigrad.op import Recorded
from minigrad.program import Atom, Const, Equation, Program
from minigrad.trace import trace_tree
from minigrad.zero import has_nan, zero_stays_zero

__all__ = ["Compiled", "compile"]

LLVMLITE = (0, 45)  # the oldest: on AVX-512, LLVM 15 of 0.44 aborts the process on some kernels
SMALL = 1 << 16  # bytes: an argument up to this size is copied in, a larger one is used where it lies


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
        self._made: dict[Any, Executable] = {}
        self._last: Executable | None = None
        self._last_key: Any = None
        self._lock = threading.RLock()

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


class Executable:
    """A program with memory of its own, ready to run."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], donate: tuple[int, ...], backend: str) -> None:
        self.sources: list[Source] = []
        captured = Captured(f)
        self.traced, self.structure = trace_tree(recording_draws(f, self.sources), *args, every_name=False)
        captured.check()
        self.program, orders = materialise(lower(self.traced))
        self.inputs = self.program.inputs
        constants = [a if isinstance(a, Const) else None for a in self.traced.outputs]
        self.python_values = [a if a and not isinstance(a.value, np.ndarray) else None for a in constants]
        self.places = [i for i, x in enumerate(tree.leaves(args)) if isinstance(x, (np.ndarray, np.generic))]
        self.donated = pair(self.program, self.structure, args, donate)
        self.plan = plan(self.program, orders, kernels=backend == "llvm", donated=self.donated)
        views = self.plan.views
        self.owned = {v for out, v in self.donated.items() if views[out].is_same(views[v])}
        self.in_place = {out: self.inputs.index(v) for out, v in self.donated.items() if v in self.owned}
        _give_back_freed_memory()
        self.memory = Memory(self.plan)
        self.bound: list[Any] = [None] * len(self.inputs)  # the caller's arrays that the steps are made for
        self.copied: set[int] = set()
        corrects = any(eq.op is zero_stays_zero for eq in self.program.equations)
        atoms = dict.fromkeys(a for eq in self.program.equations for a in eq.inputs if isinstance(a, Const))
        self.captured = [a.value for a in atoms if isinstance(a.value, np.ndarray) and a.dtype.kind == "f"]
        self.may_meet_nan = corrects and backend == "numpy"  # kernels look at every gradient; NumPy only in doubt
        self.steps: list[tuple[Step, list[Equation]]] = []
        self.make_steps = _llvm_steps if backend == "llvm" else numpy_steps

    def __call__(self, leaves: list[Any]) -> Any:
        """Run with the leaves of the arguments."""
        self._bind([leaves[i] for i in self.places])
        if not self.steps:
            self.steps = self.make_steps(self.memory)
        self.memory.read_captured()
        refill(self.sources, leaves)
        self.memory.invalid.raised = self.may_meet_nan and any(map(has_nan, self._read(leaves)))
        equations: list[Equation] = []
        try:
            with np.errstate(all="ignore", invalid="call", call=self.memory.invalid):
                for step, equations in self.steps:  # noqa: B007  # the handler names the equations of the step
                    step()
        except Exception as error:
            error.add_note(f"in {equations[0].op.name} of a compiled function, at {equations[0].source}")
            raise
        leaves, updated = [], set()
        for atom, given in zip(self.program.outputs, self.python_values, strict=True):
            value = self._result(atom) if given is None else given.value
            leaves.append(value.copy() if atom in updated else value)  # a result that is there twice is two arrays
            updated.update({atom} & self.in_place.keys())
        return tree.unflatten(self.structure, leaves)

    def _read(self, leaves: list[Any]) -> list[Any]:
        """Return the arrays that a run reads: the arguments, and those that the function captures."""
        arguments = [leaves[i] for var, i in zip(self.inputs, self.places, strict=True) if var.dtype.kind == "f"]
        return arguments + self.captured

    def _bind(self, arrays: list[Any]) -> None:
        """Put the arguments where the steps read them; forget the steps if they must be made anew."""
        for i, (var, array) in enumerate(zip(self.inputs, arrays, strict=True)):
            if array is self.bound[i] and (var not in self.owned or array.flags.writeable):
                continue
            buffer = self.plan.views[var].buffer
            if var in self.owned:
                if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
                    raise ValueError(
                        "compile: a donated array is updated in place, so it should be a writable, C-contiguous "
                        f"ndarray; got {type(array).__name__} {array.dtype} {array.shape}"
                    )
            elif self._is_copied(i, array):
                if self.bound[i] is not None or buffer not in self.memory.flat:
                    self.memory.flat[buffer], self.bound[i] = np.empty(array.size, array.dtype), None
                    self.steps = []
                self.memory.flat[buffer][...] = np.ravel(array)
                continue
            self.memory.flat[buffer], self.bound[i] = array.reshape(-1), array
            self.steps = []
        if self.owned and not self.steps:
            self._check_apart()

    def _check_apart(self) -> None:
        """Raise ValueError if an array that is updated in place shares memory with another argument."""
        spans = []
        for var, array in zip(self.inputs, self.bound, strict=True):
            if array is not None and array.size:
                start = array.__array_interface__["data"][0]
                spans.append((start, start + array.nbytes, var in self.owned))
        ends = {False: 0, True: 0}  # the furthest so far: of arrays that are only read, of those that are written too
        for start, end, is_owned in sorted(spans):
            if start < ends[True] or (is_owned and start < ends[False]):
                raise ValueError(
                    "compile: a donated array is updated in place, and shares memory with another argument\n"
                    "  fix  pass the array once, or a copy: tied weights are one leaf, used twice"
                )
            ends[is_owned] = max(ends[is_owned], end)

    def _is_copied(self, i: int, array: np.ndarray) -> bool:
        """Tell whether an argument is copied to where the steps read it; once it is, it always will be.

        A large array is read where it lies, as long as every call is given the same one: steps are made for one place.
        """
        if array.nbytes <= SMALL or not array.flags.c_contiguous or self.bound[i] is not None:
            self.copied.add(i)
        return i in self.copied

    def _result(self, atom: Atom) -> Any:
        if isinstance(atom, Const):
            return np.copy(atom.value)
        if atom in self.in_place:
            return self.bound[self.in_place[atom]]
        value = self.memory.array(atom)
        return value.copy() if value.ndim else value[()]


def _give_back_freed_memory() -> None:
    """Ask the C library for it: glibc keeps what tracing has freed, which is as much as an eager run takes."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _llvm_steps(memory: Memory, separate: bool = False) -> list[tuple[Step, list[Equation]]]:
    from minigrad.compiler.llvm_backend import llvm_steps

    return llvm_steps(memory, separate)
