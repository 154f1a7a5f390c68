"""What a function reaches without being given it: state in there would be frozen, or spoilt, by compiling."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from minigrad.errors import UnsupportedError
from minigrad.fingerprint import fingerprint
from minigrad.op import Recorded
from minigrad.tape import computes_in_its_own_way

__all__ = ["Captured"]


class Captured:
    """The generators and containers that a function captures, as they were before it was traced."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.values = dict(_reachable(f))
        self.drawn = {name: _state(x) for name, x in self.values.items() if isinstance(x, np.random.Generator)}
        arrays = {name: x for name, x in self.values.items() if isinstance(x, np.ndarray)}
        arrays = {name: x for name, x in arrays.items() if not computes_in_its_own_way(x)}  # refused if it is used
        self.arrays = {name: (x, fingerprint(x)) for name, x in arrays.items()}
        self.legacy = np.random.get_state(legacy=False)  # noqa: NPY002  # users' code draws from it

    def check(self) -> None:
        """Raise UnsupportedError if the function drew numbers that would be frozen, wrote, or left an array behind."""
        fix = "  fix  pass the numpy.random.Generator as an argument: then every call draws fresh numbers"
        frozen = "these would be the same in every call\n"
        for name, before in self.drawn.items():
            if not _equal(before, _state(self.values[name])):
                raise UnsupportedError(f"compile: random numbers were drawn from the captured `{name}`: {frozen}{fix}")
        if not _equal(self.legacy, np.random.get_state(legacy=False)):  # noqa: NPY002
            raise UnsupportedError(f"compile: random numbers were drawn from np.random: {frozen}{fix}")
        for name, (array, mark) in self.arrays.items():
            if fingerprint(array) != mark:
                raise UnsupportedError(
                    f"compile: the function changed the captured array `{name}` while it was traced: a compiled "
                    "function runs without Python, so it would never change again\n"
                    "  fix  pass it as an argument, and return the new value"
                )
        for name, value in self.values.items():
            if any(isinstance(x, Recorded) for x in _contents(value)):
                raise UnsupportedError(
                    f"compile: the function stored a traced array in `{name}`: a compiled function runs without "
                    "Python, so it would never change again\n"
                    "  fix  pass state as an argument, and return the new state"
                )


def _reachable(f: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values: of closures, of globals that are mentioned, of the object whose method it is."""
    waiting, seen = [f], set()
    while waiting:
        f = waiting.pop()
        if id(f) in seen or (getattr(f, "__module__", None) or "").startswith(("numpy", "minigrad")):
            continue
        seen.add(id(f))
        if isinstance(f, functools.partial):
            waiting += [f.func, *f.args, *f.keywords.values()]
        elif isinstance(f, MethodType):
            yield from _attributes(f.__self__)
            waiting.append(f.__func__)
        elif isinstance(f, FunctionType):
            for name, value in _mentioned(f):
                yield name, value
                if isinstance(value, (FunctionType, MethodType, functools.partial)):
                    waiting.append(value)
        elif hasattr(f, "__dict__") and not isinstance(f, type) and isinstance(type(f).__call__, FunctionType):
            yield from _attributes(f)
            waiting.append(type(f).__call__)


def _mentioned(f: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not yet assigned to
            continue
    for name in _names(f.__code__):
        if name in f.__globals__:
            yield name, f.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    called = type(owner).__name__
    yield called, owner
    for name, value in getattr(owner, "__dict__", {}).items():
        yield f"{called}.{name}", value


def _contents(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (Recorded, type, FunctionType)):
        return [value]
    return list(getattr(value, "__dict__", {}).values())


def _state(generator: np.random.Generator) -> Any:
    return generator.bit_generator.state


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_equal(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))
