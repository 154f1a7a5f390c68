"""How somebody's forward and backward pass are called: which arguments they take and what they return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.lines import code_of, is_users, profiled
from minigrad.check.naming import argument_names, is_float, name_of
from minigrad.check.parameters import is_gradient_of
from minigrad.errors import MinigradError, SourceLine, is_internal

__all__ = [
    "Backward",
    "called_with",
    "cannot_be_called",
    "find_method",
    "names_of_results",
    "raised_at",
    "require_example",
    "require_incoming_gradient",
    "split_result",
    "taken_from",
]

FORWARD = (
    "forward",
    "__call__",
    "call",
    "forward_pass",
    "forward_propagation",
    "forwardprop",
    "fprop",
    "feed_forward",
    "feedforward",
    "predict",
    "loss",
)
BACKWARD = (
    "backward",
    "backward_pass",
    "backward_propagation",
    "backwardprop",
    "backprop",
    "bprop",
    "back",
    "backpropagate",
    "grad",
    "gradient",
)
RATES = (
    "lr",
    "learning_rate",
    "learningrate",
    "eta",
    "alpha",
    "rate",
    "step",
    "step_size",
    "learn_rate",
    "lrate",
)
CACHES = ("cache", "caches", "ctx", "context", "saved", "memory", "meta", "state")
OUTPUTS = (
    "output",
    "out",
    "outputs",
    "y",
    "Y",
    "a",
    "A",
    "z",
    "Z",
    "result",
    "o",
    "activation",
    "loss",
    "y_hat",
)
INPUT_GRADIENTS = (
    "dinputs", "dinput", "dx", "dX", "d_input", "d_inputs", "d_x", "grad_input", "grad_inputs", "input_grad",
    "input_gradient", "grad_x", "x_grad", "gx", "dA_prev", "da_prev", "delta", "dinput_data",
)  # fmt: skip


def find_method(layer: Any, names: Sequence[str], what: str) -> str:
    """Return the first of these names that a method of a layer has.

    Raises
    ------
    MinigradError
        If it has none of them.
    """
    for name in names:
        if callable(getattr(layer, name, None)):
            return name
    raise MinigradError(
        f"{type(layer).__name__} has no {what} method: wanted one of {', '.join(names)}\n"
        f"  fix  say its name: check_layer(layer, ..., {what}='its_name')"
    )


def raised_at(error: BaseException) -> tuple[SourceLine, str] | None:
    """Return the innermost line of the user's code that an error has passed, and its function; None if it passed none.

    The code that called the check is no part of what is checked: frames count from the first of minigrad's on.
    """
    found, ours, trace = None, False, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        ours = ours or is_internal(code.co_filename)
        if ours and is_users(code.co_filename):
            found = SourceLine(code.co_filename, trace.tb_lineno), code.co_name
        trace = trace.tb_next
    return found


def called_with(inputs: Sequence[Any]) -> str:
    """Return what something was called with, for a message: `float64 (2, 3), int`."""
    kinds = [f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__ for x in inputs]
    return ", ".join(kinds) or "nothing"


def require_example(check: str, functions: Sequence[Any], args: Sequence[Any]) -> None:
    """Raise unless a check was given example arguments of the functions, of which the first is the forward.

    Raises
    ------
    MinigradError
        With the call that was wanted.
    """
    if args:
        return
    forward, names = functions[0], [name_of(f) for f in functions]
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # a function of C says nothing about its parameters
        wanted = ["..."]
    else:
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        wanted = [p.name for p in parameters if p.kind in positional and p.default is p.empty] or ["..."]
    raise MinigradError(
        f"no example arguments of {names[0]} were given\n  wanted  {check}({', '.join([*names, *wanted])}), with arrays"
    )


def require_incoming_gradient(forward: Any, adjoint: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise unless an adjoint takes the incoming gradient first, and then what the forward function takes.

    Raises
    ------
    MinigradError
        With both signatures.
    """
    try:
        taken, given = inspect.signature(adjoint), inspect.signature(forward)
    except (TypeError, ValueError):  # a function of C says nothing about its parameters
        return
    names = [str(n).partition("[")[0] for n in argument_names(forward, len(args))]
    first = list(taken.parameters)[: len(args)]
    try:
        taken.bind(None, *args, **kwargs)
        fits = first != names or first[0] in ("g", "dout", "grad")
    except TypeError:
        fits = False
    if not fits:
        called = name_of(adjoint)
        wanted = ", ".join(["g", *names, *(f"{k}=..." for k in kwargs)])
        cached = any(n.lower() in CACHES for n in taken.parameters)
        later = [n for n, p in list(taken.parameters.items())[len(args) :] if p.default is p.empty]
        swap = f"lambda {wanted}: {called}({', '.join([*names, 'g'])})"
        raise MinigradError(
            f"{called}{taken} should take the incoming gradient first, "
            f"then the arguments of {name_of(forward)}{given}\n"
            f"  wanted  {called}({wanted})"
            + (f"\n  fix     {swap}" if first == names and len(later) == 1 and not kwargs else "")
            + (f"\n  fix     with a cache: check_layer(({name_of(forward)}, {called}), ...)" if cached else "")
        )


def cannot_be_called(name: str, inputs: Sequence[Any], error: Exception) -> MinigradError:
    """Return the error that says what somebody's function raised, where, and what it was given."""
    place = raised_at(error)
    lines = [f"{name} raised {type(error).__name__}: {error}"]
    lines += [f"  at     {place[0]}"] if place is not None else []
    return MinigradError("\n".join([*lines, f"  given  {called_with(inputs)}"]))


@dataclass
class Backward:
    """Which arguments a backward pass takes, by their names.

    Attributes
    ----------
    method
        A function whose parameters are those to be filled in.
    inputs
        Names of the forward's parameters.
    """

    parameters: tuple[str, ...]  # those without a default, or that are an incoming gradient in spite of one
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, method: Callable[..., Any], forward: Callable[..., Any]) -> Backward:
        """Return what a backward method takes; `forward` tells the names of the inputs."""
        return cls(tuple(_required(method)), tuple(_required(forward)))

    @property
    def incoming(self) -> list[str]:
        """The parameters that are incoming gradients; none for a loss that is given what its forward pass is given."""
        rest = [p for p in self.parameters if p.lower() not in RATES and p.lower() not in CACHES]
        gradients = [p for p in rest if not (p in self.inputs and len(rest) > 1)]
        return gradients or ([] if len(rest) == len(self.inputs) > 1 else rest[-1:])

    @property
    def cached(self) -> bool:
        """Whether it takes what the forward pass saved: the last value that it returns."""
        return any(p.lower() in CACHES for p in self.parameters)

    def answered(self, count: int, names: Sequence[str]) -> list[int]:
        """Return of which results the incoming gradients are, where there are more: by their names, or the first."""
        incoming = self.incoming
        by_name = [next((i for i, n in enumerate(names) if n and is_gradient_of(p, n)), -1) for p in incoming]
        if incoming and -1 not in by_name and len(set(by_name)) == len(incoming):
            return by_name
        return list(range(min(len(incoming), count)))

    @property
    def steps(self) -> bool:
        """Whether it takes a learning rate: it then changes the parameters itself."""
        return any(p.lower() in RATES for p in self.parameters)

    def arguments(self, gs: Sequence[Any], inputs: Sequence[Any], cache: Any) -> list[Any]:
        """Return the arguments to call it with."""
        by_name = dict(zip(self.inputs, inputs, strict=False))
        incoming = self.incoming
        given = list(gs) if len(incoming) == len(gs) else [gs[0] if len(gs) == 1 else tuple(gs)]
        found = []
        for p in self.parameters:
            if p in incoming:
                found.append(given.pop(0) if given else None)
            elif p.lower() in RATES:
                found.append(1.0)
            elif p.lower() in CACHES:
                found.append(cache)
            else:
                found.append(by_name.get(p))
        return found


def _required(f: Callable[..., Any]) -> list[str]:
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return ["g"]
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    gradient = [
        p
        for p in plain
        if p.default is not p.empty
        and p.name.lower().lstrip("_").startswith(("d", "g"))
        and p.name not in ("dtype", "dim", "debug")
    ]
    return [p.name for p in plain if p.default is p.empty or p in gradient[:1]]


def names_of_results(f: Callable[..., Any], run: Callable[[], Any]) -> list[str]:
    """Return what a function calls the results that it returns when `run` calls it; "" for one without a name."""
    code, found = code_of(f), list[str]()

    def look(frame: Any, event: str, arg: Any) -> None:
        if event == "return" and frame.f_code is code and isinstance(arg, (tuple, list)):
            names = {id(value): name for name, value in frame.f_locals.items()}
            found[:] = [names.get(id(x), "") for x in arg]

    with profiled(look):
        run()
    return found


def split_result(result: Any, cached: bool) -> tuple[Any, Any]:
    """Return the outputs of a forward pass and what it saved: the last value, if its backward pass takes one."""
    if cached and isinstance(result, (tuple, list)) and len(result) > 1:
        *outputs, cache = result
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), cache
    return result, None


def taken_from(layer: Any, names: Sequence[str]) -> Any:
    """Return the float array that a layer holds under one of these names; None if it holds none."""
    for name in names:
        value = getattr(layer, name, None)
        if is_float(value) or isinstance(value, float):
            return value
    return None
