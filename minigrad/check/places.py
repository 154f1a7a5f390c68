"""The places in somebody's layer where arrays are held: attributes, elements of lists, layers inside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.lines import is_users
from minigrad.op import Recorded

__all__ = ["Place", "changed_places", "marks", "places", "put", "sizes"]


@dataclass(frozen=True)
class Place:
    """Where an array is held: the path from the layer, and the attribute, element or key at its end."""

    path: str
    owner: Any
    key: Any
    holder: str  # the path of the owner

    @property
    def value(self) -> Any:
        """What is there now."""
        if isinstance(self.owner, (dict, list, tuple)):
            return self.owner[self.key]
        return getattr(self.owner, self.key)

    def put(self, value: Any) -> None:
        """Put something there."""
        if isinstance(self.owner, (dict, list)):
            self.owner[self.key] = value
        else:
            object.__setattr__(self.owner, self.key, value)


def _step(owner: Any, key: Any) -> str:
    return f"[{key!r}]" if isinstance(owner, (dict, list, tuple)) else f".{key}"


def places(layer: Any, anything: bool = False) -> list[Place]:
    """Return every place of a float array that is reachable from a layer, outer places first.

    With `anything` the places of numbers and of None as well, and the elements of tuples: a gradient may be there
    that is not what it should be.
    """
    found: list[Place] = []
    seen: set[int] = set()
    queue: list[tuple[str, Any]] = [("", layer)]
    while queue:
        path, owner = queue.pop(0)
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for key, held in _held(owner):
            place = Place((path + _step(owner, key)).removeprefix("."), owner, key, path)
            if _is_array(held):
                if anything or not isinstance(owner, tuple):
                    found.append(place)
            elif anything and (held is None or isinstance(held, (float, int, np.number))):
                found.append(place)
            elif not isinstance(held, (np.ndarray, Recorded)):
                queue.append((place.path, held))
    return found


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, Recorded)) and getattr(x, "dtype", np.dtype(int)).kind in "fc"


def _held(owner: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(owner, dict):
        yield from list(owner.items())
    elif isinstance(owner, (list, tuple)):  # a tuple cannot be written to, but what it holds may
        yield from enumerate(owner)
    elif _is_object(owner):
        yield from list(vars(owner).items())


def _is_object(x: Any) -> bool:
    """Tell whether x is an instance of a class of the user's code."""
    module = sys.modules.get(type(x).__module__)
    return (
        hasattr(x, "__dict__")
        and not isinstance(x, type)
        and (type(x).__module__ == "__main__" or is_users(getattr(module, "__file__", None) or "<frozen"))
    )


def put(found: list[Place], values: Mapping[str, Any]) -> None:
    """Put other arrays into a layer: by path, and at every other place that holds the same array."""
    by_path = {p.path: p for p in found}
    for path, value in values.items():
        old = by_path[path].value
        for place in found:
            if place.value is old:
                place.put(value)


def marks(layer: Any) -> dict[str, Any]:
    """Return what all arrays and numbers of a layer are now."""
    return {p.path: _mark(p.value) for p in places(layer, anything=True)}


def changed_places(before: Mapping[str, Any], layer: Any, anything: bool = False) -> dict[str, Place]:
    """Return the places whose arrays are new, or have other numbers than they had; with `anything` None is one too."""
    now = {p.path: p for p in places(layer, anything)}
    return {k: p for k, p in now.items() if p.value is None or before.get(k) != _mark(p.value)}


def _mark(x: Any) -> Any:
    return x.tobytes() if isinstance(x, np.ndarray) else x


def sizes(layer: Any) -> set[int]:
    """Return the whole numbers above 1 that a layer holds: it may have been made for inputs of these sizes."""
    held = (p.value for p in places(layer, anything=True))
    return {int(x) for x in held if isinstance(x, (int, np.integer)) and not isinstance(x, bool) and x > 1}
