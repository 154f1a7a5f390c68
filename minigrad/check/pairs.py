"""Functions that hand on a cache, and functions that return a loss with its gradient, as a forward and an adjoint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.calling import CACHES, Backward, cannot_be_called, raised_at, split_result
from minigrad.check.constructors import answering
from minigrad.check.locate import WrongLine
from minigrad.check.report import Listing, Report
from minigrad.check.subject import Subject, is_float, name_of, replayed_randomness
from minigrad.errors import AdjointMismatch, MinigradError
from minigrad.op import Recorded
from minigrad.tensor import Tensor

__all__ = [
    "Functions",
    "LossAndGradient",
    "Pair",
    "backward_failed",
    "copy_of",
    "is_number",
    "matched",
    "ones_like",
    "part_at",
    "parts_besides",
    "parts_of",
    "signature_of",
]


class Pair:
    """Something that can run forward, also on Tensors, and backward."""

    name = ""
    fixed_cotangent = False
    sources: tuple[Any, Any] = (None, None)

    def __init__(self) -> None:
        self.converted: list[str] = []
        self.remarks: list[str] = []
        self.unchecked: list[str] = []  # what the result depends on and no gradient was found of
        self.explanations: dict[str, str] = {}  # of a gradient that was not found

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
        self.cached = (
            any(p.lower() in CACHES for p in self.takes.parameters) or len(self.takes.parameters) == 2
        )

    def run(self, inputs: Sequence[Any]) -> tuple[Any, Any]:
        """Return the outputs and the cache."""
        result = self.traced(lambda: self.forward(*copy_of(self.as_inputs(inputs))), inputs)
        return split_result(result, self.cached)

    def pull(self, g: Any, inputs: Sequence[Any]) -> Any:
        """Return what backward returns."""
        out, cache = self.run(inputs)
        gs = list(g) if isinstance(out, tuple) else [g]
        parameters = self.takes.parameters
        if self.cached and not any(p.lower() in CACHES for p in parameters):
            return self.backward(gs[0] if len(gs) == 1 else tuple(gs), cache)
        return self.backward(*self.takes.arguments(gs, inputs, cache))

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return the functions as a forward and an adjoint of the float inputs."""
        with replayed_randomness():
            out, _ = self.attempted(lambda: self.run(inputs), name_of(self.forward), inputs)
            ones = tree.map(lambda x: np.ones(np.shape(x)) if is_number(x) else x, out)
            try:
                came = self.pull(ones, inputs)
            except Exception as error:
                raise backward_failed(name_of(self.backward), self.backward, self.title, error, inputs) from error
        moving = [i for i, x in enumerate(inputs) if isinstance(x, (np.ndarray, np.floating)) and is_float(x)]
        chosen = matched(came, inputs, moving, self.forward)
        self.note_inputs(self.forward, [i for i in moving if i not in chosen.values()])

        def adjoint(g: Any, *args: Any) -> Any:
            returned = self.pull(g, args)
            parts = parts_of(returned)
            found = [parts[k] for k in chosen]
            return found[0] if len(found) == 1 else tuple(found)

        def forward(*args: Any) -> Any:
            return self.run(args)[0]

        forward.__signature__ = signature_of(self.forward)  # type: ignore[attr-defined]
        return Subject.of(
            forward, adjoint, inputs, None, list(chosen.values()), (self.forward, self.backward)
        )


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
        if not isinstance(result, (tuple, list)) or len(result) < 2:
            raise MinigradError(f"{self.name} should return (loss, gradients), got {type(result).__name__}")
        return result[0], (result[1] if len(result) == 2 else tuple(result[1:]))

    def subject(self, inputs: Sequence[Any]) -> Subject:
        """Return the function as a forward and an adjoint."""
        with replayed_randomness():
            _, came = self.attempted(lambda: self.run(inputs), self.name, inputs)
        moving = [i for i, x in enumerate(inputs) if isinstance(x, (np.ndarray, np.floating)) and is_float(x)]
        trees = [
            i for i, x in enumerate(inputs) if isinstance(x, dict) and any(map(is_float, tree.leaves(x)))
        ]
        if isinstance(came, dict) and trees:
            chosen: dict[Any, int] = {None: trees[0]}
        else:
            chosen = matched(came, inputs, moving, self.function)

        def adjoint(g: Any, *args: Any) -> Any:
            returned = self.run(args)[1]
            found = [returned if k is None else parts_of(returned)[k] for k in chosen]
            return found[0] if len(found) == 1 else tuple(found)

        def forward(*args: Any) -> Any:
            return self.run(args)[0]

        forward.__signature__ = signature_of(self.function)  # type: ignore[attr-defined]
        return Subject.of(
            forward, adjoint, inputs, None, list(chosen.values()), (self.function, self.function)
        )


def backward_failed(name: str, method: Any, title: str, error: Exception, inputs: Sequence[Any]) -> MinigradError:
    """Return what to raise if a backward pass has raised: a report with the line, if that is in the user's code."""
    place = raised_at(error)
    if isinstance(error, MinigradError) or place is None:
        return error if isinstance(error, MinigradError) else cannot_be_called(name, inputs, error)
    line, function = place
    report = Report(title, errors=[f"{name} raised {type(error).__name__}: {error}"], adjoint=Listing.of(method))
    report.culprit = WrongLine(line, function, None, False, "raised")
    return AdjointMismatch(report)


def copy_of(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments that a layer may write to: plain arrays copied, dictionaries new."""
    return [tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, a) for a in arguments]


def is_number(x: Any) -> bool:
    return is_float(x) or isinstance(x, float)


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


def parts_of(returned: Any) -> dict[Any, Any]:
    """Return the gradients that were returned, by number or name."""
    if isinstance(returned, dict):
        return returned
    return dict(enumerate(returned)) if isinstance(returned, (tuple, list)) else {0: returned}


def parts_besides(returned: Any, chosen: Mapping[Any, int]) -> dict[tuple[Any, ...], Any]:
    """Return the arrays and numbers that were returned besides the gradients of inputs, by the keys that lead there."""
    found: dict[tuple[Any, ...], Any] = {}
    for key, part in parts_of(returned).items():
        if isinstance(part, dict):
            found |= {(key, k): x for k, x in part.items() if is_number(x)}
        elif is_number(part) and key not in chosen:
            found[(key,)] = part
    return found


def part_at(returned: Any, keys: Sequence[Any]) -> Any:
    """Return the part of what was returned that these keys lead to; None if there is none."""
    part = parts_of(returned).get(keys[0])
    for key in keys[1:]:
        part = part.get(key) if isinstance(part, dict) else None
    return part


def matched(returned: Any, inputs: Sequence[Any], moving: Sequence[int], forward: Any) -> dict[Any, int]:
    """Return which returned gradient belongs to which input: by name, or by order where the shapes agree."""
    parts, free, found = parts_of(returned), list(moving), {}
    names = list(getattr(signature_of(forward), "parameters", ()))
    for key in parts:
        for i in [i for i in free if i < len(names)]:
            name = names[i].lower()
            if str(key).lower() in (name, f"d{name}", f"grad_{name}", f"d_{name}"):
                found[key] = i
                free.remove(i)
                break
    for key, part in parts.items():
        if key in found or not is_number(part):
            continue
        for i in free:
            if np.shape(part) == np.shape(inputs[i]):
                found[key] = i
                free = free[free.index(i) + 1 :]
                break
    by_order = (
        len(parts) == len(moving) and not isinstance(returned, dict) and all(map(is_number, parts.values()))
    )
    if by_order and len(found) < len(moving):
        return dict(
            zip(parts, moving, strict=True)
        )  # a wrong shape is a finding, not a reason to leave it out
    return found
