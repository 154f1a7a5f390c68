"""What an emitted function takes and returns: parameters, the arrays inside them, and structures of gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.emit.scope import Scope
from minigrad.program import Var
from minigrad.trace import parameter_names
from minigrad.tree import Structure

__all__ = ["LINE", "Signature", "built", "called", "described", "returned"]

LINE = 110


class Signature:
    """The parameters of the function, and what the arrays in its arguments are called.

    An argument without arrays, such as an eps given by position, is part of the text, not a parameter.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[Var],
        scope: Scope,
    ) -> None:
        self.scope = scope
        self.parameters: list[str] = []
        self.names: list[str] = []  # of all arguments
        rest = iter(inputs)
        for name, argument in (dict(zip(parameter_names(f, len(args)), args, strict=True)) | kwargs).items():
            leaves, structure = tree.flatten(argument)
            are_arrays = [isinstance(leaf, (np.ndarray, np.generic)) for leaf in leaves]
            name = scope.new(name) if any(are_arrays) else name
            self.names.append(name)
            if any(are_arrays):
                self.parameters.append(name)
            for is_array, access in zip(are_arrays, _accesses(structure, name), strict=True):
                if is_array:
                    scope.names[next(rest)] = access

    def add_cotangent(self, seeds: list[Var], structure: Structure) -> None:
        """Put the gradient of the result, or of each of the results, in front."""
        name = self.scope.new("g" if "g" not in self.scope.taken else "gradient")
        self.parameters.insert(0, name)
        for seed, access in zip(seeds, _accesses(structure, name), strict=True):
            self.scope.names[seed] = access


def _steps(structure: Structure) -> list[str]:
    """Return how each child of a structure is reached: ["q"], [0], .scale."""
    return [f"[{_quoted(key)}]" for key in structure.keys] if structure.kind is dict else list(structure.steps)


def _quoted(key: Any) -> str:
    plain = isinstance(key, str) and key.isprintable() and not {'"', "\\"} & set(key)
    return f'"{key}"' if plain else repr(key)


def _accesses(structure: Structure, name: str) -> list[str]:
    """Return how each leaf of a structure is reached: weights["q"], pair[0], params.scale."""
    if structure.kind is None:
        return [name]
    children = zip(_steps(structure), structure.children, strict=True)
    return [access for step, child in children for access in _accesses(child, name + step)]


def built(structure: Structure, leaves: list[str], argument: str) -> str:
    """Return the expression that puts leaves, taken from the list, into a structure such as that of the argument."""
    if structure.kind is None:
        return leaves.pop(0)
    steps = _steps(structure)
    below = [built(child, leaves, argument + s) for child, s in zip(structure.children, steps, strict=True)]
    if structure.kind is type(None):
        return "None"
    if structure.kind is dict:
        return "{" + ", ".join(f"{_quoted(k)}: {x}" for k, x in zip(structure.keys, below, strict=True)) + "}"
    if structure.kind is list:
        return f"[{', '.join(below)}]"
    if structure.kind is tuple:
        return f"({', '.join(below)}{',' * (len(below) == 1)})"
    fields = ", ".join(f"{s.removeprefix('.')}={x}" for s, x in zip(steps, below, strict=True))
    return f"type({argument})({fields})"


def returned(values: list[str]) -> list[str]:
    """Return the lines of `return a, {...}`, broken inside brackets where they are too long for one."""
    code = f"return {', '.join(values)}"
    if len(code) <= LINE:
        return [code]
    if len(values) == 1:
        return _broken(code, "")
    return ["return (", *(line for value in values for line in _broken(f"{value},", "    ")), ")"]


def _broken(code: str, indent: str) -> list[str]:
    start = min((code.find(c) for c in "{[(" if c in code), default=-1)
    if len(indent + code) <= LINE or start < 0:
        return [indent + code]
    end = len(code) - code.endswith(",") - 1
    middle = [line for part in _parts(code[start + 1 : end]) for line in _broken(f"{part},", indent + "    ")]
    return [indent + code[: start + 1], *middle, indent + code[end:]]


def _parts(code: str) -> list[str]:
    """Return what stands between the commas that are in no brackets."""
    parts, depth = [""], 0
    for c in code:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def called(f: Callable[..., Any]) -> str:
    """Return the name of a function, or the class of an object that is called."""
    while isinstance(f, functools.partial):
        f = f.func
    return getattr(f, "__name__", type(f).__name__)


def described(f: Callable[..., Any]) -> str:
    """Return the name of a function and where it is."""
    while isinstance(f, functools.partial):
        f = f.func
    code = getattr(getattr(f, "__func__", f), "__code__", None)
    return called(f) if code is None else f"{called(f)} ({Path(code.co_filename).name}:{code.co_firstlineno})"
