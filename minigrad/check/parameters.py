"""The parameters of somebody's layer, and where its backward pass leaves their gradients.

A parameter is a float array that is reachable from the layer: an attribute, an element of a list or a dictionary, an
attribute of a layer inside it. Its gradient is a float array that the backward pass makes or changes, found by its
name: grad_W, dW, W_grad, grads["W"], grads[0] for params[0], .grad beside .data, or the change of the parameter
itself where the backward pass makes a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.lines import is_users
from minigrad.op import Recorded

__all__ = ["Place", "changed_places", "gradient_places", "places", "put"]

VALUES = ("data", "value", "val", "values", "array", "tensor", "w", "param", "weight", "x")
GRADIENTS = ("grad", "grads", "gradient", "gradients", "g", "d", "dw", "delta", "derivative", "diff")


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
        if isinstance(self.owner, (dict, list)):
            return self.owner[self.key]
        return getattr(self.owner, self.key)

    def put(self, value: Any) -> None:
        """Put something there."""
        if isinstance(self.owner, (dict, list)):
            self.owner[self.key] = value
        else:
            object.__setattr__(self.owner, self.key, value)


def _step(owner: Any, key: Any) -> str:
    return f"[{key!r}]" if isinstance(owner, (dict, list)) else f".{key}"


def places(layer: Any) -> list[Place]:
    """Return every place of a float array that is reachable from a layer, outer places first."""
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
            if (
                isinstance(held, (np.ndarray, Recorded))
                and getattr(held, "dtype", np.dtype(int)).kind in "fc"
            ):
                found.append(place)
            elif not isinstance(held, (np.ndarray, Recorded)):
                queue.append((place.path, held))
    return found


def _held(owner: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(owner, dict):
        yield from list(owner.items())
    elif isinstance(owner, list):
        yield from enumerate(owner)
    elif isinstance(owner, tuple):  # cannot be written to, but what it holds may
        yield from (
            (f"[{i}]", x) for i, x in enumerate(owner) if isinstance(x, (dict, list)) or _is_object(x)
        )
    elif _is_object(owner):
        yield from list(vars(owner).items())


def _is_object(x: Any) -> bool:
    """Tell whether x is an instance of a class of the user's code."""
    import sys

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


def changed_places(before: Mapping[str, bytes], layer: Any) -> dict[str, Place]:
    """Return the places whose arrays are new, or have other numbers than they had."""
    now = {p.path: p for p in places(layer)}
    return {path: p for path, p in now.items() if before.get(path) != p.value.tobytes()}


def marks(layer: Any) -> dict[str, bytes]:
    """Return what all arrays of a layer are now."""
    return {p.path: p.value.tobytes() for p in places(layer)}


def gradient_places(candidates: list[Place], changed: Mapping[str, Place]) -> dict[str, str]:
    """Return the path of the gradient of each parameter that has one.

    Parameters
    ----------
    candidates
        The places that hold arrays before the layer has run.
    changed
        The places that the backward pass has changed.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for exact in (True, False):
        for place in candidates:
            if place.path in found or place.path in taken:
                continue
            for path, other in changed.items():
                if path in taken or path == place.path or np.shape(other.value) != np.shape(place.value):
                    continue
                if _named_after(place, other) if exact else _resembles(place, other, candidates, changed):
                    found[place.path] = path
                    taken.add(path)
                    break
    return found


def _named_after(place: Place, other: Place) -> bool:
    """Tell whether a place is called the gradient of another."""
    if isinstance(place.key, int) and isinstance(other.key, int):  # params[0] and grads[0]
        return place.key == other.key and _is_pair(place.holder, other.holder)
    name, gradient = _bare(place.key), _bare(other.key)
    if place.holder == other.holder:
        return _is_derivative(gradient, name) or (name in VALUES and gradient in GRADIENTS)
    if isinstance(other.owner, dict):  # grads["W"] for W, or for params["W"], or grads["dW"]
        return _same_level(place, other) and (gradient == name or _is_derivative(gradient, name))
    return False


def _is_pair(params: str, grads: str) -> bool:
    """Tell whether two lists are those of the parameters and of their gradients."""
    level, _, name = grads.rpartition(".")
    above, _, parameters = params.rpartition(".")
    known = (*GRADIENTS, "dparams", "paramgrads", "gradparams", "gradlist")
    return above == level and (_bare(name) in known or _is_derivative(_bare(name), _bare(parameters)))


def _same_level(place: Place, other: Place) -> bool:
    return other.holder.rpartition(".")[0] in (place.holder, place.holder.rpartition(".")[0])


def _bare(key: Any) -> str:
    name = str(key)
    while name.startswith("_") and "__" in name[1:]:  # a private name, as Python mangles it
        name = name[name.index("__", 1) + 2 :]
    return name.lower().replace("_", "").replace(".", "")


def _is_derivative(gradient: str, name: str) -> bool:
    """Tell whether bare names are those of a gradient and of what it belongs to: dw, gradw, wgrad for w."""
    stems = {name, name.removesuffix("s"), name.removesuffix("es"), name.removesuffix("ights"), name + "s"}
    stems |= {"w", "weight", "weights"} if name in ("w", "weight", "weights") else set()
    stems |= {"b", "bias", "biases"} if name in ("b", "bias", "biases") else set()
    for mark in ("d", "grad", "gradient", "g", "delta", "dl", "dloss", "dld", "nabla", "accgrad", "dj", "dc"):
        if gradient.startswith(mark) and gradient[len(mark) :] in stems:
            return True
    return any(
        gradient.endswith(m) and gradient[: -len(m)] in stems
        for m in ("grad", "gradient", "grads", "gradients", "g", "d", "bar", "delta")
    )


def _resembles(place: Place, other: Place, candidates: list[Place], changed: Mapping[str, Place]) -> bool:
    """Tell whether a place is the one gradient-like array of its shape beside the one parameter of that shape."""
    if place.holder != other.holder or not _bare(other.key).startswith(("d", "grad", "delta", "nabla", "g")):
        return False
    shape = np.shape(place.value)
    beside = [p for p in changed.values() if p.holder == place.holder and np.shape(p.value) == shape]
    alike = [
        p
        for p in candidates
        if p.holder == place.holder and np.shape(p.value) == shape and p.path not in changed
    ]
    return len(beside) == 1 and len(alike) == 1
