"""What the commands of `python -m minigrad` share: finding a function, and making arrays to call it with."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.errors import MinigradError

__all__ = ["CommandError", "bound", "load", "made"]


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
    module = _module(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise CommandError(f"{place} has no {name!r}; it has {', '.join(_functions(module)) or 'no functions'}")
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


def _functions(module: Any) -> list[str]:
    own = (n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__)
    return sorted(n for n in own if not n.startswith("_"))


def made(text: str, rng: np.random.Generator) -> tuple[str, Any]:
    """Return the name and the value of `x=3,4`, `ids=2,5:int64` or `eps=1e-5`.

    A shape gives an array: standard normal numbers, or zeros and ones for integers and booleans; `x=` or `x=()` gives
    a scalar array. A number with a point or an exponent, None, True, False or a quoted string is that value itself.

    Raises
    ------
    CommandError
        If it is none of these.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise CommandError(f"wanted name=shape, such as x=3,4 or ids=2,5:int64, or name=value; got {text!r}")
    shape, _, dtype = value.partition(":")
    digits = shape.strip("()").replace(" ", "")
    if all(part.isdigit() for part in digits.split(",") if part):
        return name, _drawn(tuple(int(part) for part in digits.split(",") if part), dtype or "float64", rng)
    try:
        return name, ast.literal_eval(value)
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


def bound(f: Callable[..., Any], values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the values as positional and keyword arguments of a function.

    Raises
    ------
    CommandError
        If they do not fit its parameters.
    """
    if not hasattr(f, "__code__"):  # a function of NumPy, whose parameters may have no names: take them in order
        return tuple(values.values()), {}
    signature = inspect.signature(f)
    try:
        arguments = signature.bind(**values)
    except TypeError as error:
        raise CommandError(f"{getattr(f, '__name__', f)}{signature}: {error}") from error
    return arguments.args, arguments.kwargs
