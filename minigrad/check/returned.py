"""What an adjoint returned, as the gradient of each float array among its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.naming import is_float, is_numeric, kind_of, name_of
from minigrad.errors import StructureError

__all__ = ["by_leaf"]


def by_leaf(subject: Any, result: Any) -> list[Any]:
    """Return the gradient of each moving leaf out of what an adjoint returned; None where it says None.

    Raises
    ------
    StructureError
        If what came has not the structure of the arguments.
    """
    moving = [subject.args[i] for i in subject.argnums]
    several = isinstance(result, tuple) or (isinstance(result, list) and not isinstance(moving[0], list))
    alone = len(moving) == 1 and (not several or isinstance(moving[0], tuple))
    given = (result,) if alone else _of_moving(subject, result)
    if not isinstance(given, (tuple, list)) or len(given) != len(moving):
        came = f"{len(given)} values" if isinstance(given, (tuple, list)) else f"one {type(given).__name__}"
        needed = ", ".join(subject.arguments[i] for i in subject.argnums)
        raise StructureError(
            f"{name_of(subject.adjoint)} should return {len(moving)} gradient{'s' * (len(moving) > 1)}, "
            f"for {needed}; it returned {came}"
        )
    found: list[Any] = []
    for i, argument, gradient in zip(subject.argnums, moving, given, strict=True):
        leaves, structure = tree.flatten(argument)
        if gradient is None:
            parts = [None for _ in leaves]
        elif structure.kind is None:
            parts = [gradient]
        else:
            parts, came_structure = tree.flatten(_none_as_leaf(argument, gradient))
            where = f"{name_of(subject.adjoint)}: the gradient of {subject.arguments[i]}"
            if isinstance(argument, dict) and isinstance(gradient, dict) and argument.keys() - gradient.keys():
                missing = ", ".join(map(repr, sorted(argument.keys() - gradient.keys(), key=str)))
                raise StructureError(f"{where} has no {missing}")
            tree.check_same(structure, came_structure, where)
        pairs = zip(leaves, parts, strict=True)
        found += [None if part is _NONE else part for leaf, part in pairs if is_float(leaf)]
    for name, gradient in zip(subject.names, found, strict=False):
        if gradient is not None and not is_numeric(gradient):
            came = f"an array of {gradient.dtype}" if isinstance(gradient, np.ndarray) else f"{gradient!r:.60}"
            raise StructureError(
                f"{name_of(subject.adjoint)}: the gradient of {name} should be an array of numbers, it is {came}"
            )
    return found


def _of_moving(subject: Any, given: Any) -> Any:
    """Return the gradients of the arguments that move; None may stand in the place of the others."""
    if not isinstance(given, (tuple, list)) or not len(subject.argnums) < len(given) == len(subject.args):
        return given
    for i, (name, argument, gradient) in enumerate(zip(subject.arguments, subject.args, given, strict=True)):
        if i not in subject.argnums and gradient is not None:
            why = f"{name} is {kind_of(argument)}" if not is_float(argument) else f"argnums leaves {name} out"
            raise StructureError(
                f"{name_of(subject.adjoint)} returned a gradient of {name}, but {why}: leave it out, "
                f"or return None in its place; to have it checked, pass {name} as a float array"
            )
    return [given[i] for i in subject.argnums]


_NONE = object()


def _none_as_leaf(argument: Any, gradient: Any) -> Any:
    """Return a tree of gradients in which None, where the argument has an array, is a leaf as well."""
    if gradient is None:
        return _NONE if is_float(argument) else None
    if isinstance(gradient, dict) and isinstance(argument, dict):
        return {k: _none_as_leaf(argument.get(k), x) for k, x in gradient.items()}
    if type(gradient) in (list, tuple) and isinstance(argument, (list, tuple)) and len(gradient) == len(argument):
        return type(gradient)(_none_as_leaf(a, x) for a, x in zip(argument, gradient, strict=True))
    return gradient
