"""The generated adjoint under observation: every value, every gradient, every contribution to one, and their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from minigrad.check.finite import where_finite
from minigrad.check.lines import is_users, profiled
from minigrad.check.subject import Subject
from minigrad.errors import SourceLine, user_frame
from minigrad.op import Op, Recorded
from minigrad.tape import NEW_TAPE, Node, Observer, Tape
from minigrad.tensor import Tensor, plain
from minigrad.transforms import vjp

__all__ = ["Generated", "Truth", "WatchedTape"]

JITTER = 1e-6


@dataclass
class Truth:
    """A value of the forward pass: what it is called, what it is, and its true gradient."""

    slot: int
    value: Any
    names: list[str] = field(default_factory=list)
    depths: dict[str, int] = field(default_factory=dict)  # of the frames that the names were seen in
    gradient: Any = None
    parts: list[Any] = field(default_factory=list)  # what each use of the value adds to its gradient
    op: str = ""
    line: SourceLine | None = None

    @property
    def name(self) -> str:
        """What the user's code calls it, or the op and line it comes from."""
        if self.names:
            return self.names[0]
        return f"the result of {self.op}" + (f" in line {self.line.line}" if self.line else "")


class WatchedTape(Tape, Observer):
    """A tape that keeps what it sees. The names are looked up in the frames of the user's code."""

    def __init__(self) -> None:
        super().__init__()
        self.observer = self
        self.truths: dict[int, Truth] = {}
        self._uses: dict[int, int] = {}

    def leaf(self, value: Any) -> Tensor:
        """Put an input on the tape."""
        tensor = super().leaf(value)
        self.truths[tensor._slot] = Truth(tensor._slot, np.asarray(plain(value)))
        return tensor

    def record(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Record an op and keep its results."""
        frame = user_frame(3)
        self.look(frame)
        result = super().record(op, inputs, params)
        for x in result if isinstance(result, tuple) else (result,):
            if isinstance(x, Recorded) and x._slot >= 0 and x._slot not in self.truths:
                line = None if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno)
                self.truths[x._slot] = Truth(x._slot, plain(x), op=op.name, line=line)
        return result

    def look(self, frame: FrameType | None) -> None:
        """Note which local variables of a frame, and which attributes of its objects, are Tensors now."""
        if frame is None or not is_users(frame.f_code.co_filename):
            return
        depth = _depth(frame)
        for name, value in frame.f_locals.items():
            self.call(name, value, depth)
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict) and not isinstance(value, type):
                for attribute, held in attributes.items():
                    self.call(attribute, held, depth)

    def call(self, name: str, value: Any, depth: int) -> None:
        """Give a value a name. Names of outer functions come before those of the functions that they call."""
        if isinstance(value, Recorded) and value._tape is self and value._slot in self.truths:
            truth = self.truths[value._slot]
            if depth < truth.depths.get(name, 1 << 30):
                truth.depths[name] = depth
                truth.names = sorted(truth.depths, key=truth.depths.__getitem__)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at every frame of the user's code as it returns, on this thread only."""

        def profile(frame: FrameType, event: str, arg: Any) -> None:
            if event == "return" and is_users(frame.f_code.co_filename):
                self.look(frame)

        with profiled(profile):
            yield

    # --- the backward pass ----------------------------------------------------------------------------------------

    def forget_gradients(self) -> None:
        """Make ready for another backward pass."""
        for truth in self.truths.values():
            truth.gradient, truth.parts = None, []

    def arrived(self, node: Node, g: Any) -> None:
        """Keep the whole gradient of a node's result."""
        self._uses = {}
        for i, part in enumerate(g if isinstance(g, tuple) else (g,)):
            if node.slot + i in self.truths:
                self.truths[node.slot + i].gradient = plain(part)

    def sent(self, node: Node, g: Any, kept: tuple[Any, ...], gradient: Any) -> None:
        """Keep what one use of a value adds to its gradient."""
        seen = self._uses.get(id(kept), 0)
        self._uses[id(kept)] = seen + 1
        slots = [slot for slot, _, k in node.parents if k is kept]
        if slots and slots[min(seen, len(slots) - 1)] in self.truths:
            self.truths[slots[min(seen, len(slots) - 1)]].parts.append(plain(gradient))


def _depth(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


class _Noisy:
    """A rule that gets and gives numbers off by a small relative amount: what rounding does, made large enough to see.

    Where a small change of what was kept makes a large change of the result (comparisons of tied elements), what was
    kept stays as it is.
    """

    def __init__(self, rule: Any, rng: np.random.Generator) -> None:
        self.rule = rule
        self.rng = rng
        self.missing = rule.missing
        self.arrays = rule.arrays

    def function(self, g: Any, *kept: Any) -> Any:
        """Call the rule with rounding errors."""
        exact = self.rule.function(g, *kept)
        if exact is None:
            return None
        noisy = self.rule.function(self._jitter(g), *map(self._jitter, kept))
        scale = np.max(np.abs(exact), initial=0)
        with np.errstate(all="ignore"):
            usable = (
                np.shape(noisy) == np.shape(exact) and np.max(np.abs(noisy - exact), initial=0) <= 1e3 * JITTER * scale
            )
        return self._jitter(noisy if usable else exact)

    def _jitter(self, x: Any) -> Any:
        if type(x) is tuple and all(isinstance(part, (np.ndarray, np.floating)) for part in x):
            return tuple(self._jitter(part) for part in x)
        if not isinstance(x, (np.ndarray, np.floating)) or x.dtype.kind not in "fc":
            return x
        return (x * (1 + JITTER * self.rng.standard_normal(np.shape(x)))).astype(x.dtype)


class Generated:
    """The generated adjoint of a subject at its arguments, ready to be pulled any number of times.

    Raises whatever the forward function raises when it is run on Tensors.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        tapes: list[WatchedTape] = []

        def make() -> WatchedTape:
            tapes.append(WatchedTape())
            return tapes[-1]

        def f(*leaves: Any) -> list[Any]:
            NEW_TAPE.reset(token)  # differentiations inside the function have tapes of their own
            with tapes[0].watching():
                return subject.run(leaves)

        token = NEW_TAPE.set(make)
        self.out, self._pull = vjp(f, *map(np.asarray, subject.leaves))
        self.tape = tapes[0]
        for i, name in enumerate(subject.names):
            truth = self.tape.truths[i]
            truth.names = [name, *(n for n in truth.names if n != name)]
            truth.depths[name] = 0

    def gradients(self, gs: Sequence[Any]) -> list[Any]:
        """Return the gradient of each leaf, 0 where that is infinite; afterwards `truths` has those of all values."""
        self.tape.forget_gradients()
        found = list(self._pull([np.asarray(g) for g in gs]))
        for i, gradient in enumerate(found):
            self.tape.truths[i].gradient = gradient
        return where_finite(found, self.subject.leaves)

    @property
    def truths(self) -> list[Truth]:
        """The values of the forward pass, in the order they were computed, with the gradients of the last pull."""
        return list(self.tape.truths.values())

    def without(self, truth: Truth, gs: Sequence[Any]) -> list[Any]:
        """Return the gradients with nothing flowing through one value, as if the forward had been given it."""

        def cut(node: Node) -> Node:
            made_here = node.slot <= truth.slot < node.slot + (node.count or 1)
            return node._replace(parents=[]) if made_here else node

        with self._rewired(cut):
            return list(self._pull([np.asarray(g) for g in gs]))

    @contextmanager
    def _rewired(self, change: Callable[[Node], Node]) -> Iterator[None]:
        """Within this context the tape has changed nodes, and nothing is observed."""
        nodes, observer = list(self.tape.nodes), self.tape.observer
        self.tape.nodes[:] = [change(Node(*node)) for node in nodes]
        self.tape.observer = None
        try:
            yield
        finally:
            self.tape.nodes[:] = nodes
            self.tape.observer = observer

    def noise(self, gs: Sequence[Any], rng: np.random.Generator) -> list[float]:
        """Return for each leaf how large its rounding errors can be, in units of the machine epsilon.

        The backward pass is run with every number in it off by a relative 1e-6, at random. What this changes, over
        1e-6, is what an error of one epsilon in every number would. Where terms cancel, this is more than an epsilon
        of the result. The parts of a gradient count one by one: errors that cancel between them, because they come
        from the same number, need not cancel in another formula for the same gradient.
        """

        def noisy(node: Node) -> Node:
            parents = [(slot, _Noisy(rule, rng), kept) for slot, rule, kept in node.parents]
            return node._replace(parents=parents)  # type: ignore[arg-type]

        exact = self._parts(gs)
        worst = [0.0] * len(exact)
        with self._rewired(noisy):
            self.tape.observer = self.tape
            for _ in range(2):
                for i, (parts, off) in enumerate(zip(exact, self._parts(gs), strict=True)):
                    errors = [_largest_difference(a, b) for a, b in zip(parts, off, strict=True)]
                    worst[i] = max(worst[i], errors[0], sum(errors[1:]))
        return [w / JITTER for w in worst]

    def _parts(self, gs: Sequence[Any]) -> list[list[Any]]:
        """Return for each leaf its gradient, and the parts it is the sum of."""
        gradients = self.gradients(gs)
        return [[g, *self.tape.truths[i].parts] for i, g in enumerate(gradients)]


def _largest_difference(a: Any, b: Any) -> float:
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.asarray(a) - np.asarray(b))
    return float(np.max(apart[np.isfinite(apart)], initial=0))
