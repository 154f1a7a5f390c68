"""Recording ops symbolically: a function of arrays becomes a Program.

A trace is a tape that keeps every op, comparisons and integer results included. It lies below the tapes of the
differentiations inside the function, so that their backward passes are recorded like any other code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.deferred import Deferred
from minigrad.errors import (
    ControlFlowError,
    CutGraphError,
    DtypeError,
    OverwrittenError,
    SourceLine,
    here,
    parameter_names,
    source_line,
    user_frame,
)
from minigrad.fingerprint import fingerprint
from minigrad.names import Names
from minigrad.op import OPS, Op, Recorded
from minigrad.program import Atom, Const, Equation, Program, Var, validate, without_dead_code
from minigrad.rules.index import assign, gather
from minigrad.shapes import shape_of
from minigrad.slices import is_whole
from minigrad.tape import NEW_TAPE, Node, Observer, Tape, computes_in_its_own_way
from minigrad.tensor import Tensor, dtype_of, plain

__all__ = ["Trace", "arrays_as_inputs", "name_of", "parameter_names", "trace", "trace_tree"]


class Trace(Tape):
    """A tape that keeps every op as an equation. The slot of a Tensor is the number of its variable.

    Parameters
    ----------
    name
        Of the program.
    any_values
        The program will be run with other values than those it is traced with, so that Python control flow on them
        raises. Otherwise it is the program of these values, and the branches taken are part of it.
    """

    symbolic = True

    def __init__(self, name: str = "f", any_values: bool = True) -> None:
        super().__init__()
        self.name = name
        self.any_values = any_values
        self.vars: list[Var] = []
        self.inputs: list[Var] = []
        self.equations: list[Equation] = []
        self.names = Names()
        self.captured: dict[int, tuple[np.ndarray, int, str]] = {}  # arrays from outside: array, fingerprint, place
        self.line: SourceLine | None = None  # while a backward pass runs: the line whose adjoint it computes
        self.of: Op | None = None  # and the op
        self.paused: FrameType | None = None  # and the frame of the user's that waits for it
        self.reads: list[tuple[Var, str]] = []  # values that Python code has looked at, and where
        self.lifted: dict[int, tuple[Tensor, Const]] = {}  # by id of the array
        self.deferred = Deferred()

    def input(self, value: Any, name: str | None = None) -> Tensor:
        """Return the Tensor that stands for an argument."""
        tensor = self._new(value, name)
        self.inputs.append(self.vars[tensor._slot])
        self.deferred.values[self.inputs[-1]] = value
        return tensor

    def settle(self, tensor: Tensor) -> None:
        """Give a Tensor its value, if that was not computed yet."""
        if self.any_values:
            tensor._value = self.deferred.value(self.vars[tensor._slot])

    def identify(self, new: Tensor, old: Tensor) -> None:
        """Let what follows read `old`, which is equal, in place of `new`, which may then not be needed at all."""
        if new._tape is old._tape:
            self.vars[new._slot] = self.vars[old._slot]

    def _new(self, value: Any, name: str | None = None) -> Tensor:
        self.vars.append(Var(shape_of(value), dtype_of(value), name))
        return Tensor(value, self, len(self.vars) - 1)

    def atom(self, x: Any) -> Atom:
        """Return the variable of a Tensor of this trace; anything else is a constant."""
        if not isinstance(x, Tensor):
            if self.any_values and isinstance(x, np.ndarray):
                self._remember(x)
            return Const(x, self.names.of_constant(x))
        if x._base is not None and x._version != x._base._version:
            x._refresh()
        if x._tape is not self:
            raise CutGraphError(
                "a Tensor of another differentiation was used in a trace.\n"
                f"  at   {here()}\n  fix  pass it as an argument"
            )
        known = self.lifted.get(id(x._value))
        is_lifted = known is not None and known[0]._slot == x._slot
        atom: Atom = known[1] if is_lifted else self.vars[x._slot]
        return atom

    def _remember(self, x: np.ndarray) -> None:
        """Note an array that the program will read at each run; raise if the function has overwritten it since."""
        if type(x) is not np.ndarray and computes_in_its_own_way(x):
            raise DtypeError(
                f"a {type(x).__name__} in a compiled function: it computes in its own way.\n"
                f"  at   {here()}\n  fix  use a plain array: np.asarray(x), or x.filled(0) and a mask for np.where"
            )
        mark = fingerprint(x)
        _, first, place = self.captured.setdefault(id(x), (x, mark, here()))
        if mark != first:
            raise OverwrittenError(
                f"an array ({x.dtype} {x.shape}) that the compiled function had used was overwritten by it. A compiled "
                f"function reads such an array at each run, and would see the last content everywhere.\n"
                f"  used at   {place}\n  fix       compute with new arrays instead of in place"
            )

    def lift(self, x: np.ndarray) -> Tensor:
        """Return a Tensor for an array from outside, so that what an adjoint does with the array is recorded too."""
        if id(x) not in self.lifted:
            self.names.look(user_frame(3), [x])
            self.lifted[id(x)] = self._new(x), Const(x, self.names.of_constant(x))
        return self.lifted[id(x)][0]

    @contextmanager
    def backward_pass(self, caller: FrameType | None) -> Iterator[None]:
        """Go back afterwards to what is said now of the equations to come: backward passes may be nested."""
        before = self.line, self.of, self.paused
        self.paused = caller
        try:
            yield
        finally:
            self.line, self.of, self.paused = before

    def record(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Note an op as an equation, and return a Tensor that stands for its result."""
        if op.kind == "call":  # of plain NumPy code: a checkpoint
            return params["call"].forward(inputs)
        if self.any_values and _is_search(op, inputs):
            raise ControlFlowError(
                f"the shape of the result of {'a mask as index' if op is gather else op.name} depends on values of the "
                "compiled function; the shape found now would be taken for ever.\n"
                f"  at   {here()}\n"
                "  fix  keep the shape: np.where(mask, x, 0), np.sum(x, where=mask); or pass the indices as an argument"
            )
        frame = user_frame(3)
        if frame is not self.paused:  # where nothing gets a name meanwhile
            self.names.look(frame, [x for x in inputs if not isinstance(x, Recorded)] if self.of is None else ())
        atoms = tuple(self.atom(x) for x in inputs)
        params = {name: self.plain_parameter(value) for name, value in params.items()}
        values = [x._value if isinstance(x, Recorded) else x for x in inputs]
        if self.any_values:  # of which these are an example that may not be needed
            out, later = self.deferred.compute(op, atoms, values, params)
        else:
            out, later = op.function(*values, **params), False
        line = self.line or (None if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno))
        several = isinstance(out, (tuple, list))
        results = [self._new(value) for value in (out if several else (out,))]
        outs = tuple(self.vars[r._slot] for r in results)
        self.equations.append(Equation(outs, op, atoms, params, line, several, self.of))
        if self.any_values:
            self.deferred.note(self.equations[-1], tuple(out) if several else (out,), later)
        if several:
            return out._make(results) if hasattr(out, "_make") else tuple(results)
        if op.kind == "view":
            results[0]._look_through(inputs[0], op, params)
        return results[0]

    def refuse_changes(self, name: str, argument: Any, before: Sequence[tuple[Any, int | None]]) -> None:
        """Raise if the function has changed an argument in place: its leaves, and their slots, as they were before."""
        after = tree.leaves(argument)
        same = len(after) == len(before)
        changed = [x for x, (y, slot) in zip(after, before, strict=False) if x is not y or _slot_now(x) != slot]
        if same and not changed:
            return
        made = next((_slot_now(x) for x in changed), None)
        line = next((e.source for e in self.equations if made is not None and self.vars[made] in e.outs), None)
        raise OverwrittenError(
            f"the compiled function changes its argument `{name}` in place. It is traced once, and then runs without "
            "Python: the caller's arrays would stay as they are.\n"
            f"{f'  at   {line}' + chr(10) if line is not None else ''}"
            "  fix  return the new value, p = step(p); with donate= it takes the place of the old one"
        )

    def truth(self, tensor: Any) -> Any:
        """Answer `if tensor:`, or raise because the answer would be frozen into the program."""
        if self.any_values:
            raise ControlFlowError(
                "Python control flow depends on a value of the compiled function; the branch taken now would be taken "
                f"for ever.\n  at   {here()}\n"
                "  fix  use np.where, or move the decision out of the function"
            )
        return self.read(tensor)

    def read(self, tensor: Any) -> Any:
        """Return the data of a Tensor that no gradient flows through, and note that the program depends on it."""
        self.reads.append((self.vars[tensor._slot], here()))
        return plain(tensor)

    def plain_parameter(self, x: Any) -> Any:
        """Return a parameter of an op, in which Tensors are read: the bounds of a slice, for instance."""
        if isinstance(x, Tensor) and x._tape is self and not self.any_values:
            return self.read(x)
        if isinstance(x, slice):
            return slice(*(self.plain_parameter(i) for i in (x.start, x.stop, x.step)))
        if type(x) in (tuple, list):
            return type(x)(map(self.plain_parameter, x))
        return x

    def copies(self) -> dict[Var, Var]:
        """Return what was assigned as a whole, as p /= total does, and the value it is."""
        whole = [eq for eq in self.equations if eq.op is assign and is_whole(eq.params["index"])]
        pairs = {eq.outs[0]: eq.inputs[1] for eq in whole}
        return {x: y for x, y in pairs.items() if isinstance(y, Var) and (x.shape, x.dtype) == (y.shape, y.dtype)}

    def program(self, outputs: Sequence[Any]) -> Program:
        """Return what was recorded, as the Program with these results, under the names that the user's code gave."""
        for x, *_ in self.captured.values():
            self._remember(x)
        atoms = tuple(self.atom(x) for x in outputs)
        arguments = {v.name for v in self.inputs}
        for slot, (name, weak) in self.names.of(self).items():
            var = self.vars[slot]
            if weak and name in arguments:  # of the many things called x, the argument of the function keeps the name
                continue
            if var.name is None or (var.weak and not weak):
                var.name, var.weak = name, weak
        for var, value in self.copies().items():
            if var.name and (value.name is None or (value.weak and not var.weak)):
                value.name, value.weak = var.name, var.weak
        program = Program(tuple(self.inputs), tuple(self.equations), atoms, self.name)
        return without_dead_code(validate(program))


def _slot_now(x: Any) -> int | None:
    """Return the number of the variable that a Tensor stands for after what was written into it."""
    return x._snapshot()._slot if isinstance(x, Tensor) else None


class TapeOverTrace(Tape):
    """A tape that tells the trace below it which line a backward pass computes the adjoint of."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        trace.line = None  # also in the backward pass of another: what comes now goes forward
        self.trace = trace
        self.observer = _Lines(trace)

    def backward(self, seeds: dict[int, Any], release: bool) -> list[Any]:
        """Walk backwards, as any tape does."""
        with self.trace.backward_pass(user_frame()):
            return super().backward(seeds, release)


class _Lines(Observer):
    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def arrived(self, node: Node, g: Any) -> None:
        self.trace.line = source_line(node.code, node.instruction, is_adjoint=True)


def _is_search(op: Op, inputs: tuple[Any, ...]) -> bool:
    """Tell whether the shape of a result depends on values."""
    if op is gather:
        return any(isinstance(i, Recorded) and dtype_of(i).kind == "b" for i in inputs[1:])
    return op.kind == "search" or (op is OPS[np.where] and len(inputs) == 1)


def arrays_as_inputs(tape: Trace, args: Any, names: Sequence[str]) -> list[Any]:
    """Return the arguments with a Tensor of the trace in place of each array."""
    wrapped = []
    for argument, name in zip(args, names, strict=True):
        leaves, structure = tree.flatten(argument)
        labels = [name + ("_" if p else "") + identifier(p) for p in tree.paths(argument)]
        tensors = [
            tape.input(leaf, label) if isinstance(leaf, (np.ndarray, np.generic)) else leaf
            for leaf, label in zip(leaves, labels, strict=True)
        ]
        wrapped.append(tree.unflatten(structure, tensors))
    return wrapped


def identifier(path: str) -> str:
    """Return a path as part of a Python name: blocks[0].q as blocks_0_q."""
    return "".join(c if c.isalnum() else "_" for c in path.replace("]", "").replace("'", "")).strip("_")


def trace(f: Callable[..., Any], *args: Any, any_values: bool = True) -> Program:
    """Return the Program of a function: its ops on these arguments, in order, without those no result needs.

    Parameters
    ----------
    f
        A function of arrays and trees, which may differentiate.
    *args
        Its arguments. Every array in them becomes an input of the program; what is no array (a Python number, a
        string, None) is fixed. Shapes and dtypes are fixed too.
    any_values
        Refuse Python control flow on values, so that the program holds for other values too.

    Returns
    -------
    Program
        Its inputs are the arrays of the arguments, in order; its outputs the leaves of the result. `print` it.

    Raises
    ------
    ControlFlowError
        If Python control flow depends on the value of an argument.
    """
    return trace_tree(f, *args, any_values=any_values)[0]


def trace_tree(
    f: Callable[..., Any], *args: Any, any_values: bool = True, every_name: bool = True
) -> tuple[Program, tree.Structure]:
    """Return the Program of a function, as `trace` does, and the structure of its result.

    Without `every_name` a variable has the name it is seen to have when an op is applied; to watch every function as
    it returns doubles the time.
    """
    tape = Trace(name_of(f), any_values)
    names = parameter_names(f, len(args))
    arguments = arrays_as_inputs(tape, args, names)
    before = [[(x, x._slot if isinstance(x, Tensor) else None) for x in tree.leaves(a)] for a in arguments]
    token = NEW_TAPE.set(lambda: TapeOverTrace(tape))
    try:
        with tape.names.watching() if every_name else nullcontext():
            out = f(*arguments)
    finally:
        NEW_TAPE.reset(token)
    for name, argument, given in zip(names, arguments, before, strict=True):
        tape.refuse_changes(name, argument, given)
    leaves, structure = tree.flatten(out)
    return tape.program(leaves), structure


def name_of(f: Callable[..., Any]) -> str:
    """Return what a function is called; "f" if it has no name."""
    while isinstance(f, functools.partial):
        f = f.func
    name = getattr(f, "__name__", "f")
    return name if name.isidentifier() else "f"
