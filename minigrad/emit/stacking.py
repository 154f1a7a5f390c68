"""np.stack, which is recorded as the joining of arrays with one axis more."""

from __future__ import annotations

import numpy as np

from minigrad.op import OPS, Op
from minigrad.program import Equation, Program
from minigrad.rewriter import Rewriter

__all__ = ["stack", "stacks"]

CONCATENATE, EXPAND_DIMS = OPS[np.concatenate], OPS[np.expand_dims]

stack = Op(lambda *arrays, axis: np.stack(arrays, axis=axis), "*arrays", (None,), "np.stack")


def stacks(program: Program) -> Program:
    """Return the program with np.stack where arrays are stacked."""
    r = Rewriter(program)
    for eq in program.equations:
        parts = [r.made.get(r.now(x)) for x in eq.inputs]  # type: ignore[arg-type]
        axis = eq.params.get("axis", 0)
        if eq.op is CONCATENATE and eq.of is None and len(eq.params) <= 1 and all(_widens(p, axis) for p in parts):
            r.emit(stack, tuple(p.inputs[0] for p in parts if p is not None), eq.outs[0], eq, axis=axis)
        else:
            r.keep(eq)
    return r.done()


def _widens(eq: Equation | None, axis: int) -> bool:
    return eq is not None and eq.op is EXPAND_DIMS and eq.params.get("axis") == axis
