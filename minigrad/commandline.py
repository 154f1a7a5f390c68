"""What the commands of `python -m minigrad` share: finding a function, and making arrays to call it with."""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.errors import MinigradError

__all__ = ["INPUT", "CommandError", "arguments", "bound", "load", "made"]

INPUT: dict[str, Any] = {  # of the option --input
    "action": "append",
    "default": [],
    "metavar": "[NAME=]SHAPE",
    "help": "an input: 2,4,8 for an array, 1e-5 for a value that has no gradient, 'log_t=' for a scalar array; in "
    "order, or by name: ids=2,5:int64; repeat for each",
}
MOST_NAMES = 20


class CommandError(MinigradError, ValueError):
    """Something that was typed makes no sense."""


def load(target: str) -> Callable[..., Any]:
    """Return the function that `path/to/file.py:name`, `package.module:name` or `...:Class.method` names.

    Raises
    ------
    CommandError
        If there is no such file, module or name.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not name:
        raise CommandError(f"wanted path/to/file.py:function or package.module:function, got {target!r}")
    found: Any = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{place} has no {name!r}{_instead(found, part)}")
        found = getattr(found, part)
    if not callable(found):
        raise CommandError(f"{target} is a {type(found).__name__}; wanted a function")
    return found  # type: ignore[no-any-return]


def _module(place: str) -> Any:
    """Import a file, in its package if it is part of one, or a module by its name."""
    path = Path(place)
    if path.suffix != ".py":
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise CommandError(f"there is no module {place!r}; a file is given with its .py ({error})") from error
    if not path.is_file():
        raise CommandError(f"there is no file {place}")
    path = path.resolve()
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names, folder = [folder.name, *names], folder.parent
    sys.path.insert(0, str(folder))
    return importlib.import_module(".".join(names))


def _instead(owner: Any, name: str) -> str:
    """Return the nearest name that a module or a class has, and what functions and classes it has."""
    names = [n for n in dir(owner) if not n.startswith("_") and callable(getattr(owner, n))]
    if inspect.ismodule(owner):  # what it has imported is not its own
        names = [n for n in names if getattr(getattr(owner, n), "__module__", None) == owner.__name__]
    near = difflib.get_close_matches(name, names, 1)
    more = ", ..." if len(names) > MOST_NAMES else ""
    has = ", ".join(names[:MOST_NAMES]) + more if names else "no functions or classes"
    return f": did you mean {near[0]!r}? It has {has}" if near else f"; it has {has}"


def made(text: str, rng: np.random.Generator) -> tuple[str, Any]:
    """Return the name and the value of `x=3,4`, `ids=2,5:int64` or `eps=1e-5`.

    A shape gives an array: standard normal numbers, or zeros and ones for integers and booleans; `x=` or `x=()` gives
    a scalar array. A number with a point or an exponent, None, True, False or a quoted string is that value itself.

    Raises
    ------
    CommandError
        If it is none of these.
    """
    name, value = _named(text)
    if not name:
        raise CommandError(f"wanted name=shape, such as x=3,4 or ids=2,5:int64, or name=value; got {text!r}")
    return name, _value(name, value, rng)


def arguments(
    f: Callable[..., Any], texts: Sequence[str], rng: np.random.Generator
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a function that are given as `3,4`, in order, or as `x=3,4`.

    Raises
    ------
    CommandError
        If they make no sense, or do not fit its parameters.
    """
    in_order, by_name = list[Any](), dict[str, Any]()
    for name, value in map(_named, texts):
        if name in by_name:
            raise CommandError(f"{name} is given twice")
        made_of_it = _value(name or f"input {len(in_order) + 1}", value, rng)
        if name:
            by_name[name] = made_of_it
        else:
            in_order.append(made_of_it)
    return bound(f, by_name, in_order)


def _named(text: str) -> tuple[str, str]:
    """Return the name, "" if there is none, and what is given for it."""
    name, equals, value = text.partition("=")
    return (name, value) if equals and name.isidentifier() else ("", text)


def _value(name: str, value: str, rng: np.random.Generator) -> Any:
    shape, _, dtype = value.partition(":")
    digits = shape.strip("()").replace(" ", "")
    if all(part.isdigit() for part in digits.split(",") if part):
        return _drawn(tuple(int(part) for part in digits.split(",") if part), dtype or "float64", rng)
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError) as error:
        raise CommandError(f"{name} should be a shape, such as 3,4 or 2,5:int64, or a value; got {value!r}") from error


def _drawn(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise CommandError(f"there is no dtype {dtype!r}; wanted float64, float32, int64, bool ...") from error
    if kind.kind in "biu":
        return rng.integers(0, 2, shape).astype(kind)
    numbers = rng.normal(size=shape).round(2)
    return np.asarray(numbers + 1j * rng.normal(size=shape).round(2) if kind.kind == "c" else numbers).astype(kind)


def bound(
    f: Callable[..., Any], values: dict[str, Any], in_order: Sequence[Any] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return values, by name or in order, as positional and keyword arguments of a function.

    Raises
    ------
    CommandError
        If they do not fit its parameters.
    """
    if not hasattr(f, "__code__"):  # a function of NumPy, whose parameters may have no names: take them in order
        return (*in_order, *values.values()), {}
    signature = inspect.signature(f)
    named = getattr(f, "__name__", f)
    if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        for name in (n for n in values if n not in signature.parameters):
            near = difflib.get_close_matches(name, signature.parameters, 1)
            raise CommandError(f"{named}{signature}: no {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    try:
        found = signature.bind(*in_order, **values)
    except TypeError as error:
        raise CommandError(f"{named}{signature}: {error}") from error
    return found.args, found.kwargs
