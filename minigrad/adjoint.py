"""A function and its adjoint as two Programs, under the names of your code: `scores`, and its gradient `dscores`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.custom import is_differentiable
from minigrad.errors import parameter_names, source_line
from minigrad.op import Op
from minigrad.program import Program, Var
from minigrad.shapes import shape_of
from minigrad.tape import NEW_TAPE, Node, Observer
from minigrad.tensor import Tensor, dtype_of
from minigrad.trace import TapeOverTrace, Trace, arrays_as_inputs, name_of
from minigrad.transforms import vjp
from minigrad.zero import has_nan

__all__ = ["adjoint_program"]


def adjoint_program(
    f: Callable[..., Any], *args: Any, wrt: Sequence[int] | None = None, **kwargs: Any
) -> tuple[Program, Program]:
    """Return the Programs of a function and of its adjoint, for arguments like these.

    The adjoint's inputs are the gradient of the result, then the arrays of the arguments, then those of the keyword
    arguments; it computes the forward values it needs again. Its outputs are the gradients of the positional
    arguments `wrt` (by default those with float arrays). Variables have the names of the user's code, and the gradient
    of `scores` is called `dscores`.

    The notes of both: "reads", the values that Python code looked at; "result", the structure of the result; and
    "gradients", which variable is the gradient of which; "replaced", which variable stands for another.
    """
    wrt = [i for i, a in enumerate(args) if is_differentiable(a)] if wrt is None else list(wrt)
    tape = Trace(name_of(f), any_values=False)
    found: dict[Var, Var] = {}
    arguments = arrays_as_inputs(tape, args, parameter_names(f, len(args)))
    keywords = dict(zip(kwargs, arrays_as_inputs(tape, kwargs.values(), list(kwargs)), strict=True))

    def on_tensors(*differentiated: Any) -> Any:
        whole = list(arguments)
        for i, tensors in zip(wrt, differentiated, strict=True):
            whole[i] = tensors
        return f(*whole, **keywords)

    token = NEW_TAPE.set(lambda: _WatchedTape(tape, found))
    try:
        with tape.names.watching():
            out, pull = vjp(on_tensors, *(arguments[i] for i in wrt))
        results, structure = tree.flatten(out)
        forward = tape.program(results)
        if len(results) == 1 and isinstance(var := forward.outputs[0], Var) and (var.name is None or var.weak):
            var.name, var.weak = "out", True
        n_inputs = len(tape.inputs)
        gs = [np.ones(shape_of(x), dtype_of(x)) for x in results]
        seeds = [tape.input(g, "g" if len(gs) == 1 else f"g{i}") for i, g in enumerate(gs)]
        tape.inputs = tape.inputs[n_inputs:] + tape.inputs[:n_inputs]
        gradients = pull(tree.unflatten(structure, seeds))
    finally:
        NEW_TAPE.reset(token)
    outputs = tree.leaves(gradients)
    inputs = [x for i in wrt for x in tree.leaves(arguments[i])]
    for gradient, x in zip(outputs, inputs, strict=True):
        if isinstance(gradient, Tensor) and isinstance(x, Tensor):
            var = tape.vars[gradient._slot]
            if var not in tape.inputs:
                var.name, var.weak = f"d{tape.vars[x._slot].name}", False
    backward = tape.program(outputs)
    notes = {"reads": tape.reads, "result": structure, "gradients": found, "replaced": dict(tape.copies())}
    forward = Program(forward.inputs, forward.equations, forward.outputs, forward.name, notes)
    return forward, Program(backward.inputs, backward.equations, backward.outputs, f"{forward.name}_adjoint", notes)


class _WatchedTape(TapeOverTrace, Observer):
    """A tape below which a trace lies, and which tells that trace what the values of its backward pass are."""

    def __init__(self, trace: Trace, gradients: dict[Var, Var]) -> None:
        super().__init__(trace)
        self.observer = self
        self.vars: dict[int, Var] = {}
        self.gradients = gradients

    def record(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record, and note which variable of the trace each slot is."""
        if self.trace.of is None:  # in the forward pass
            inputs = tuple(map(self._lifted, inputs))
        out = super().record(op, inputs, params)
        for result in out if isinstance(out, tuple) else (out,):
            if isinstance(result, Tensor) and result._tape is self and isinstance(result._value, Tensor):
                self.vars[result._slot] = self.trace.vars[result._value._slot]
        return out

    def _lifted(self, x: Any) -> Any:
        """Return an array of numbers as an input of the trace: the tape does not see any more what is in it."""
        if not (isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in "fc"):
            return x
        self.suspicious = self.suspicious or has_nan(x)
        return self.trace.lift(x)

    def arrived(self, node: Node, g: Any) -> None:
        """Note what the next equations are the adjoint of, and name the gradient: dscores for that of scores."""
        self.trace.line, self.trace.of = source_line(node.code, node.instruction), node.op
        if isinstance(g, Tensor) and g._tape is self.trace and node.slot in self.vars:
            var, forward = self.trace.vars[g._slot], self.vars[node.slot]
            self.gradients.setdefault(var, forward)
            if forward.name and var not in self.trace.inputs and (var.name is None or (var.weak and not forward.weak)):
                var.name, var.weak = f"d{forward.name}", forward.weak
                self.gradients[var] = forward
