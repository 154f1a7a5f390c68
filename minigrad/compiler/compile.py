"""compile(f): traced once per structure and shapes, planned once, run many times."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.compiler.layout import materialise
from minigrad.compiler.lower import lower
from minigrad.compiler.numpy_backend import Memory, numpy_steps
from minigrad.compiler.plan import Plan, plan
from minigrad.errors import DtypeError
from minigrad.op import Recorded
from minigrad.program import Const, Program, Var
from minigrad.trace import trace_tree

__all__ = ["Compiled", "compile"]


def compile(
    f: Callable[..., Any], *, donate: int | Sequence[int] = (), backend: str = "auto"
) -> Compiled:
    """Return a function that does what `f` does, planned once and run many times.

    Parameters
    ----------
    f
        A function of arrays and trees of arrays. It may differentiate, and update parameters. It is traced for every
        new structure, shape and dtype of its arguments; Python values among them are part of the program.
    donate
        Positional arguments whose arrays the results may overwrite, such as parameters and the optimiser's state:
        results of the same shapes, in order, are then computed in place.
    backend : {"auto", "numpy", "numba"}
        "auto" takes numba where it is installed.

    Returns
    -------
    Compiled
        Call it like `f`. `print(compiled.program)`, `compiled.profile()`, `compiled.memory()`.

    Raises
    ------
    ControlFlowError
        If Python control flow depends on the value of an array.
    """
    donated = (donate,) if isinstance(donate, int) else tuple(donate)
    return Compiled(f, donated, backend)


class Compiled:
    """A function that is planned once per structure and shapes of its arguments."""

    def __init__(self, f: Callable[..., Any], donate: tuple[int, ...], backend: str) -> None:
        self.f = f
        self.donate = donate
        self.backend = backend
        self.cache: dict[Any, Executable] = {}
        functools.update_wrapper(self, f)

    def __call__(self, *args: Any) -> Any:
        """Run the program for these arguments, compiling it if they are of a new kind."""
        leaves, structure = tree.flatten(args)
        if any(isinstance(leaf, Recorded) for leaf in leaves):
            return self.f(*args)  # inside a differentiation or another trace: be part of it
        key = (structure, tuple(map(_kind, leaves)))
        executable = self.cache.get(key)
        if executable is None:
            self._say_why(key)
            executable = self.cache[key] = Executable(self.f, args, self.donate, self.backend)
        return executable(leaves)

    def _say_why(self, key: Any) -> None:
        n = len(self.cache)
        if n and n % 8 == 0:
            structure, kinds = key
            previous = next(reversed(self.cache))
            changed = [
                f"argument leaf {i}: {a[1:]} was {b[1:]}"
                for i, (a, b) in enumerate(zip(kinds, previous[1], strict=False))
                if a != b
            ]
            warnings.warn(
                f"{getattr(self.f, '__name__', 'f')} is being compiled for the {n + 1}th time: "
                f"{'; '.join(changed[:3]) or 'another structure'}. A Python number that changes belongs in an array: "
                "np.float32(x)",
                RuntimeWarning,
                stacklevel=3,
            )

    @property
    def last(self) -> Executable:
        """What was compiled last."""
        return next(reversed(self.cache.values()))


def _kind(leaf: Any) -> Any:
    """Return what must be equal for a program to serve another argument."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        if leaf.dtype.hasobject:
            raise DtypeError(f"compile: arrays of objects cannot be compiled, got dtype {leaf.dtype}")
        return ("array", leaf.shape, leaf.dtype)
    return ("value", type(leaf), leaf)


@dataclass
class Traced:
    """A traced function: its program, and the structure of its result."""

    program: Program
    structure: tree.Structure


class Executable:
    """A program with memory of its own, ready to run."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], donate: tuple[int, ...], backend: str) -> None:
        self.traced, self.structure = trace_tree(f, *args)
        self.program, orders = materialise(lower(self.traced))
        self.array_places = [i for i, leaf in enumerate(tree.leaves(args)) if isinstance(leaf, (np.ndarray, np.generic))]
        self.inputs = self.program.inputs
        self.donated = _pair(self.program, args, donate)
        numba = backend == "numba" or (backend == "auto" and _has_numba())
        self.plan: Plan = plan(self.program, orders, fuse=numba, donated=self.donated)
        self.memory = Memory(self.plan)
        self.bound: list[Any] = [None] * len(self.inputs)
        self.steps: list[Callable[[], Any]] = []
        self.make_steps = _numba_steps if numba else numpy_steps
        self.owned = {v for v in self.donated.values()}

    def __call__(self, leaves: list[Any]) -> Any:
        """Run with the leaves of the arguments."""
        arrays = [leaves[i] for i in self.array_places]
        stale = not self.steps
        for i, (var, array) in enumerate(zip(self.inputs, arrays, strict=True)):
            if array is self.bound[i]:
                continue
            buffer = self.plan.views[var].buffer
            if var in self.owned or array.nbytes > 1 << 16:
                if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
                    array = np.array(array) if var not in self.owned else _must_be_writable(array)
                self.memory.flat[buffer] = array.reshape(-1)
                self.bound[i] = arrays[i]
                stale = True
            else:
                flat = self.memory.flat.get(buffer)
                if flat is None:
                    flat = self.memory.flat[buffer] = np.empty(array.size, array.dtype)
                    stale = True
                flat[...] = np.ravel(array)
        if stale:
            self.steps = [step for step, _ in self.make_steps(self.memory)]
        self.memory.invalid.raised = False
        with np.errstate(all="ignore", invalid="call", call=self.memory.invalid):
            for step in self.steps:
                step()
        results = []
        for atom in self.program.outputs:
            if isinstance(atom, Const):
                results.append(np.copy(atom.value))
                continue
            value = self.memory.array(atom)
            target = self.donated.get(atom)
            if target is not None and self.plan.views[atom].buffer is self.plan.views[target].buffer:
                results.append(self.bound[self.inputs.index(target)])
            else:
                results.append(value.copy() if value.ndim else value[()])
        return tree.unflatten(self.structure, results)


def _must_be_writable(array: Any) -> Any:
    raise ValueError(
        "compile: a donated array must be a writable, C-contiguous array, as it is updated in place; "
        f"got {type(array).__name__} {array.dtype} {array.shape}"
    )


def _pair(program: Program, args: Sequence[Any], donate: tuple[int, ...]) -> dict[Var, Var]:
    """Pair outputs with donated inputs of the same shape and dtype, in order."""
    places: list[Var] = []
    inputs = iter(program.inputs)
    for i, argument in enumerate(args):
        for leaf in tree.leaves(argument):
            if isinstance(leaf, (np.ndarray, np.generic)):
                var = next(inputs)
                if i in donate:
                    places.append(var)
    pairs: dict[Var, Var] = {}
    for atom in program.outputs:
        if isinstance(atom, Var) and atom not in pairs:
            found = next((v for v in places if v.shape == atom.shape and v.dtype == atom.dtype), None)
            if found is not None:
                pairs[atom] = found
                places.remove(found)
    return pairs


def _has_numba() -> bool:
    import importlib.util

    return importlib.util.find_spec("numba") is not None


def _numba_steps(memory: Memory) -> Any:
    from minigrad.compiler.numba_backend import numba_steps

    return numba_steps(memory)
