"""Functions that hand on a cache, and functions that return a loss with its gradient, as a forward and an adjoint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.calling import Backward, cannot_be_called, names_of_results, raised_at, split_result
from minigrad.check.constructors import answering
from minigrad.check.locate import WrongLine
from minigrad.check.matching import Matching, released
from minigrad.check.naming import argument_names, is_float, name_of
from minigrad.check.report import Listing, Report
from minigrad.check.subject import Subject, replayed_randomness
from minigrad.errors import AdjointMismatch, MinigradError
from minigrad.op import Recorded
from minigrad.shapes import shape_of
from minigrad.tensor import Tensor

__all__ = [
    "Functions",
    "LossAndGradient",
    "Pair",
    "backward_failed",
    "copy_of",
    "is_number",
    "loss_and_gradients",
    "ones_of",
    "signature_of",
]


class Pair:
    """Something that can run forward, also on Tensors, and backward."""

    name = ""
    fixed_cotangent = False
    sources: tuple[Any, Any] = (None, None)
    takes: Backward

    def __init__(self) -> None:
        self.converted: list[str] = []
        self.remarks: list[str] = []
        self.unchecked: list[str] = []  # what the result depends on and no gradient was found of
        self.explanations: dict[str, str] = {}  # of a gradient that was not found
        self.results: list[int] | None = None  # those that have an incoming gradient, if not all

    @property
    def title(self) -> str:
        """What the report is about."""
        return f"{self.name}, its backward pass against its forward pass"

    def notes(self) -> list[str]:
        """Return what the report should say besides."""
        turned = [f"a Tensor was turned into a number at {line}" for line in dict.fromkeys(self.converted)]
        return [*self.remarks, *turned]

    def names(self) -> dict[str, str]:
        """Return which variable of the forward an attribute is the gradient of."""
        return {}

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return what is checked."""
        raise NotImplementedError

    def note_inputs(self, forward: Any, missing: Sequence[int]) -> None:
        """Note of which inputs no gradient is returned."""
        names = list(getattr(signature_of(forward), "parameters", ()))
        called = [names[i] if i < len(names) else f"input {i}" for i in missing]
        self.remarks += [f"no gradient of {name} is returned: it is not checked" for name in called]

    @staticmethod
    def attempted(run: Callable[[], Any], name: str, inputs: Sequence[Any]) -> Any:
        """Return run(); what it raises is raised with the line and with what was given."""
        try:
            return run()
        except MinigradError:
            raise
        except Exception as error:
            raise cannot_be_called(name, inputs, error) from error

    def traced(self, run: Callable[[], Any], arguments: Any) -> Any:
        """Return run(), in the context for Tensors if there is one among the arguments."""
        tapes = [x._tape for x in tree.leaves(arguments) if isinstance(x, Recorded)]
        if not tapes:
            return run()
        with answering(max(tapes, key=lambda t: t.level), self.sources) as seen:
            result = run()
        self.converted += seen.lines(without=tree.leaves(result))
        out = tree.map(seen.tensor_of, result)
        return out

    def choose_results(self, f: Any, run: Callable[[], Any]) -> None:
        """Find out of which results the incoming gradients are, where the forward pass returns more."""
        out: list[Any] = []
        names = names_of_results(f, lambda: out.append(run()))
        if isinstance(out[0], (tuple, list)):
            chosen = self.takes.answered(len(out[0]), names)
            self.results = chosen if 0 < len(chosen) < len(out[0]) else None

    def first_pull(self, pull: Callable[[], Any]) -> Any:
        """Return pull(); with incoming gradients of all results if it does not take those of some alone."""
        try:
            return pull()
        except Exception:
            if self.results is None:
                raise
            self.results = None
            return pull()

    def answered(self, outputs: Any) -> Any:
        """Return the results that have an incoming gradient."""
        if self.results is None or not isinstance(outputs, (tuple, list)):
            return outputs
        chosen = tuple(outputs[i] for i in self.results)
        return chosen[0] if len(chosen) == 1 else chosen

    def as_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs with constant Tensors in place of plain float arrays, if there is a Tensor among them."""
        tapes = [x._tape for x in tree.leaves(inputs) if isinstance(x, Recorded)]
        if not tapes:
            return list(inputs)
        tape = max(tapes, key=lambda t: t.level)
        return [
            tree.map(lambda x: Tensor(x, tape, -1) if isinstance(x, np.ndarray) and is_float(x) else x, a)
            for a in inputs
        ]


class Functions(Pair):
    """forward(*inputs) -> (out, cache), and backward(dout, cache) -> gradients."""

    def __init__(self, forward: Any, backward: Any) -> None:
        super().__init__()
        self.forward, self.backward = forward, backward
        self.name = name_of(forward)
        self.sources = (forward, backward)
        self.takes = Backward.of(backward, forward)
        self.fixed_cotangent = not self.takes.incoming
        parameters = self.takes.parameters
        self.cached = self.takes.cached or (len(parameters) == 2 and parameters[1] not in self.takes.inputs)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, Any]:
        """Return the outputs and the cache."""
        result = self.traced(lambda: self.forward(*copy_of(self.as_inputs(inputs))), inputs)
        outputs, cache = split_result(result, self.cached)
        return self.answered(outputs), cache

    def pull(self, g: Any, inputs: Sequence[Any]) -> Any:
        """Return what backward returns."""
        out, cache = self.run(inputs)
        gs = list(g) if isinstance(out, tuple) else [g]
        if self.cached and not self.takes.cached:  # the second of two, whatever it is called
            rest = inputs if cache is None else [cache]
            return self.backward(gs[0] if len(gs) == 1 else tuple(gs), *rest)
        return self.backward(*self.takes.arguments(gs, inputs, cache))

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return the functions as a forward and an adjoint of the float inputs."""
        with replayed_randomness():
            self.attempted(lambda: self.run(inputs), name_of(self.forward), inputs)
            self.choose_results(self.forward, lambda: split_result(self.forward(*copy_of(inputs)), self.cached)[0])
            try:
                came = self.first_pull(lambda: self.pull(ones_of(self.run(inputs)[0]), inputs))
            except Exception as error:
                shown = self.forward, self.backward
                raise backward_failed(name_of(self.backward), shown, self.title, error, inputs) from error
        matching = Matching.of(came, inputs, argument_names(self.forward, len(inputs)))
        self.note_inputs(self.forward, matching.missing())
        return matched_subject(self, matching, self.forward, (self.forward, self.backward))


class LossAndGradient(Pair):
    """A function of everything that returns (loss, gradients)."""

    fixed_cotangent = True

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.name = name_of(function)
        self.sources = (function,)  # type: ignore[assignment]

    def run(self, inputs: Sequence[Any]) -> tuple[Any, Any]:
        """Return the loss, and the gradients."""
        result = self.traced(lambda: self.function(*copy_of(self.as_inputs(inputs))), inputs)
        return loss_and_gradients(result, self.name)

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return the function as a forward and an adjoint."""
        with replayed_randomness():
            _, came = self.attempted(lambda: self.run(inputs), self.name, inputs)
        matching = Matching.of(came, inputs, argument_names(self.function, len(inputs)))
        return matched_subject(self, matching, self.function, (self.function, self.function))

    def pull(self, g: Any, inputs: Sequence[Any]) -> Any:
        """Return the gradients."""
        return self.run(inputs)[1]


def loss_and_gradients(result: Any, name: str) -> tuple[Any, Any]:
    """Return the two parts of what a function of this name returned."""
    if not isinstance(result, (tuple, list)) or len(result) < 2:
        raise MinigradError(f"{name} should return (loss, gradients), got {type(result).__name__}")
    loss = result[0]
    structured = isinstance(loss, (tuple, list, dict))
    if structured or prod(shape_of(loss)) != 1:
        got = type(loss).__name__ if structured else f"an array of shape {shape_of(loss)}"
        raise MinigradError(
            f"{name} should return (loss, gradients): one number first, got {got}\n"
            f"  fix  if it returns (out, cache): check_layer(({name}, its_backward_function), *inputs)"
        )
    return loss, (result[1] if len(result) == 2 else tuple(result[1:]))


def matched_subject(pair: Functions | LossAndGradient, matching: Matching, f: Any, shown: tuple[Any, Any]) -> Subject:
    """Return what is checked of functions: the gradients that were matched with inputs."""

    def adjoint(g: Any, *args: Any) -> Any:
        args = tuple(released(args))
        found = matching.gradients(pair.pull(g, args), args)
        return found[0] if len(found) == 1 else tuple(found)

    def forward(*args: Any) -> Any:
        return pair.run(released(args))[0]

    if not matching.moving:
        raise MinigradError(f"{name_of(shown[1])} returned no gradient that could be found of an input of {name_of(f)}")
    forward.__signature__ = signature_of(f)  # type: ignore[attr-defined]
    return Subject.of(forward, adjoint, matching.held(), None, matching.moving, shown)


def backward_failed(
    name: str, shown: tuple[Any, Any], title: str, error: Exception, inputs: Sequence[Any]
) -> MinigradError:
    """Return what to raise if a backward pass has raised: a report with the line, if that is in the user's code."""
    place = raised_at(error)
    if isinstance(error, MinigradError) or place is None:
        return error if isinstance(error, MinigradError) else cannot_be_called(name, inputs, error)
    line, function = place
    report = Report(title, errors=[f"{name} raised {type(error).__name__}: {error}"])
    report.forward, report.adjoint = map(Listing.of, shown)
    report.culprit = WrongLine(line, function, None, False, "raised")
    return AdjointMismatch(report)


def copy_of(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments that a layer may write to: plain arrays copied, dictionaries new."""
    return [tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, a) for a in arguments]


def is_number(x: Any) -> bool:
    return is_float(x) or isinstance(x, float)


def ones_of(out: Any) -> Any:
    """Return ones in the place of the numbers of a result."""
    return tree.map(lambda x: ones_like(x) if is_number(x) else x, out)


def ones_like(x: Any) -> Any:
    return np.ones(np.shape(x), getattr(x, "dtype", float))


def signature_of(f: Any, first: str | None = None) -> Any:
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return None
    if first is None:
        return signature
    parameter = inspect.Parameter(first, inspect.Parameter.POSITIONAL_ONLY)
    rest = [
        p.replace(kind=p.POSITIONAL_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD else p
        for p in signature.parameters.values()
    ]
    return signature.replace(parameters=[parameter, *(p.replace(default=p.empty) for p in rest)])
