"""An object with a forward and a backward method, as a forward and an adjoint of its parameters and inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.calling import (
    BACKWARD,
    CACHES,
    FORWARD,
    INPUT_GRADIENTS,
    OUTPUTS,
    Backward,
    find_method,
    split_result,
    taken_from,
)
from minigrad.check.pairs import Pair, copy_of, is_number, matched, ones_like, parts_of, signature_of
from minigrad.check.parameters import Place, changed_places, gradient_places, marks, places, put
from minigrad.check.subject import Subject, is_float, replayed_randomness
from minigrad.errors import MinigradError
from minigrad.op import Recorded
from minigrad.shapes import shape_of
from minigrad.tensor import Tensor

__all__ = ["Layer"]


class Layer(Pair):
    """An object with a forward and a backward method, parameters, and gradients that are left in it."""

    def __init__(
        self, layer: Any, forward: str | None, backward: str | None, mapping: dict[str, str]
    ) -> None:
        super().__init__()
        self.layer = layer
        self.mapping = mapping
        self.forward = find_method(layer, [forward] if forward else FORWARD, "forward")
        self.backward = find_method(layer, [backward] if backward else BACKWARD, "backward")
        self.name = type(layer).__name__
        self.sources = (type(layer), *{type(p.owner) for p in places(layer)})  # type: ignore[assignment]
        method = getattr(layer, self.forward)
        self.takes = Backward.of(getattr(layer, self.backward), method)
        self.cached = any(p.lower() in CACHES for p in self.takes.parameters)
        self.fixed_cotangent = not self.takes.incoming
        self.takes_prediction = False
        self.parameters: dict[str, str] = {}

    def run(self, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return a copy of the layer that has run, its outputs, and what it saved."""
        layer = copy.deepcopy(self.layer)
        put(places(layer), parameters)
        arguments = (parameters, inputs)
        tapes = [x._tape for x in tree.leaves(arguments) if isinstance(x, Recorded)]
        if tapes:  # so that the layer's own buffers can be written to
            tape = max(tapes, key=lambda t: t.level)
            put(
                places(layer),
                {p.path: Tensor(p.value, tape, -1) for p in places(layer) if isinstance(p.value, np.ndarray)},
            )

        def forward() -> Any:
            result = getattr(layer, self.forward)(*copy_of(self.as_inputs(inputs) if tapes else inputs))
            outputs, cache = split_result(result, self.cached)
            return (taken_from(layer, OUTPUTS) if outputs is None else outputs), cache

        outputs, cache = self.traced(forward, arguments)
        if outputs is None:
            raise MinigradError(
                f"{self.name}.{self.forward} returned nothing, and left nothing called {', '.join(OUTPUTS[:4])}"
            )
        return layer, outputs, cache

    def pull(
        self, g: Any, parameters: Mapping[str, Any], inputs: Sequence[Any]
    ) -> tuple[Any, Any, dict[str, bytes]]:
        """Return the layer after its backward pass, what that returned, and what its arrays were before."""
        layer, outputs, cache = self.run(parameters, inputs)
        before = marks(layer)
        gs = list(g) if isinstance(outputs, (tuple, list)) else [g]
        if self.takes_prediction:
            gs = [inputs[0]]
        returned = getattr(layer, self.backward)(*self.takes.arguments(gs, inputs, cache))
        return layer, returned, before

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return the layer as a forward and an adjoint of its parameters and inputs."""
        with replayed_randomness():
            _, out, _ = self.run({}, inputs)
            ones = tree.map(lambda x: ones_like(x) if is_number(x) else x, out)
            try:
                layer, returned, before = self.pull(ones, {}, inputs)
            except Exception:  # some losses are given the prediction again, and no incoming gradient
                if np.ndim(out) or self.fixed_cotangent or not inputs:
                    raise
                self.takes_prediction = self.fixed_cotangent = True
                layer, returned, before = self.pull(ones, {}, inputs)
        originals = places(copy.deepcopy(self.layer))
        self._find_parameters(originals, layer, before)
        moving = [i for i, x in enumerate(inputs) if isinstance(x, (np.ndarray, np.floating)) and is_float(x)]
        chosen = matched(returned, inputs, moving, getattr(self.layer, self.forward))
        attribute: dict[int, str] = {}
        if not chosen and moving:
            first = moving[0]
            held = [(n, getattr(layer, n, None)) for n in INPUT_GRADIENTS]
            fitting = [n for n, x in held if is_float(x) and shape_of(x) == shape_of(inputs[first])]
            if fitting:
                attribute[first] = fitting[0]
        self._note_missing(originals, moving, [*chosen.values(), *attribute])
        parameters = {path: self._value(originals, path) for path in self.parameters}

        def adjoint(g: Any, parameters: Any, *args: Any) -> Any:
            after, came, _ = self.pull(g, {k: np.array(v) for k, v in parameters.items()}, args)
            found = [parts_of(came)[k] for k in chosen] + [getattr(after, n) for n in attribute.values()]
            return tuple([self._gradients(after, parameters)] * bool(self.parameters) + found)

        def forward(parameters: Any, *args: Any) -> Any:
            return self.run(parameters, args)[1]

        forward.__signature__ = signature_of(getattr(self.layer, self.forward), "parameters")  # type: ignore[attr-defined]
        argnums = [0] * bool(self.parameters) + [i + 1 for i in (*chosen.values(), *attribute)]
        if not argnums:
            raise MinigradError(
                f"{self.name}.{self.backward} gave no gradient that could be found: of no parameter and of no input\n"
                "  fix  say where they are: check_layer(layer, ..., gradients={'W': 'where_its_gradient_is'})"
            )
        shown = getattr(type(self.layer), self.forward), getattr(type(self.layer), self.backward)
        args = (parameters, *inputs)
        called = Subject.of(forward, adjoint, args, None, argnums, shown).names
        names = (*sorted(parameters), *called[len(parameters) :])
        return Subject.of(forward, adjoint, args, None, argnums, shown, names)

    def _find_parameters(self, originals: list[Place], layer: Any, before: dict[str, bytes]) -> None:
        """Find the parameters and their gradients: self.parameters maps paths to paths."""
        changed = changed_places(before, layer)
        kept = {p.path: p for p in places(layer)}
        stepped = [p.path for p in originals if p.path in changed and self.takes.steps]
        candidates = [p for p in originals if p.path in kept and p.path not in stepped]
        found = {path: path for path in stepped}
        gradients = gradient_places([p for p in candidates if p.path not in self.mapping], changed or kept)
        named = gradient_places(
            [p for p in candidates if p.path not in gradients],
            {k: v for k, v in kept.items() if k not in gradients},
        )
        found |= {k: v for k, v in (named | gradients).items() if v not in found}
        found |= self.mapping
        unique: dict[int, str] = {}
        by_path = {p.path: p for p in originals}
        for path in found:  # one name for a parameter that is held at several places
            if path not in by_path:
                raise MinigradError(
                    f"{self.name} has no float array at {path!r}; it has {', '.join(by_path)}"
                )
            unique.setdefault(id(by_path[path].value), path)
        self.parameters = {
            path: found[path] for path in unique.values() if path not in found.values() or path in stepped
        }

    def _note_missing(self, originals: list[Place], moving: Sequence[int], found: Sequence[int]) -> None:
        known = {id(p.value) for p in originals if p.path in self.parameters} | {
            id(p.value) for p in originals if p.path in self.parameters.values()
        }
        rest = [p.path for p in originals if id(p.value) not in known]
        if rest:
            self.remarks.append(
                f"taken as constants, for no gradient was found: {', '.join(dict.fromkeys(rest))}"
            )
        self.remarks += [f"no gradient is returned for input {i}" for i in moving if i not in found]

    @staticmethod
    def _value(found: list[Place], path: str) -> Any:
        return next(p.value for p in found if p.path == path)

    def _gradients(self, layer: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        by_path = {p.path: p for p in places(layer)}
        found = {}
        for path, gradient in self.parameters.items():
            place = by_path.get(gradient)
            value = None if place is None else place.value
            found[path] = parameters[path] - value if gradient == path else value
        return found
