"""Results that are computed only if something looks at them: to trace a function takes shapes and dtypes, mostly.

A deferred result is an array of the right shape, dtype and memory layout in which nothing has been written yet, so that
indexing, assignment and views of it work. If its numbers are needed after all, by an op whose result has another shape
or dtype for other numbers, by a check or by `print`, the equations behind it are run and the numbers put in place.
"""

from __future__ import annotations

from collections import Counter
from typing import Any
from weakref import ref

import numpy as np

from minigrad.op import OPS, Op
from minigrad.program import Atom, Const, Equation, Var
from minigrad.rules.index import add_at, assign, cast, gather, scatter
from minigrad.special import erf
from minigrad.tensor import dtype_of
from minigrad.zero import zero_stays_zero

__all__ = ["Deferred"]

# Ops that never fail for the numbers they are given, nor choose a shape or dtype by them; besides the linear ones,
# the views and the elementwise ufuncs.
PREDICTABLE = {
    OPS[f]
    for f in (np.max, np.amax, np.min, np.amin, np.prod, np.any, np.all, np.argmax, np.argmin, np.argsort, np.var,
              np.std, np.cumprod, np.einsum, np.matmul, np.where, np.clip, np.round, np.around)
} | {zero_stays_zero, erf}  # fmt: skip
INDEXING = {gather: 1, scatter: 1, assign: 2, add_at: 2}  # and where the index arrays begin, which may be out of range


class Deferred:
    """What is known of the values of a trace, and how to compute the rest."""

    def __init__(self) -> None:
        self.values: dict[Var, Any] = {}  # inputs, what had to be computed at once, and numbers
        self.equations: dict[Var, Equation] = {}  # of all others
        # Arrays live as long as the Tensors that hold them; those that died are computed again if they are needed.
        self.arrays: dict[Var, ref[np.ndarray]] = {}
        self.filled: set[Var] = set()

    def compute(self, op: Op, atoms: tuple[Atom, ...], values: list[Any], params: dict[str, Any]) -> tuple[Any, bool]:
        """Return the result of an op, and whether its numbers are yet to come."""
        start = INDEXING.get(op, len(atoms) if _is_predictable(op) else 0)
        values[start:] = map(self._settled, atoms[start:], values[start:])
        if start:
            out = _unwritten(op, values, params)
            if not isinstance(out, (tuple, list)):
                return out, True
            values[:start] = map(self._settled, atoms[:start], values[:start])
        return op.function(*values, **params), False

    def _settled(self, atom: Atom, value: Any) -> Any:
        return self.value(atom) if isinstance(atom, Var) else value

    def note(self, eq: Equation, results: tuple[Any, ...], later: bool) -> None:
        """Remember the results of an equation, or how to compute them."""
        for var, result in zip(eq.outs, results, strict=True):
            if not later:
                self.values[var] = result
                continue
            self.equations[var] = eq
            if isinstance(result, np.ndarray):
                self.arrays[var] = ref(result)

    def value(self, var: Var) -> Any:
        """Return the value of a variable, computing what it depends on."""
        found, behind = self._behind(var)
        uses = Counter(a for eq in behind for a in eq.inputs)
        with np.errstate(all="ignore"):
            for eq in behind:
                inputs = [a.value if isinstance(a, Const) else found[a] for a in eq.inputs]
                found[eq.outs[0]] = self._put(eq.outs[0], eq.op.function(*inputs, **eq.params))
                uses.subtract(eq.inputs)
                for atom in eq.inputs:
                    if not uses[atom] and atom is not var:
                        found.pop(atom, None)
        return found[var]

    def _behind(self, var: Var) -> tuple[dict[Atom, Any], list[Equation]]:
        """Return what is known of what a variable depends on, and the equations that compute the rest, in order."""
        found: dict[Atom, Any] = {}
        behind: dict[Atom, Equation] = {}
        waiting = [var]
        while waiting:
            v = waiting[-1]
            known = self.arrays[v]() if v in self.filled else self.values.get(v)
            missing: list[Var] = []
            if known is not None:
                found[v] = known
            elif v not in behind:
                eq = self.equations[v]
                missing = [a for a in eq.inputs if isinstance(a, Var) and a not in found and a not in behind]
                if not missing:
                    behind[v] = eq
            waiting += missing
            if not missing:
                waiting.pop()
        return found, list(behind.values())

    def _put(self, var: Var, value: Any) -> Any:
        """Put a value where it belongs, and return what is there."""
        home = self.arrays[var]() if var in self.arrays else None
        if home is None:  # a number, or an array that nothing holds any more
            if not isinstance(value, np.ndarray):
                self.values[var] = value
            return value
        if not np.may_share_memory(home, value):  # else it is a view of what has been put in place
            if not home.flags.writeable:
                return value
            np.copyto(home, value)
        self.filled.add(var)
        return home


def _is_predictable(op: Op) -> bool:
    return op.kind in ("linear", "view") or op in PREDICTABLE or _is_ufunc(op)


def _is_ufunc(op: Op) -> bool:
    f = op.function
    return isinstance(f, np.ufunc) and f.signature is None and f.nout == 1


def _unwritten(op: Op, values: list[Any], params: dict[str, Any]) -> Any:
    """Return an array like the result of an op, without computing it where that would take long."""
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    if any(v.ndim for v in arrays) and not any(isinstance(v, (list, tuple)) for v in values):
        if _is_ufunc(op):
            dtypes = [type(v) if type(v) in (int, float, complex) else dtype_of(v) for v in values]
            return _like(arrays, op.function.resolve_dtypes((*dtypes, None))[-1])  # type: ignore[attr-defined]
        if op is OPS[np.where]:
            return _like(arrays, np.result_type(*values[1:]))
        if op is cast:
            return _like(arrays, params["dtype"])
        if op is zero_stays_zero:
            return _like(arrays, values[1].dtype)
        if op is OPS[np.matmul] and min(np.ndim(v) for v in values) > 1 and values[0].shape[-1] == values[1].shape[-2]:
            least = np.matmul(values[0][..., :1, :0], values[1][..., :0, :1])  # which has the other axes right
            if least.flags.c_contiguous:
                return np.empty((*least.shape[:-2], values[0].shape[-2], values[1].shape[-1]), least.dtype)
    if op.kind == "view":
        return op.function(*values, **params)
    with np.errstate(all="ignore"):
        return op.function(*values, **params)


def _like(arrays: list[np.ndarray], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an array of the shape that these broadcast to, with its axes in the order that a ufunc gives them."""
    if all(a.flags.c_contiguous for a in arrays):
        return np.empty(arrays[0].shape if len(arrays) == 1 else np.broadcast(*arrays).shape, dtype)
    flags = [*[["readonly"]] * len(arrays), ["writeonly", "allocate"]]
    types = [*[None] * len(arrays), dtype]
    return np.nditer((*arrays, None), ["zerosize_ok"], flags, op_dtypes=types).operands[-1]  # type: ignore[arg-type]
