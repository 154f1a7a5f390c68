"""An object with a forward and a backward method, as a forward and an adjoint of its parameters and inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.building import built
from minigrad.check.calling import (
    BACKWARD,
    FORWARD,
    INPUT_GRADIENTS,
    OUTPUTS,
    Backward,
    find_method,
    split_result,
    taken_from,
)
from minigrad.check.lines import code_of
from minigrad.check.matching import Matching, besides, part_at, released
from minigrad.check.naming import argument_names, is_float
from minigrad.check.pairs import Pair, backward_failed, copy_of, is_number, loss_and_gradients, ones_of, signature_of
from minigrad.check.parameters import (
    gradient_places,
    is_called_a_gradient,
    is_called_a_parameter,
    is_called_a_statistic,
    misshapen_places,
    returned_gradients,
)
from minigrad.check.places import Place, changed_places, marks, places, put, sizes
from minigrad.check.subject import Subject, replayed_randomness
from minigrad.errors import MinigradError
from minigrad.op import Recorded
from minigrad.shapes import shape_of
from minigrad.tensor import Tensor

__all__ = ["Layer"]

Source = str | tuple[Any, ...] | None  # where a gradient is left: a path, the keys of what is returned, nowhere


class Layer(Pair):
    """An object with a forward and a backward method, parameters, and gradients that are left in it."""

    def __init__(
        self,
        layer: Any,
        forward: str | None,
        backward: str | None,
        mapping: Mapping[str, str],
        constants: Sequence[str] = (),
    ) -> None:
        super().__init__()
        if isinstance(layer, type):
            raise MinigradError(
                f"check_layer got the class {layer.__name__}, not a layer\n"
                f"  fix  make one: check_layer({layer.__name__}(...), x)"
            )
        self.layer = layer
        self.mapping = dict(mapping)
        self.constants = constants
        self.forward = find_method(layer, [forward] if forward else FORWARD, "forward")
        alone = self.forward.startswith("loss") and not any(callable(getattr(layer, n, None)) for n in BACKWARD)
        names = [backward] if backward else [self.forward] if alone else BACKWARD
        self.backward = find_method(layer, names, "backward")
        self.together = self.backward == self.forward  # one method returns the loss and the gradients
        self.name = type(layer).__name__
        self.sources = (type(layer), *{type(p.owner) for p in places(layer)})  # type: ignore[assignment]
        method = getattr(layer, self.forward)
        self.takes = Backward.of(getattr(layer, self.backward), method)
        self.fixed_cotangent = self.together or not self.takes.incoming
        self.takes_prediction = False
        self.parameters: dict[str, Source] = {}
        self.replaced: set[str] = set()  # what the forward pass assigns anew: saved for the backward pass

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
            if self.together:
                return loss_and_gradients(result, f"{self.name}.{self.forward}")
            outputs, cache = split_result(result, self.takes.cached)
            return (taken_from(layer, OUTPUTS) if outputs is None else self.answered(outputs)), cache

        held = {p.path: p.value for p in places(layer)}
        outputs, cache = self.traced(forward, arguments)
        if not tapes:
            self.replaced = {p.path for p in places(layer) if held.get(p.path, p.value) is not p.value}
        if outputs is None:
            raise MinigradError(
                f"{self.name}.{self.forward} returned nothing, and left nothing called {', '.join(OUTPUTS[:4])}"
            )
        return layer, outputs, cache

    def pull(self, g: Any, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Return the layer after its backward pass, what that returned, and what its arrays were before."""
        layer, outputs, cache = self.run(parameters, inputs)
        before = marks(layer)
        if self.together:
            return layer, cache, before
        gs = list(g) if isinstance(outputs, (tuple, list)) else [g]
        if self.takes_prediction:
            gs = [inputs[0]]
        returned = getattr(layer, self.backward)(*self.takes.arguments(gs, inputs, cache))
        return layer, returned, before

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return the layer as a forward and an adjoint of its parameters and inputs."""
        with replayed_randomness():
            self.layer = self.attempted(lambda: self.built(inputs), f"{self.name}.{self.forward}", inputs)
            if not self.together:
                self.choose_results(getattr(type(self.layer), self.forward), lambda: self.run({}, inputs)[1])
            out = self.run({}, inputs)[1]
            pull = lambda: self.pull(ones_of(self.run({}, inputs)[1]), {}, inputs)
            try:
                layer, returned, before = self.first_pull(pull)
            except Exception as error:  # some losses are given the prediction again, and no incoming gradient
                if isinstance(out, tuple) or np.ndim(out) or self.fixed_cotangent or not inputs:
                    raise self.failed(error, inputs) from error
                self.takes_prediction = self.fixed_cotangent = True
                layer, returned, before = self.attempted(pull, f"{self.name}.{self.backward}", inputs)
        method = getattr(self.layer, self.forward)
        matching = Matching.of(returned, inputs, argument_names(method, len(inputs)))
        originals = places(copy.deepcopy(self.layer))
        parts = self._find_parameters(originals, layer, before, besides(returned, matching.taken), inputs)
        missing = matching.missing()
        if len(parts) == len(missing):  # a wrong shape is a finding, not a reason to leave it out
            matching.keys |= {i: [keys] for keys, i in zip(parts, missing, strict=True) if len(keys) < 2}
        missing, attribute = matching.missing(), dict[int, str]()
        if not matching.moving and missing:
            first = matching.predictions(missing, 1)[0]
            taken = {*self.parameters, *self.parameters.values()}
            new = [n for n in changed_places(before, layer) if n not in taken and is_called_a_gradient(n)]
            held = [(n, getattr(layer, n, None)) for n in (*INPUT_GRADIENTS, *new)]
            fitting = [n for n, x in held if is_float(x) and shape_of(x) == shape_of(inputs[first])]
            if fitting:
                attribute[first] = fitting[0]
        self.note_inputs(method, [i for i in missing if i not in attribute])
        parameters = {path: self._value(originals, path) for path in self.parameters}
        self.remarks += [
            f"the gradient of {path} is added to what was there: it must be set to zero before each backward pass"
            for path in self._accumulated(parameters, inputs)
        ]

        def adjoint(g: Any, parameters: Any, *args: Any) -> Any:
            args = tuple(released(args))
            after, came, _ = self.pull(g, {k: np.array(v) for k, v in parameters.items()}, args)
            found = matching.gradients(came, args) + [getattr(after, n) for n in attribute.values()]
            every = [self._gradients(after, came, parameters)] * bool(self.parameters) + found
            return every[0] if len(every) == 1 else tuple(every)

        def forward(parameters: Any, *args: Any) -> Any:
            return self.run(parameters, released(args))[1]

        forward.sizes = sizes(self.layer)  # type: ignore[attr-defined]
        forward.__signature__ = signature_of(method, "parameters")  # type: ignore[attr-defined]
        argnums = [0] * bool(self.parameters) + [i + 1 for i in (*matching.moving, *attribute)]
        if not argnums:
            raise MinigradError(
                f"{self.name}.{self.backward} gave no gradient that could be found: of no parameter and of no input\n"
                "  fix  say where they are: check_layer(layer, ..., gradients={'W': 'where_its_gradient_is'})"
            )
        shown = getattr(type(self.layer), self.forward), getattr(type(self.layer), self.backward)
        args = (parameters, *matching.held())
        called = Subject.of(forward, adjoint, args, None, argnums, shown).names
        names = (*sorted(parameters), *called[len(parameters) :])
        return Subject.of(forward, adjoint, args, None, argnums, shown, names)

    def built(self, inputs: Sequence[Any]) -> Any:
        """Return the layer with all its parameters."""

        def run(layer: Any) -> None:
            getattr(layer, self.forward)(*copy_of(inputs))

        return built(self.layer, run)

    def failed(self, error: Exception, inputs: Sequence[Any]) -> MinigradError:
        """Return what to raise if the backward pass has raised: a report, if that was in the user's code."""
        method = getattr(self.layer, self.backward)
        shown = getattr(self.layer, self.forward), method
        return backward_failed(f"{self.name}.{self.backward}", shown, self.title, error, inputs)

    def names(self) -> dict[str, str]:
        """Return which parameter each attribute is the gradient of, as they are called in the methods."""
        held = {path: source for path, source in self.parameters.items() if isinstance(source, str)}
        code = code_of(getattr(type(self.layer), self.backward))
        this = code.co_varnames[0] if code is not None and code.co_argcount else "self"
        return {f"{this}.{source}": path.rpartition(".")[2] for path, source in held.items() if source != path}

    def _find_parameters(
        self,
        originals: list[Place],
        layer: Any,
        before: Mapping[str, Any],
        parts: dict[tuple[Any, ...], Any],
        inputs: Sequence[Any],
    ) -> list[tuple[Any, ...]]:
        """Find the parameters and their gradients; return which parts of what was returned are none of them."""
        changed, kept = changed_places(before, layer), {p.path: p for p in places(layer)}
        moved = {p.path for p in originals if before.get(p.path) != p.value.tobytes()}  # by the forward pass
        stepped = [p.path for p in originals if p.path in changed and self.takes.steps]
        saved = [p for p in originals if p.path in self.replaced and not is_called_a_parameter(p, ())]
        candidates = [p for p in originals if p.path in kept and p.path not in stepped and p not in saved]
        found = {path: path for path in stepped}
        gradients = gradient_places([p for p in candidates if p.path not in self.mapping], changed or kept)
        named = gradient_places(
            [p for p in candidates if p.path not in gradients],
            {k: v for k, v in kept.items() if k not in gradients},
        )
        found |= {k: v for k, v in (named | gradients).items() if v not in found}
        found = {k: v for k, v in found.items() if k not in self.constants}
        found |= self.mapping
        by_path = {p.path: p for p in originals}
        for path in (*found, *self.constants):
            if path not in by_path:
                held = ", ".join(by_path) or "none"
                raise MinigradError(f"{self.name} has no float array at {path!r}; it has {held}")
        self.parameters = {
            path: found[path] for path in self._once(originals, found) if path not in found.values() or path in stepped
        }
        known = {id(by_path[k].value) for k in (*found, *found.values(), *self.constants) if k in by_path}
        rest = [p for p in candidates if id(p.value) not in known and self._matters(p, inputs)]
        rest = [by_path[k] for k in self._once(rest, [p.path for p in rest])]
        states = [p.path for p in rest if p.path in moved or is_called_a_statistic(p)]
        states += [p.path for p in saved if p.path in moved and self._matters(p, inputs)]
        rest = [p for p in rest if p.path not in states]
        self.parameters |= returned_gradients(rest, parts)
        taken = {*self.parameters.values(), *found.values()}
        anything = changed_places(before, layer, anything=True)
        rest = [p for p in rest if p.path not in self.parameters]
        misshapen = misshapen_places(rest, anything, {v for v in taken if isinstance(v, str)})
        self.parameters |= misshapen
        for path, gradient in misshapen.items():
            if anything[gradient].value is None:
                self.explanations[path] = f"self.{gradient} is None after {self.name}.{self.backward}"
        rest = [p for p in rest if p.path not in self.parameters]
        for place in rest if self.parameters else ():
            if is_called_a_parameter(place, self.parameters):
                self.parameters[place.path] = None
                self.explanations[place.path] = self._unfound(place)
        self.unchecked += [p.path for p in rest if p.path not in self.parameters]
        if states:
            self.remarks.append(f"taken as constants, as states and running statistics are: {', '.join(states)}")
        return [k for k in parts if k not in self.parameters.values()]

    def _accumulated(self, parameters: Mapping[str, Any], inputs: Sequence[Any]) -> list[str]:
        """Return the parameters whose gradient is twice as large after a second backward pass."""
        original = self.layer
        found = []
        try:
            for _ in range(2):
                with replayed_randomness(), np.errstate(all="ignore"):
                    self.layer, came, _ = self.pull(ones_of(self.run({}, inputs)[1]), {}, inputs)
                found.append({k: np.copy(v) for k, v in self._gradients(self.layer, came, parameters).items()})
        except Exception:  # it cannot run twice
            return []
        finally:
            self.layer = original
        once, twice = found
        left = [k for k, source in self.parameters.items() if isinstance(source, str) and source != k]
        left = [k for k in left if once[k].dtype.kind == "f" and np.any(once[k])]
        return [k for k in left if np.allclose(twice[k], 2 * once[k], rtol=1e-6, atol=0)]

    def _unfound(self, place: Place) -> str:
        name, such = place.path, f" (such as `self.d{place.key}`)" if isinstance(place.key, str) else ""
        return (
            f"{self.name}.{self.backward} leaves no gradient of {name} that could be found{such};\n"
            f"if it has another name: check_layer(..., gradients={{{name!r}: '...'}}); "
            f"if {name} is no parameter: constants=[{name!r}]"
        )

    def _matters(self, place: Place, inputs: Sequence[Any]) -> bool:
        """Tell whether the result depends on an array of the layer."""
        rng = np.random.default_rng(3)
        value = place.value + 0.1 * rng.uniform(0.5, 1, place.value.shape) * (1 + np.abs(place.value))
        try:
            with replayed_randomness(), np.errstate(all="ignore"):
                out = tree.leaves(self.run({}, inputs)[1])
            with replayed_randomness(), np.errstate(all="ignore"):
                other = tree.leaves(self.run({place.path: value.astype(place.value.dtype)}, inputs)[1])
        except Exception:  # the layer does not take every value
            return True
        return any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(out, other, strict=True) if is_number(a))

    @staticmethod
    def _once(originals: Sequence[Place], paths: Iterable[str]) -> list[str]:
        """Return one path for each array that is held at several places."""
        by_path, unique = {p.path: p for p in originals}, dict[int, str]()
        for path in paths:
            unique.setdefault(id(by_path[path].value), path)
        return list(unique.values())

    @staticmethod
    def _value(found: list[Place], path: str) -> Any:
        return next(p.value for p in found if p.path == path)

    def _gradients(self, layer: Any, returned: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
        by_path = {p.path: p for p in places(layer, anything=True)}
        found = {}
        for path, source in self.parameters.items():
            if isinstance(source, tuple):
                found[path] = part_at(returned, source)
            else:
                place = by_path.get(source) if source is not None else None
                value = None if place is None else place.value
                found[path] = parameters[path] - value if source == path else value
        return found
