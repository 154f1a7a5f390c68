"""Parts of arrays: what a backward pass puts somewhere and takes again, without the way there and back.

Code that fills an array assigns to it part by part. Its adjoint, as recorded, takes each part from the gradient, sets
that part to zero and adds what the other uses of it give; a person writes `dout[0] *= 2`, or takes `g[0]`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from minigrad.op import OPS
from minigrad.program import Atom, Const, Equation, Program, Var
from minigrad.rewriter import Rewriter
from minigrad.rules.index import assign, getitem, scatter
from minigrad.simplify import ADD, permutation, uses
from minigrad.slices import are_apart, composed, same

__all__ = ["parts"]

WHERE = OPS[np.where]


def parts(program: Program) -> Program:
    """Return the program with fewer steps between a part of a gradient and where it is used; exact but for -0.0."""
    r = _Parts(program)
    for eq in program.equations:
        if eq.of is None or eq.several or not r.shortened(eq):
            r.keep(eq)
    return r.done()


class _Parts(Rewriter):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.uses = uses(program)

    def shortened(self, eq: Equation) -> bool:
        """Write an equation of the backward pass anew, if that takes fewer steps."""
        inputs = tuple(map(self.now, eq.inputs))
        if eq.op is getitem:
            return self.take(eq, inputs[0])
        if eq.op is scatter and len(inputs) == 1:
            return self.put(eq, inputs[0])
        if eq.op is assign and len(inputs) == 2:
            return self.assign_again(eq, *inputs)
        if eq.op is ADD:
            swapped = self.replace_zeros(eq, *inputs) or self.replace_zeros(eq, *reversed(inputs))
            return swapped or self.transpose_once(eq, *inputs)
        if eq.op is WHERE and _is_true(inputs[0]) and inputs[1].shape == eq.outs[0].shape:
            self.let(eq.outs[0], inputs[1])
            return True
        return False

    def below(self, x: Atom, op: Any, n_inputs: int) -> Equation | None:
        """Return the equation of the backward pass that computes x, if it is such an op at a basic index."""
        eq = self.made.get(x)  # type: ignore[arg-type]
        return eq if eq is not None and eq.of is not None and eq.op is op and len(eq.inputs) == n_inputs else None

    def take(self, eq: Equation, x: Atom) -> bool:
        """Take a part from where it came from: x[1][2] is x[1, 2]; what was assigned elsewhere does not matter."""
        index, first = eq.params["index"], x
        while True:
            if inner := self.below(x, getitem, 1):
                both = composed(inner.inputs[0].shape, inner.params["index"], index)
                if both is None:
                    break
                x, index = inner.inputs[0], both
            elif (inner := self.below(x, assign, 2)) and are_apart(x.shape, inner.params["index"], index):
                x = inner.inputs[0]
            else:
                break
        inner = self.below(x, assign, 2) or self.below(x, scatter, 1)
        value = inner.inputs[-1] if inner and same(x.shape, inner.params["index"], index) else None
        if value is not None and value.shape == eq.outs[0].shape:
            self.let(eq.outs[0], value)
        elif same(x.shape, index, ...):
            self.let(eq.outs[0], x)
        elif x is not first:
            self.emit(getitem, (x,), eq.outs[0], eq, index=index)
        else:
            return False
        return True

    def put(self, eq: Equation, value: Atom) -> bool:
        """Put a part of a part where it belongs at once."""
        inner = self.below(value, scatter, 1)
        both = inner and composed(eq.params["shape"], eq.params["index"], inner.params["index"])
        if not inner or both is None:
            return False
        self.emit(scatter, inner.inputs, eq.outs[0], eq, index=both, shape=eq.params["shape"])
        return True

    def assign_again(self, eq: Equation, x: Atom, value: Atom) -> bool:
        """Leave out what is overwritten at once, and what is there already."""
        part = self.below(value, getitem, 1)
        if part and part.inputs[0] is x and same(x.shape, part.params["index"], eq.params["index"]):
            self.let(eq.outs[0], x)
            return True
        inner = self.below(x, assign, 2)
        if not inner or not same(x.shape, inner.params["index"], eq.params["index"]):
            return False
        self.emit(assign, (inner.inputs[0], value), eq.outs[0], eq, index=eq.params["index"])
        return True

    def replace_zeros(self, eq: Equation, x: Atom, part: Atom) -> bool:
        """Assign a part, where zeros are assigned and it is added to them: to zeros + part, or zeros + other + part."""
        put = self.below(part, scatter, 1)
        if not put:
            return False
        if (zeroed := self.zeroed(x, put)) is not None:
            whole = replace(zeroed, outs=eq.outs, inputs=(zeroed.inputs[0], put.inputs[0]))
            if not self.assign_again(whole, *whole.inputs):
                self.add(whole)
            return True
        added = self.made.get(x)  # type: ignore[arg-type]
        if added is None or added.op is not ADD or added.of is None or self.uses[x] > 1:
            return False
        for a, b in (added.inputs, added.inputs[::-1]):
            if (zeroed := self.zeroed(a, put)) is not None:
                filled = Var(x.shape, x.dtype)
                self.emit(assign, (zeroed.inputs[0], put.inputs[0]), filled, zeroed, index=zeroed.params["index"])
                self.emit(ADD, (filled, b), eq.outs[0], added)
                return True
        return False

    def transpose_once(self, eq: Equation, a: Atom, b: Atom) -> bool:
        """Transpose the sum, not each part of it."""
        one, other = self.made.get(a), self.made.get(b)  # type: ignore[arg-type]
        if not one or not other or not one.of or not other.of or self.uses[a] + self.uses[b] > 2:
            return False
        order = permutation(one)
        if order is None or order != permutation(other):
            return False
        x, y = one.inputs[0], other.inputs[0]
        total = Var(x.shape, eq.outs[0].dtype)
        self.emit(ADD, (x, y), total, eq)
        self.emit(one.op, (total,), eq.outs[0], eq, **one.params)
        return True

    def zeroed(self, x: Atom, put: Equation) -> Equation | None:
        """Return the assignment of zeros that x is, if it is one at the index of a part."""
        eq = self.below(x, assign, 2)
        if eq and same(x.shape, eq.params["index"], put.params["index"]) and _is_zero(eq.inputs[1]):
            return eq
        return None


def _is_zero(x: Atom) -> bool:
    return isinstance(x, Const) and not np.any(x.value)


def _is_true(x: Atom) -> bool:
    return isinstance(x, Const) and isinstance(x.value, np.ndarray) and bool(np.all(x.value))
