"""Which of the gradients that a backward pass returned belong to which inputs.

An input is an array, or a tree of arrays: a list of them, a dictionary of parameters. Gradients are found by their
names (`dx` for `x`, `grads["dWf"]` for `parameters["Wf"]`), by their structure, or by their order where shapes agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.naming import is_float
from minigrad.check.parameters import is_gradient_of

__all__ = ["Matching", "besides", "part_at", "released"]

TARGETS = (  # in this order: beside `y_true`, `y` is the prediction
    re.compile(r"(^|_)(true|truth|gt|targets?|labels?|expected|desired|actual)$|^y_?(true|real|train)"),
    re.compile(r"(^|_)(y|t|ts)$"),
)
Keys = tuple[Any, ...]  # those that lead to a part of what was returned; () is the whole


class Held:
    """An array in a tree of arrays of which no gradient is returned: it does not move. (A leaf of trees itself.)"""

    def __init__(self, value: Any) -> None:
        self.value = value


def released(inputs: Sequence[Any]) -> list[Any]:
    """Return inputs as the user's code knows them: with no array held."""
    return [tree.map(lambda x: x.value if isinstance(x, Held) else x, a) for a in inputs]


def flat(returned: Any, keys: Keys = ()) -> dict[Keys, Any]:
    """Return the arrays and numbers that were returned, by the keys that lead to them."""
    if isinstance(returned, dict):
        parts = dict(returned)
    elif isinstance(returned, (list, tuple)):
        parts = dict(enumerate(returned))
    else:
        return {keys: returned} if is_float(returned) or isinstance(returned, float) else {}
    return {k: x for key, part in parts.items() for k, x in flat(part, (*keys, key)).items()}


def part_at(returned: Any, keys: Keys) -> Any:
    """Return the part of what was returned that these keys lead to; None if there is none."""
    for key in keys:
        try:
            returned = returned[key]
        except (KeyError, IndexError, TypeError):
            return None
    return returned


@dataclass
class Matching:
    """Where the gradient of each input is in what a backward pass returned.

    Attributes
    ----------
    keys
        By the number of an input, for each of its float arrays in order: where its gradient is. None if nowhere.
    """

    names: Sequence[str]
    inputs: Sequence[Any]
    keys: dict[int, list[Keys | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, returned: Any, inputs: Sequence[Any], names: Sequence[str]) -> Matching:
        """Match what was returned with the inputs, which have these names."""
        found = cls(names, inputs)
        parts = flat(returned)
        found._by_name(parts)
        found._by_structure(returned)
        found._by_order(returned, parts)
        return found

    @property
    def moving(self) -> list[int]:
        """The numbers of the inputs that have a gradient."""
        return [i for i in range(len(self.inputs)) if any(k is not None for k in self.keys.get(i, ()))]

    @property
    def taken(self) -> set[Keys]:
        """Where the gradients of inputs are."""
        return {k for keys in self.keys.values() for k in keys if k is not None}

    def missing(self) -> list[int]:
        """Return the numbers of the arrays among the inputs that have no gradient."""
        return [i for i, x in enumerate(self.inputs) if is_float(x) and i not in self.moving]

    def predictions(self, candidates: list[int], count: int) -> list[int]:
        """Return those of some inputs that are not called targets, if there are fewer gradients than inputs."""
        for pattern in TARGETS if count < len(candidates) else ():
            moving = [i for i in candidates if i >= len(self.names) or not pattern.search(self.names[i].lower())]
            if moving and len(moving) < len(candidates):
                return moving
        return candidates

    def held(self) -> list[Any]:
        """Return the inputs with those arrays held, in trees of which others have gradients, that have none."""
        return [self._held(i, x) if i in self.moving else x for i, x in enumerate(self.inputs)]

    def _held(self, i: int, x: Any) -> Any:
        keys = iter(self.keys[i])
        return tree.map(lambda leaf: Held(leaf) if is_float(leaf) and next(keys) is None else leaf, x)

    def gradients(self, returned: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the gradient of each moving input: an array or a tree of arrays."""
        return [self._gradient(i, returned, inputs[i]) for i in self.moving]

    def _gradient(self, i: int, returned: Any, x: Any) -> Any:
        found = [0.0 if k is None else part_at(returned, k) for k in self.keys[i]]
        if is_float(x):
            return found[0]
        gradients = iter(found)
        return tree.map(lambda leaf: _an_array(next(gradients)) if is_float(leaf) else leaf, x)

    # ---- how they are found --------------------------------------------------------------------------------------

    def _by_name(self, parts: Mapping[Keys, Any]) -> None:
        for i, x in enumerate(self.inputs):
            leaves = _float_leaves(x, self.names[i] if i < len(self.names) else "")
            found = [self._named(name, leaf, parts) for name, leaf in leaves]
            if any(k is not None for k in found):
                self.keys[i] = found

    def _named(self, name: str, leaf: Any, parts: Mapping[Keys, Any]) -> Keys | None:
        fitting = [
            k for k in parts if k and isinstance(k[-1], str) and is_gradient_of(k[-1], name) and k not in self.taken
        ]
        return next((k for k in fitting if np.shape(parts[k]) == np.shape(leaf)), fitting[0] if fitting else None)

    def _by_structure(self, returned: Any) -> None:
        """Find lists for lists: `[da, db]` for the input `[a, b]`."""
        trees = [i for i, x in enumerate(self.inputs) if not is_float(x) and _float_leaves(x) and i not in self.keys]
        parts = dict(enumerate(returned)) if isinstance(returned, (list, tuple)) else {}
        for i in trees:
            alone = len(trees) == 1 and not any(map(is_float, self.inputs))
            for keys, part in [((), returned)] * alone + [((k,), p) for k, p in parts.items()]:
                below = flat(part, keys)
                shapes = [np.shape(x) for x in below.values()]
                if shapes == [np.shape(x) for _, x in _float_leaves(self.inputs[i])] and not below.keys() & self.taken:
                    self.keys[i] = list(below)
                    break

    def _by_order(self, returned: Any, parts: Mapping[Keys, Any]) -> None:
        """Find the gradients of arrays in their order: a wrong shape is a finding, not a reason to leave it out."""
        arrays = [i for i, x in enumerate(self.inputs) if is_float(x)]
        above = {k: x for k, x in parts.items() if len(k) < 2}
        free = self.predictions([i for i in arrays if i not in self.keys], len(above))
        found = dict(self.keys)
        for k, part in above.items():
            fitting = [i for i in free if np.shape(part) == np.shape(self.inputs[i])]
            if fitting and k not in self.taken:
                self.keys[fitting[0]] = [k]
                free = free[free.index(fitting[0]) + 1 :]
        count = 1 if () in above else len(returned) if isinstance(returned, (list, tuple)) else 0
        if count == len(above) == len(arrays):
            ordered = found | {i: [k] for i, k in zip(arrays, above, strict=True)}
            if all(ordered[i] == keys for i, keys in self.keys.items()):
                self.keys = ordered


def besides(returned: Any, taken: Collection[Keys]) -> dict[Keys, Any]:
    """Return the arrays and numbers that were returned besides the gradients of inputs."""
    return {k: x for k, x in flat(returned).items() if k not in taken}


def _an_array(x: Any) -> Any:
    return np.asarray(None, object) if x is None else x  # None is no leaf of a tree


def _float_leaves(x: Any, name: str = "") -> list[tuple[str, Any]]:
    """Return the float arrays of an input with the last part of their names."""
    leaves = [(p, leaf) for p, leaf in zip(tree.paths(x), tree.leaves(x), strict=True) if is_float(leaf)]
    return [(p.rpartition(".")[2] or name, leaf) for p, leaf in leaves]
