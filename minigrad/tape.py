"""Recording ops, and the one reverse loop.

Each differentiation has a tape of its own. A Tensor belongs to one tape; its value is an array, or a Tensor of a tape
opened earlier. An op is recorded on the innermost tape among its inputs and computed on the values one level down,
where it may be recorded again. So the backward pass of an inner differentiation, being ordinary NumPy code on those
values, is recorded by the outer one, and the levels cannot be confused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from minigrad.errors import DtypeError, MissingAdjoint, here, source_line, user_frame
from minigrad.fingerprint import Guard, check_guards, fingerprint
from minigrad.gradients import Spec, Sums, as_dtype, sum_to
from minigrad.op import Op, Recorded, Rule
from minigrad.shapes import shape_of
from minigrad.tensor import Tensor, dtype_of, plain, trace_below
from minigrad.zero import BOUNDED, MAKES_NAN, has_nan, zero_stays_zero

__all__ = ["NEW_TAPE", "Node", "Observer", "Tape", "computes_in_its_own_way"]

_levels = itertools.count(1)

Parent = tuple[int, Rule, tuple[Any, ...]]  # where the gradient goes, the adjoint, and what was kept for it


class Node(NamedTuple):
    """One recorded op: which slots it filled, and for each input how to send the gradient back."""

    op: Op
    parents: list[Parent]
    slot: int
    count: int | None  # type: ignore[assignment]  # None: one result; a number: a tuple of so many results
    code: CodeType | None
    instruction: int
    guards: list[Guard] | None


class Observer:
    """Something that watches a backward pass."""

    def arrived(self, node: Node, g: Any) -> None:
        """See the whole gradient of a node's result, before it is sent on."""

    def sent(self, node: Node, g: Any, kept: tuple[Any, ...], gradient: Any) -> None:
        """See what an adjoint made of it for one of the inputs."""


class Tape:
    """The ops of one differentiation, in the order they happened.

    Nodes refer to each other by slot numbers and hold values, never Tensors: a Tensor refers to its tape, so there is
    no reference cycle, and what no adjoint names is freed as soon as the user's code lets go of it.
    """

    symbolic = False  # a trace, which keeps every op
    observer: Observer | None = None

    def __init__(self) -> None:
        self.level = next(_levels)
        self.open = True  # once it is False, Tensors of this tape raise when they are used
        self.nodes: list[tuple[Any, ...]] = []  # the fields of Nodes: plain tuples are made five times as fast
        # Numbers from a counter, because the function may work in several threads, which must not get the same one.
        self.slots = itertools.count()
        self.specs: dict[int, Spec] = {}  # by slot
        self.n_leaves = 0
        self.suspicious = False  # there was a NaN, or might be at another run: 0 * NaN is looked for everywhere
        self.without_nan: set[tuple[int, np.dtype[Any]]] = set()  # fingerprints of arrays that were found to have none

    def leaf(self, value: Any) -> Tensor:
        """Put an input of the differentiation on the tape."""
        if isinstance(value, Tensor):
            value = value._snapshot()
        elif isinstance(value, np.ndarray):
            value = _plain_array(value)
        self.n_leaves += 1
        below = trace_below(value)
        self.suspicious = self.suspicious or (below is not None and below.any_values)
        slot = next(self.slots)
        self.specs[slot] = (shape_of(value), dtype_of(value))
        foreign = value._foreign if isinstance(value, Tensor) else isinstance(value, np.ndarray)
        return Tensor(value, self, slot, foreign)

    def record(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Compute an op one level down and remember how to send gradients back through it."""
        values: list[Any] = []
        slots: list[int] = []
        nested = foreign = False
        for x in inputs:
            slot = -1
            kind = type(x)
            if kind is Tensor:
                foreign = foreign or x._foreign
                if x._tape is self:
                    slot = x._slot
                    x = x._value
                    nested = nested or type(x) is Tensor
                else:
                    x, nested = x._snapshot(), True
            elif kind is np.ndarray:
                foreign = True
            elif kind is float:
                pass  # so that the most usual constant is not asked the rest
            elif isinstance(x, np.ndarray):
                foreign = True
                x = _plain_array(x)
            elif isinstance(x, (list, tuple)):
                x = np.asarray(x)  # so that later changes do not matter
            values.append(x)
            slots.append(slot)
        out = op.apply(tuple(values), params) if nested else op.function(*values, **params)

        rules = op.rules
        if op.variadic:
            rules = (*rules[:-1], *(rules[-1],) * (len(inputs) - len(rules) + 1))
        parents: list[Parent] = []
        for i, slot in enumerate(slots):
            if slot >= 0 and (rule := rules[i]) is not None:
                parents.append((slot, rule, rule.fetch(values, out, params, i)))
        if not parents:
            return self._constant(out, op, inputs, values, params, foreign)
        guards = self._guards(op, inputs, values, parents) if foreign and op.keeps else None
        if not self.suspicious and op in MAKES_NAN:
            self.suspicious = has_nan(plain(out))
        frame = user_frame(4)  # past record, Op.apply and the operator or protocol method
        code, instruction = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        if type(out) is not np.ndarray and isinstance(out, tuple):
            new = self._consecutive(len(out))
            self.specs.update({slot: (shape_of(v), dtype_of(v)) for slot, v in zip(new, out, strict=True)})
            if new:
                self.nodes.append((op, parents, new[0], len(out), code, instruction, guards))
            results = [
                v if dtype_of(v).kind in "biu" else Tensor(v, self, slot, foreign and _reachable(v, values))
                for slot, v in zip(new, out, strict=True)
            ]
            return out._make(results) if hasattr(out, "_make") else tuple(results)
        spec = (out.shape, out.dtype) if hasattr(out, "dtype") else (shape_of(out), dtype_of(out))
        if spec[1].kind in "biu":  # a cast: integers and booleans have no derivative, and are plain data
            return out
        slot = next(self.slots)
        self.specs[slot] = spec
        self.nodes.append((op, parents, slot, None, code, instruction, guards))
        result = Tensor(out, self, slot, foreign and _reachable(out, values))
        if op.kind == "view":
            result._look_through(inputs[0], op, params)
        return result

    def _consecutive(self, n: int) -> list[int]:
        """Return n new slots in a row, which several results of one op have."""
        while True:
            slots = [next(self.slots) for _ in range(n)]
            if n == 0 or slots[-1] - slots[0] == n - 1:
                return slots

    def _constant(
        self, out: Any, op: Op, inputs: tuple[Any, ...], values: list[Any], params: dict[str, Any], foreign: bool
    ) -> Any:
        """Return a result that no gradient flows through: plain data unless it is floating point."""
        if isinstance(out, tuple):
            return tuple(self._constant(value, op, inputs, values, params, foreign) for value in out)
        if dtype_of(out).kind not in "fc":
            return out
        result = Tensor(out, self, -1, foreign and _reachable(out, values))
        if op.kind == "view":
            result._look_through(inputs[0], op, params)
        return result

    def _guards(self, op: Op, inputs: tuple[Any, ...], values: list[Any], parents: list[Parent]) -> list[Guard]:
        """Return fingerprints of the arrays that the adjoints keep and the user can reach."""
        guards: list[Guard] = []
        kept = {i for _, rule, _ in parents for i in rule.arrays}
        last = len(op.inputs) - 1
        for i, x in enumerate(inputs if kept else ()):
            if min(i, last) not in kept or (isinstance(x, Recorded) and not x._foreign):
                continue
            value = plain(values[i])
            if isinstance(value, np.ndarray):
                mark = fingerprint(value)
                guards.append((op.inputs[min(i, last)], value, mark))
                if not self.suspicious and value.dtype.kind in "fc" and (mark, value.dtype) not in self.without_nan:
                    self.suspicious = has_nan(value)
                    self.without_nan.add((mark, value.dtype))
        return guards

    def backward(self, seeds: dict[int, Any], release: bool) -> list[Any]:
        """Walk the tape backwards and return the gradient of each leaf, None where none arrived.

        Parameters
        ----------
        seeds
            The gradient of the result, by slot.
        release
            Free each node as it has been used. The tape cannot be walked again.
        """
        nodes = self.nodes
        grads = Sums(self.specs, next(self.slots))
        for slot, seed in seeds.items():
            grads.add(slot, seed)
        values, specs, add, observer = grads.values, self.specs, grads.add, self.observer
        invalid, suspicious = _Flag(), self.suspicious
        checked: dict[int, int] = {}  # fingerprints by identity: an array that many ops used is looked at once
        # A floating-point "invalid operation" is the only way a NaN comes out of numbers, and the processor notices
        # it for free: so that 0 * inf can be answered (see zero.py) without looking at every array.
        with np.errstate(all="ignore", invalid="call", call=invalid):
            for i in range(len(nodes) - 1, -1, -1):
                node = nodes.pop() if release else nodes[i]
                op, parents, slot, count, code, instruction, guards = node
                if count is None:
                    g, values[slot] = values[slot], None
                else:
                    g = grads.take(slot, count)
                if g is None:
                    continue
                if guards:
                    check_guards(guards, checked, op.name, code, instruction)
                if observer is not None:
                    observer.arrived(Node(*node), g)
                for slot, rule, kept in parents:
                    if rule.missing is not None:
                        raise _missing(Node(*node), rule)
                    invalid.raised = False
                    try:
                        gradient = rule.function(g, *kept)
                    except Exception as error:
                        where = source_line(code, instruction)
                        error.add_note(f"in the adjoint of {op.name}, called at {where}")
                        raise
                    if gradient is None:
                        continue
                    doubtful = (invalid.raised or suspicious) and count is None  # one result, so g is one array
                    if doubtful and op.kind == "elementwise" and op not in BOUNDED:
                        gradient = zero_stays_zero(g, gradient)
                    shape, dtype = specs[slot]
                    if gradient.shape != shape:
                        gradient = sum_to(gradient, shape, op.name)
                    if gradient.dtype is not dtype:
                        gradient = as_dtype(gradient, dtype)
                    if observer is not None:
                        observer.sent(Node(*node), g, kept, gradient)
                    if values[slot] is None:
                        values[slot] = gradient
                    else:
                        add(slot, gradient)
        return values[: self.n_leaves]


def _plain_array(x: np.ndarray) -> np.ndarray:
    """Return an array of a subclass of ndarray as a plain one; refuse those that compute in another way."""
    if computes_in_its_own_way(x):
        raise DtypeError(
            f"a {type(x).__name__} cannot be combined with a Tensor: it computes in its own way.\n"
            f"  at   {here()}\n"
            "  fix  pass a plain array: np.asarray(x), or x.filled(0) and a mask for np.where"
        )
    return np.asarray(x)


def computes_in_its_own_way(x: np.ndarray) -> bool:
    """Tell whether an array is of a subclass that does with NumPy's functions something else than an array does."""
    own = type(x).__array_ufunc__ is not np.ndarray.__array_ufunc__
    return own or isinstance(x, (np.ma.MaskedArray, np.matrix))


def _reachable(out: Any, values: list[Any]) -> bool:
    """Tell whether the user, who can reach the memory of some inputs, may reach that of a result with them."""
    if not isinstance(out, np.ndarray):
        return isinstance(out, Recorded) and out._foreign
    if out.base is not None:
        return True
    for value in values:  # not any(...), which costs as much as recording an op may
        if out is value:
            return True
    return False


NEW_TAPE: ContextVar[Callable[[], Tape]] = ContextVar("NEW_TAPE", default=Tape)
"""What differentiations make their tape with: `minigrad.debug` sets another."""


class _Flag:
    """Set by NumPy when a computation made a NaN out of numbers."""

    raised = False

    def __call__(self, kind: str, flag: int) -> None:
        self.raised = True


def _missing(node: Node, rule: Rule) -> MissingAdjoint:
    name = node.op.inputs[[r is rule for r in node.op.rules].index(True)].lstrip("*")
    return MissingAdjoint(
        f"{node.op.name} has no adjoint with respect to {name!r}: {rule.missing}\n"
        f"  at   {source_line(node.code, node.instruction)}\n"
        "  fix  wrap the call in minigrad.custom_adjoint, or add a rule: CONTRIBUTING.md, 'Add an op'"
    )
