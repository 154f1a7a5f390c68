"""Which arrays of somebody's layer are parameters, and where its backward pass leaves their gradients.

A parameter is a float array that is reachable from the layer: an attribute, an element of a list or a dictionary, an
attribute of a layer inside it. Its gradient is a float array that the backward pass makes or changes, found by its
name: grad_W, dW, W_grad, grads["W"], grads[0] for params[0], .grad beside .data, or the change of the parameter
itself where the backward pass makes a step. What has such a name is the gradient whatever its shape is, and if it is
None: that is what is wrong then.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.check.places import Place

__all__ = [
    "PARAMETERS",
    "gradient_places",
    "is_called_a_gradient",
    "is_called_a_parameter",
    "is_called_a_statistic",
    "is_gradient_of",
    "misshapen_places",
    "returned_gradients",
]

VALUES = ("data", "value", "val", "values", "array", "tensor", "w", "param", "weight", "x")
GRADIENTS = ("grad", "grads", "gradient", "gradients", "g", "d", "dw", "delta", "derivative", "diff")
BEFORE = ("d", "grad", "gradient", "g", "delta", "dl", "dloss", "dld", "nabla", "accgrad", "dj", "dc")
AFTER = ("grad", "gradient", "grads", "gradients", "g", "d", "bar", "delta")
PARAMETERS = re.compile(
    r"(^|_|\.)(W[a-z]{0,3}|[wbUu]|b[hxifoczrqkv]|weights?|bias(es)?|gamma|beta|gain|kernels?|filters?|theta|coef|"
    r"intercept|embeddings?|params?)\d*(_|$)"
)


def gradient_places(candidates: Sequence[Place], changed: Mapping[str, Place]) -> dict[str, str]:
    """Return the path of the gradient of each parameter that has one of its shape.

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
            if place.path in found or place.path in taken or "grad" in place.holder.rpartition(".")[2].lower():
                continue
            for path, other in changed.items():
                if path in taken or path == place.path or np.shape(other.value) != np.shape(place.value):
                    continue
                if _named_after(place, other) if exact else _resembles(place, other, candidates, changed):
                    found[place.path] = path
                    taken.add(path)
                    break
    return found


def misshapen_places(
    candidates: Sequence[Place], changed: Mapping[str, Place], taken: Collection[str]
) -> dict[str, str]:
    """Return the path of what is called the gradient of a parameter, but has another shape, or is None."""
    found: dict[str, str] = {}
    for place in candidates:
        for path, other in changed.items():
            if path not in taken and path not in found.values() and path != place.path and _surely_after(place, other):
                found[place.path] = path
                break
    return found


def returned_gradients(candidates: Sequence[Place], parts: Mapping[tuple[Any, ...], Any]) -> dict[str, tuple[Any, ...]]:
    """Return which parts of what a backward pass returned are the gradients of which parameters: by name, or in order.

    Parameters
    ----------
    candidates
        The parameters that have no gradient elsewhere.
    parts
        What was returned besides the gradients of the inputs, by the keys that lead to it.
    """
    found: dict[str, tuple[Any, ...]] = {}
    called = {k: k[-1] for k in parts if k and isinstance(k[-1], str)}
    for place in candidates:
        named = [k for k, name in called.items() if is_gradient_of(name, place.key)]
        if named:
            found[place.path] = named[0]
    rest = [p for p in candidates if p.path not in found]
    free = [k for k in parts if k not in found.values() and k not in called]
    if len(rest) == len(free):  # a wrong shape is a finding, not a reason to leave it out
        return found | {p.path: k for p, k in zip(rest, free, strict=True)}
    for place in rest:
        fitting = [k for k in free if np.shape(parts[k]) == np.shape(place.value)]
        if fitting:
            found[place.path] = fitting[0]
            free.remove(fitting[0])
    return found


def is_called_a_gradient(name: str) -> bool:
    """Tell whether an attribute is called as gradients are: `derivatives`, `d_z`, `error_grad`."""
    return _bare(name).startswith(("d", "grad", "nabla")) or "grad" in name.lower()


def is_called_a_parameter(place: Place, known: Collection[str]) -> bool:
    """Tell whether a place is called as parameters are, or is beside one in a list or a dictionary."""
    holder = place.holder.rpartition(".")[2]
    if isinstance(place.owner, (list, dict)):
        return any(k.rpartition("[")[0] == place.holder for k in known) or PARAMETERS.search(holder) is not None
    name = holder if str(place.key) in VALUES and holder else str(place.key)
    return PARAMETERS.search(name.strip("_")) is not None


def is_called_a_statistic(place: Place) -> bool:
    """Tell whether a place is called as running statistics are: it has no gradient."""
    return str(place.key).lower().strip("_").startswith(("running", "moving"))


def _named_after(place: Place, other: Place) -> bool:
    """Tell whether a place is called the gradient of another."""
    if isinstance(place.key, int) and isinstance(other.key, int):  # params[0] and grads[0]
        return place.key == other.key and _is_pair(place.holder, other.holder)
    name, gradient = _bare(place.key), _bare(other.key)
    if place.holder == other.holder:
        return _is_derivative(gradient, name) or (name in VALUES and gradient in GRADIENTS)
    if isinstance(other.owner, dict):  # grads["W"] for W, or for params["W"], or grads["dW"]
        return _same_level(place, other) and is_gradient_of(gradient, name)
    return False


def _surely_after(place: Place, other: Place) -> bool:
    """Tell whether a place can only be meant to be the gradient of another: a `g` or `delta` beside `w` is not."""
    if not _named_after(place, other):
        return False
    if place.holder != other.holder or isinstance(place.key, int):
        return "grad" in other.holder.lower() or not isinstance(other.owner, dict)
    gradient = _bare(other.key)
    return len(gradient) > 1 and (gradient.startswith(("d", "grad", "nabla")) or gradient.endswith("grad"))


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


def is_gradient_of(key: Any, name: Any) -> bool:
    """Tell whether a key of a dictionary of gradients is that of a name: "w" or "dw" for w."""
    return _bare(key) == _bare(name) or _is_derivative(_bare(key), _bare(name))


def _is_derivative(gradient: str, name: str) -> bool:
    """Tell whether bare names are those of a gradient and of what it belongs to: dw, gradw, wgrad for w."""
    stems = {name, name.removesuffix("s"), name.removesuffix("es"), name.removesuffix("ights"), name + "s"}
    stems |= {"w", "weight", "weights"} if name in ("w", "weight", "weights") else set()
    stems |= {"b", "bias", "biases"} if name in ("b", "bias", "biases") else set()
    return any(gradient.startswith(m) and gradient[len(m) :] in stems for m in BEFORE) or any(
        gradient.endswith(m) and gradient[: -len(m)] in stems for m in AFTER
    )


def _resembles(place: Place, other: Place, candidates: Sequence[Place], changed: Mapping[str, Place]) -> bool:
    """Tell whether a place is the one gradient-like array of its shape beside the one parameter of that shape."""
    if place.holder != other.holder or not _bare(other.key).startswith(("d", "grad", "delta", "nabla", "g")):
        return False
    shape = np.shape(place.value)
    beside = [p for p in changed.values() if p.holder == place.holder and np.shape(p.value) == shape]
    alike = [p for p in candidates if p.holder == place.holder and np.shape(p.value) == shape and p.path not in changed]
    return len(beside) == 1 and len(alike) == 1
