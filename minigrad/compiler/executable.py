"""A program with memory of its own, and what a run of it does: arguments in, steps, results out."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.compiler import numpy_backend
from minigrad.compiler.captured import Captured
from minigrad.compiler.donate import pair
from minigrad.compiler.draws import Source, recording_draws, refill
from minigrad.compiler.layout import Buffer, materialise, span
from minigrad.compiler.lower import lower
from minigrad.compiler.numpy_backend import Memory, Step
from minigrad.compiler.plan import SMALL, plan
from minigrad.compiler.relocation import Relocation
from minigrad.program import Atom, Const, Equation
from minigrad.trace import trace_tree
from minigrad.zero import has_nan, zero_stays_zero

__all__ = ["Executable"]


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
        self.copies: dict[int, np.ndarray] = {}  # of the others, by their number
        corrects = any(eq.op is zero_stays_zero for eq in self.program.equations)
        atoms = dict.fromkeys(a for eq in self.program.equations for a in eq.inputs if isinstance(a, Const))
        self.captured = [a.value for a in atoms if isinstance(a.value, np.ndarray) and a.dtype.kind == "f"]
        self.may_meet_nan = corrects and backend == "numpy"  # kernels look at every gradient; NumPy only in doubt
        self.steps: list[tuple[Step, list[Equation]]] = []
        self.backend = _backend(backend)
        self.relocations: dict[Buffer, Relocation] = {}  # of arguments and results that may lie elsewhere in each run
        self.computed: dict[Atom, Any] = {}  # the other results, which are copied

    def __call__(self, leaves: list[Any]) -> Any:
        """Run with the leaves of the arguments."""
        self._bind([leaves[i] for i in self.places])
        if not self.steps:
            self._make_steps()
        fresh = self._fresh()
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
        results, updated = [], set()
        for atom, given in zip(self.program.outputs, self.python_values, strict=True):
            value = self._result(atom, fresh) if given is None else given.value
            results.append(value.copy() if atom in updated else value)  # a result that is there twice is two arrays
            updated.update({atom} & self.in_place.keys())
        return tree.unflatten(self.structure, results)

    def _make_steps(self) -> None:
        """Make the steps for where the arguments lie."""
        self.steps = self.backend.make_steps(self.memory)
        self.relocations = self.backend.relocations(self.memory, self.steps)
        views = self.plan.views
        outputs = (a for a in self.program.outputs if not isinstance(a, Const) and a not in self.in_place)
        self.computed = {a: self.memory.array(a) for a in outputs if not self._is_fresh(views[a].buffer)}

    def _read(self, leaves: list[Any]) -> list[Any]:
        """Return the arrays that a run reads: the arguments, and those that the function captures."""
        arguments = [leaves[i] for var, i in zip(self.inputs, self.places, strict=True) if var.dtype.kind == "f"]
        return arguments + self.captured

    def _is_fresh(self, buffer: Buffer) -> bool:
        return buffer.kind == "result" and buffer in self.relocations

    def _fresh(self) -> dict[Atom, Any]:
        """Return new arrays for the results that the steps write where the caller gets them."""
        fresh = {}
        for atom in self.program.outputs:
            buffer = self.plan.views[atom].buffer
            if self._is_fresh(buffer):
                fresh[atom] = array = np.empty(atom.shape, atom.dtype)
                self.relocations[buffer].move(array)
        return fresh

    def _bind(self, arrays: list[Any]) -> None:
        """Put the arguments where the steps read them; forget the steps if they must be made anew."""
        moved = False
        for i, (var, array) in enumerate(zip(self.inputs, arrays, strict=True)):
            if i in self.copies:
                self.copies[i][...] = array
                continue
            if array is self.bound[i] and (var not in self.owned or array.flags.writeable):
                continue
            buffer = self.plan.views[var].buffer
            if var in self.owned:
                if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
                    raise ValueError(
                        "compile: a donated array is updated in place, so it should be a writable, C-contiguous "
                        f"ndarray; got {type(array).__name__} {array.dtype} {array.shape}"
                    )
            elif self._is_to_be_copied(i, array):
                self.copies[i], self.bound[i] = np.array(array, order="C"), None
                self.memory.flat[buffer] = self.copies[i].reshape(-1)
                self.steps = []
                continue
            self.memory.flat[buffer], self.bound[i] = array.reshape(-1), array
            if self.steps and buffer in self.relocations:
                self.relocations[buffer].move(array)
                moved = True
            else:
                self.steps = []
        if self.owned and (moved or not self.steps):
            self._check_apart()

    def _check_apart(self) -> None:
        """Raise ValueError if an array that is updated in place shares memory with another argument."""
        spans = []
        for var, array in zip(self.inputs, self.bound, strict=True):
            if array is not None and array.size:
                spans.append((*span(array), var in self.owned))
        ends = {False: 0, True: 0}  # the furthest so far: of arrays that are only read, of those that are written too
        for start, end, is_owned in sorted(spans):
            if start < ends[True] or (is_owned and start < ends[False]):
                raise ValueError(
                    "compile: a donated array is updated in place, and shares memory with another argument\n"
                    "  fix  pass the array once, or a copy: tied weights are one leaf, used twice"
                )
            ends[is_owned] = max(ends[is_owned], end)

    def _is_to_be_copied(self, i: int, array: np.ndarray) -> bool:
        """Tell whether an argument is copied to where the steps read it; once it is, it always will be.

        A large array is read where it lies; if steps are made for one place, as long as each call is given the same.
        """
        another = self.bound[i] is not None and self.plan.views[self.inputs[i]].buffer not in self.relocations
        return array.nbytes <= SMALL or not array.flags.c_contiguous or another

    def _result(self, atom: Atom, fresh: dict[Atom, Any]) -> Any:
        if atom in fresh:
            return fresh[atom]
        if isinstance(atom, Const):
            return np.copy(atom.value)
        if atom in self.in_place:
            return self.bound[self.in_place[atom]]
        value = self.computed[atom]
        return value.copy() if value.ndim else value[()]


def _give_back_freed_memory() -> None:
    """Ask the C library for it: glibc keeps what tracing has freed, which is as much as an eager run takes."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _backend(name: str) -> ModuleType:
    """Return the module with a backend's `make_steps` and `relocations`."""
    if name == "numpy":
        return numpy_backend
    from minigrad.compiler import llvm_backend  # needs llvmlite

    return llvm_backend
