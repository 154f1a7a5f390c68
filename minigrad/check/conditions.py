"""What must hold around a hand-written adjoint, besides its values.

It gives the same twice; it is linear in the incoming gradient; it changes nothing that it is given; what it returns
is its own memory, in the dtypes of the arguments; and it takes incoming gradients of any layout and precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.comparison import compare
from minigrad.check.subject import Subject, fresh

__all__ = ["Condition", "conditions", "held_of", "same_memory"]


@dataclass(frozen=True)
class Condition:
    """Something that was looked at, and whether it holds. A remark is not wrong by itself, only risky."""

    name: str
    holds: bool
    text: str = ""
    remark: bool = False

    def __str__(self) -> str:
        return f"{self.name}: " + ("holds" if self.holds else self.text)


SHORT = {
    "same twice": "repeatable",
    "linear": "linear in the incoming gradient",
    "changes nothing": "nothing overwritten",
    "own memory": "no memory shared",
    "dtypes": "dtypes kept",
    "not contiguous": "strided and",
    "broadcast view": "broadcast incoming gradients",
    "float32": "float32 too",
}


def held_of(found: Sequence[Condition]) -> str:
    """Return how many conditions hold, and which, in a few words."""
    words = [short for c in found if c.holds for key, short in SHORT.items() if key in c.name]
    which = ", ".join(words).replace("and, ", "and ").removesuffix(" and")
    return f"{sum(c.holds for c in found)} of {len(found)} conditions hold" + (f": {which}" if which else "")


def conditions(
    subject: Subject,
    gs: Sequence[Any],
    tolerances: Sequence[float],
    fixed_cotangent: bool = False,
    own: bool = True,
) -> list[Condition]:
    """Return every condition, looked at.

    Parameters
    ----------
    subject, gs
        The adjoint, and incoming gradients to look at it with.
    tolerances
        How far the gradient of each leaf may be off.
    fixed_cotangent
        The adjoint takes no incoming gradient, as the backward pass of a loss.
    own
        To write to what it is given, to return shared memory or another dtype is wrong; otherwise it is a remark.
    """
    base = subject.by_leaf(subject.gradients(gs))
    ask = _Asker(subject, tolerances)
    found = [ask("it gives the same twice", lambda: (subject.gradients(gs), base))]
    if not fixed_cotangent:
        found += _linear(subject, gs, base, ask)
    found += _side_effects(subject, gs)
    found.append(_dtypes(subject, base))
    if not fixed_cotangent:
        found += _layouts(subject, gs, base, ask)
    risky = () if own else ("changes nothing", "own memory", "dtypes", "broadcast view")
    return [replace(c, remark=True) if any(r in c.name for r in risky) else c for c in found]


class _Asker:
    """Compares what an adjoint gives in two ways."""

    def __init__(self, subject: Subject, tolerances: Sequence[float]) -> None:
        self.subject = subject
        self.tolerances = tolerances

    def __call__(
        self, name: str, pair: Callable[[], tuple[Any, Sequence[Any]]], slack: float = 1.0, say: str = ""
    ) -> Condition:
        try:
            with np.errstate(all="ignore"):
                result, wanted = pair()
                got = self.subject.by_leaf(result)
        except Exception as error:  # whatever the adjoint raises is the answer
            return Condition(name, False, f"it raised {type(error).__name__}: {error}")
        for leaf, g, w, t in zip(self.subject.names, got, wanted, self.tolerances, strict=True):
            w = np.zeros(np.shape(g)) if w is None else w
            c = compare("", leaf, g, w, slack * t)
            if not c.right:
                where = (
                    "has another shape"
                    if c.index is None
                    else f"at {c.index}: {_show(c.got, c.index)}, not {_show(c.wanted, c.index)}"
                )
                return Condition(name, False, f"{say or 'it does not'}: the gradient of {leaf} {where}")
        return Condition(name, True)


def _show(x: Any, index: tuple[int, ...]) -> str:
    return f"{np.asarray(x)[index]:.6g}"


def _scaled(gradients: Sequence[Any], c: float) -> list[Any]:
    return [None if g is None else c * np.asarray(g) for g in gradients]


def _linear(subject: Subject, gs: Sequence[Any], base: Sequence[Any], ask: _Asker) -> Iterator[Condition]:
    name = "it is linear in the incoming gradient"
    ignored = ask(name, lambda: (subject.gradients([2 * g for g in gs]), base))
    sizes = zip(base, ask.tolerances, strict=True)
    if ignored.holds and any(b is not None and np.max(np.abs(b), initial=0) > 4 * t for b, t in sizes):
        yield Condition(name, False, "the incoming gradient is ignored: twice of it gives the same")
        return
    zero = ask(
        name,
        lambda: (subject.gradients([0 * g for g in gs]), _scaled(base, 0)),
        say="it is not zero for an incoming gradient of zero",
    )
    twice = ask(
        name,
        lambda: (subject.gradients([2 * g for g in gs]), _scaled(base, 2)),
        4,
        "twice the incoming gradient does not give twice",
    )
    rng = np.random.default_rng(5)
    more = subject.random_cotangents(rng)

    def sums() -> tuple[Any, Sequence[Any]]:
        other = subject.by_leaf(subject.gradients(more))
        both = [None if a is None and b is None else _sum(a, b) for a, b in zip(base, other, strict=True)]
        return subject.gradients([g + h for g, h in zip(gs, more, strict=True)]), both

    added = ask(name, sums, 8, "the sum of two incoming gradients does not give the sum")
    yield next((c for c in (zero, twice, added) if not c.holds), Condition(name, True))


def _sum(a: Any, b: Any) -> Any:
    return np.asarray(0 if a is None else a) + np.asarray(0 if b is None else b)


def _side_effects(subject: Subject, gs: Sequence[Any]) -> Iterator[Condition]:
    args, g = fresh(subject.args), subject.cotangent([np.array(x) for x in gs])
    before = [(x, x.tobytes()) for x in _arrays((args, g))]
    places = _named(args, subject) + [("the incoming gradient", x) for x in _arrays(g)]
    result = subject.pull(g, args)
    changed = [_place_of(x, places) for x, mark in before if x.tobytes() != mark]
    name = "it changes nothing that it is given"
    yield Condition(name, not changed, f"it writes to {', '.join(changed)}")
    shared = []
    returned = list(zip(subject.names, subject.by_leaf(result), strict=True))
    for i, (leaf, gradient) in enumerate(returned):
        if isinstance(gradient, np.ndarray):
            others = [*places, *((f"the gradient of {n}", y) for n, y in returned[:i])]
            shared += [f"the gradient of {leaf} shares memory with {p}" for p, y in others if same_memory(gradient, y)][
                :1
            ]
    text = "; ".join(shared) + ": writing to one changes the other (return a copy)"
    yield Condition("what it returns is its own memory", not shared, text)


def same_memory(a: Any, b: Any) -> bool:
    """Tell whether writing to one array could change the other."""
    return (
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and bool(a.size and b.size)
        and np.may_share_memory(a, b)
    )


def _arrays(structure: Any) -> list[np.ndarray]:
    return [x for x in tree.leaves(structure) if isinstance(x, np.ndarray)]


def _named(args: Sequence[Any], subject: Subject) -> list[tuple[str, Any]]:
    return [
        (subject.arguments[i] + p, x)
        for i, a in enumerate(args)
        for p, x in zip(tree.paths(a), tree.leaves(a), strict=True)
        if isinstance(x, np.ndarray)
    ]


def _place_of(x: Any, places: Sequence[tuple[str, Any]]) -> str:
    return next((name for name, y in places if y is x), "an argument")


def _dtypes(subject: Subject, base: Sequence[Any]) -> Condition:
    wrong = [
        f"the gradient of {name} is {np.asarray(g).dtype}, {name} is {x.dtype}"
        for name, g, x in zip(subject.names, base, subject.leaves, strict=True)
        if g is not None and np.asarray(g).dtype != x.dtype
    ]
    return Condition("gradients have the dtypes of the arguments", not wrong, "; ".join(wrong))


def _layouts(subject: Subject, gs: Sequence[Any], base: Sequence[Any], ask: _Asker) -> Iterator[Condition]:
    def raw(views: Sequence[Any]) -> Any:
        return subject.pull(subject.cotangent(views), fresh(subject.args))

    if any(np.ndim(g) and np.size(g) > 1 for g in gs):
        gapped = [gaps(g) for g in gs]
        yield ask(
            "it takes an incoming gradient that is not contiguous",
            lambda: (raw(gapped), base),
            say="it gives something else",
        )
        copied = [_repeated(g) for g in gs]
        yield ask(
            "it takes an incoming gradient that is a broadcast view",
            lambda: (raw(copied), subject.by_leaf(subject.gradients([np.array(c) for c in copied]))),
            say="it gives something else",
        )
    if all(np.asarray(g).dtype == np.float64 for g in gs):
        short = [np.asarray(g).astype(np.float32) for g in gs]
        scale = max((float(np.max(np.abs(b), initial=0)) for b in base if b is not None), default=0.0)
        smallest = max(min(ask.tolerances), 1e-300)
        yield ask(
            "it takes an incoming gradient in float32",
            lambda: (
                subject.gradients(short),
                subject.by_leaf(subject.gradients([s.astype(np.float64) for s in short])),
            ),
            max(1.0, 1e-4 * scale / smallest),
            "it gives something else",
        )


def gaps(x: Any) -> Any:
    """Return the same numbers seen through gaps, backwards, in Fortran order."""
    x = np.asarray(x)
    if not x.ndim:
        return x
    wide = np.zeros([2 * n for n in reversed(x.shape)], x.dtype)
    view = wide.T[(slice(None, None, -2),) * x.ndim]
    view[...] = x
    return view


def _repeated(x: Any) -> Any:
    x = np.asarray(x)
    return np.broadcast_to(x[:1], x.shape) if x.ndim else x
