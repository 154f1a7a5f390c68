"""Random numbers in compiled functions: a Generator among the arguments draws what it would draw eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import UnsupportedError, user_code
from minigrad.op import Op
from minigrad.tape import Tape
from minigrad.tensor import Tensor

__all__ = ["Source", "recording_draws"]

METHODS = (
    "random standard_normal standard_exponential standard_gamma normal uniform exponential gamma beta integers "
    "binomial poisson laplace logistic lognormal gumbel geometric permutation permuted choice"
).split()


class Source:
    """Holds the Generator that a program draws from at this run."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator


_draw = Op(
    lambda source, *, method, args, kwargs: getattr(source.generator, method)(*args, **kwargs),
    "source",
    (None,),
    "draw",
    kind="effect",
)


class _Recorder(np.random.Generator):
    """Stands for a Generator while a function is traced: its draws become equations.

    It draws from a copy, so that tracing does not advance the caller's Generator.
    """

    def __init__(self, generator: np.random.Generator, tape: Tape) -> None:
        bits = type(generator.bit_generator)()
        bits.state = generator.bit_generator.state
        super().__init__(bits)
        self.source = Source(np.random.Generator(bits))
        self.tape = tape
        self.drawn: list[tuple[str, Tensor]] = []  # by which method, and what

    def __deepcopy__(self, memo: Any) -> _Replay:
        """Return what gives again what is drawn from now on, as a checkpoint wants it for its second run."""
        return _Replay(self, len(self.drawn))


class _Replay(np.random.Generator):
    """A copy of a _Recorder: its draws are those that the original has made since."""

    def __init__(self, original: _Recorder, n_drawn: int) -> None:
        super().__init__(type(original.bit_generator)())
        self.original = original
        self.n_drawn = n_drawn

    def __deepcopy__(self, memo: Any) -> _Replay:
        return _Replay(self.original, self.n_drawn)


def _recorded(method: str) -> Callable[..., Any]:
    def draw(self: _Recorder, *args: Any, **kwargs: Any) -> Any:
        drawn = self.tape.record(_draw, (self.source,), {"method": method, "args": args, "kwargs": kwargs})
        self.drawn.append((method, drawn._snapshot()))
        return drawn

    draw.__name__ = method
    return draw


def _replayed(method: str) -> Callable[..., Any]:
    def draw(self: _Replay, *args: Any, **kwargs: Any) -> Any:
        drawn = self.original.drawn[self.n_drawn : self.n_drawn + 1]
        if not drawn or drawn[0][0] != method:
            raise UnsupportedError(
                "compile: a copy of a Generator can only draw what the original has drawn since it was copied\n"
                "  fix  draw once, and use the numbers twice"
            )
        self.n_drawn += 1
        return drawn[0][1]._snapshot()

    draw.__name__ = method
    return draw


def _refused(method: str) -> Callable[..., Any]:
    def draw(self: np.random.Generator, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"compile: Generator.{method} is not recorded, so it would give the same in every call\n"
            "  fix  draw before the call, and pass the numbers as an argument"
        )

    return draw


for _name in dir(np.random.Generator):
    if _name in METHODS:
        setattr(_Recorder, _name, _recorded(_name))
        setattr(_Replay, _name, _replayed(_name))
    elif not _name.startswith("_") and callable(getattr(np.random.Generator, _name)):
        for _kind in (_Recorder, _Replay):
            setattr(_kind, _name, _refused(_name))


def recording_draws(f: Callable[..., Any], sources: list[Source]) -> Callable[..., Any]:
    """Return the function to trace: Generators among its arguments record, and their sources are listed in order."""

    @user_code()
    def traced(*args: Any) -> Any:
        tapes = [x._tape for x in tree.leaves(args) if isinstance(x, Tensor)]

        def wrap(leaf: Any) -> Any:
            if not isinstance(leaf, np.random.Generator):
                return leaf
            if not tapes:
                raise TypeError("compile: a function of a Generator needs an array among its arguments too")
            recorder = _Recorder(leaf, tapes[0])
            sources.append(recorder.source)
            return recorder

        if not any(isinstance(leaf, np.random.Generator) for leaf in tree.leaves(args)):
            return f(*args)  # the containers themselves: what is put into them is noticed
        return f(*tree.map(wrap, args))

    traced.__name__ = "f"
    return functools.update_wrapper(traced, f)


def refill(sources: Sequence[Source], leaves: Sequence[Any]) -> None:
    """Let the sources draw from the Generators of this run."""
    generators = (leaf for leaf in leaves if isinstance(leaf, np.random.Generator))
    for source, generator in zip(sources, generators, strict=True):
        source.generator = generator
