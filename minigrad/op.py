"""An op is a NumPy function and one adjoint per array input. This file holds the table of them.

An adjoint is plain NumPy, usually one line, and its parameter names are its memory:

    g                 the gradient of the result
    out               the result
    x, x_shape        the value, or only the shape, of the input named x
    position          which of the arrays, for an op of any number of arrays (declared as "*arrays")
    anything else     a parameter of the op, such as axis

What no adjoint names is not kept alive between the forward and the backward pass.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.errors import LeakedTensorError, here
from minigrad.shapes import shape_of

__all__ = [
    "COMPOSITES",
    "OPS",
    "REFUSED",
    "Op",
    "Recorded",
    "Rule",
    "as_array",
    "available",
    "composite",
    "define",
    "missing",
    "parameters",
    "refuse",
]

Bind = Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]


class Recorded:
    """What an op knows of a Tensor: its value, the tape it is recorded on, and its slot there (-1: a constant).

    A Tensor that is a view of another also has that other (`_base`), the link that leads to it, and the version of
    the base that it was made from.
    """

    __slots__ = ("_base", "_foreign", "_link", "_slot", "_tape", "_value", "_version")

    _value: Any
    _tape: Any
    _slot: int
    _foreign: bool  # the value's memory is visible to the user, who might overwrite it
    _base: Recorded | None
    _link: Any
    _version: int

    def _refresh(self) -> None:
        raise NotImplementedError


def as_array(x: Any) -> Any:
    """Return a Tensor as it is, anything else as an array: what a composite does first where NumPy takes lists."""
    return x if isinstance(x, Recorded) else np.asarray(x)


class Rule:
    """One adjoint, and what it asks to be kept for it."""

    __slots__ = ("arrays", "fetch", "function", "missing")

    def __init__(self, function: Callable[..., Any], inputs: list[str], defaults: dict[str, Any]) -> None:
        self.function = function
        self.missing: str | None = getattr(function, "missing_reason", None)
        names = [] if self.missing else list(inspect.signature(function).parameters)[1:]
        # `fetch(values, out, params, position)` collects what the rule names. It is compiled once per rule because
        # it runs for every recorded op: a loop over the names here cost a third of the whole overhead of an op.
        sources = [_source(name, inputs, defaults) for name in names]
        scope = {"shape_of": shape_of, "defaults": defaults}
        source = f"lambda values, out, params, position: ({''.join(s + ', ' for s in sources)})"
        self.fetch = eval(compile(source, __file__, "eval"), scope)
        # Which inputs the rule keeps whole: these are guarded against being overwritten.
        self.arrays = tuple(i for i, name in enumerate(inputs) if name.lstrip("*") in names)


def _source(name: str, inputs: list[str], defaults: dict[str, Any]) -> str:
    """Return the expression that finds what an adjoint calls `name`."""
    if name in ("out", "position"):
        return name
    for i, input_ in enumerate(inputs):
        if input_.startswith("*"):
            rest = f"values[{i}:]"
            if name == input_[1:]:
                return rest
            if name == f"{input_[1:]}_shape":
                return f"[shape_of(v) for v in {rest}]"
        elif name == input_:
            return f"values[{i}]"
        elif name == f"{input_}_shape":
            return f"shape_of(values[{i}])"
    if name in defaults:
        return f"params.get({name!r}, defaults[{name!r}])"
    return f"params[{name!r}]"


class Op:
    """A function of arrays with its adjoints. Call it with arrays or Tensors: with a Tensor the call is recorded.

    Parameters
    ----------
    function
        `function(*inputs, **params)` computes the value.
    inputs
        The names of the array inputs: "x y", or "*arrays" for any number, or "x *indices".
    adjoints
        One per input: a function, None where no derivative exists, or `missing(reason)`.
    name
        As a user would write it: "np.exp".
    kind
        "elementwise" (each element of the result depends on the elements at the same place only), "linear",
        "view" (the result may share memory with its input), "search" (the shape of the result depends on values),
        "call" (of plain NumPy code: a checkpoint), or None.
    bind
        Turns the arguments of a call into `(inputs, params)`; by default, the leading ones are the inputs.
    """

    __slots__ = ("adjoints", "bind", "function", "inputs", "keeps", "kind", "name", "rules", "variadic")

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: str,
        adjoints: tuple[Callable[..., Any] | None, ...],
        name: str,
        kind: str | None = None,
        bind: Bind | None = None,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.kind = kind
        self.inputs = inputs.split()
        self.adjoints = adjoints
        self.variadic = self.inputs[-1].startswith("*")
        if len(adjoints) != len(self.inputs):
            raise ValueError(f"{name}: {len(self.inputs)} inputs ({inputs}) but {len(adjoints)} adjoints")
        signature = parameters(function)
        if defaults is None:
            defaults = {n: None if d is np._NoValue else d for n, d in signature.items()}
        self.rules = tuple(None if a is None else Rule(a, self.inputs, defaults) for a in adjoints)
        self.keeps = any(rule is not None and rule.arrays for rule in self.rules)  # an adjoint needs an input whole
        self.bind = bind or leading(len(self.inputs), list(signature))

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        """Compute the value; if an input is a Tensor, record it on the innermost tape among the inputs."""
        return self.apply(inputs, params)

    def apply(self, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Do the same for arguments that have been put together already."""
        tape = None
        for x in inputs:
            if isinstance(x, Recorded):
                if x._base is not None and x._version != x._base._version:
                    x._refresh()
                if tape is None or x._tape.level > tape.level:
                    tape = x._tape
        if tape is None:
            return self.function(*inputs, **params)
        if not tape.open:
            raise LeakedTensorError(
                f"{self.name} was called with a Tensor of a differentiation whose forward pass has ended.\n"
                f"  at   {here()}\n"
                "  fix  do not keep Tensors between calls, return what you need (has_aux=True) instead;\n"
                "       an adjoint gets what it needs as arguments"
            )
        return tape.record(self, inputs, params)

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.inputs)})>"


@functools.cache
def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a function with their defaults (`inspect.Parameter.empty` where there is none)."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin without a signature
        return {}
    return {p.name: p.default for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def leading(n: int, names: list[str]) -> Bind:
    """Return a `bind` for a function whose first n parameters are the inputs."""

    rest = names[n:]

    def bind(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if len(args) == n:
            return args, kwargs
        if len(args) > n:
            kwargs.update(zip(rest, args[n:], strict=False))
            return args[:n], kwargs
        return args + tuple(kwargs.pop(name) for name in names[len(args) : n] if name in kwargs), kwargs

    return bind


OPS: dict[Any, Op] = {}
"""The table: NumPy function to op."""

COMPOSITES: dict[Any, Callable[..., Any]] = {}
"""NumPy functions that are written in terms of others."""

REFUSED: dict[Any, str] = {}
"""NumPy functions that are not differentiated, each with the reason and the way out."""


def define(
    function: Any,
    inputs: str,
    *adjoints: Callable[..., Any] | None,
    kind: str | None = None,
    bind: Bind | None = None,
    call: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Op:
    """Add an op to the table.

    Parameters
    ----------
    function
        The NumPy function that users call.
    inputs, adjoints, kind, bind
        See `Op`.
    call
        What computes the value from `(*inputs, **params)`, where it is not `function` itself.
    """
    signature = parameters(function) | (parameters(call) if call else {})
    defaults = {n: None if d is np._NoValue else d for n, d in signature.items()}
    op = Op(call or function, inputs, adjoints, name or public_name(function), kind, bind, defaults)
    if bind is None and call is not None:
        op.bind = leading(len(op.inputs), list(parameters(function)))
    OPS[function] = op
    return op


def composite(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say that a NumPy function is computed as the decorated function of other NumPy functions."""

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            COMPOSITES[function] = implementation
        return implementation

    return register


def available(*names: str) -> list[Any]:
    """Return the functions of NumPy with these names: some are newer than the oldest NumPy that minigrad runs with."""
    return [getattr(np, name) for name in names if hasattr(np, name)]


def missing(reason: str) -> Callable[..., Any]:
    """Return the adjoint that says: the derivative exists, but is not written."""

    def adjoint(g: Any) -> Any:
        raise AssertionError("a missing adjoint is never called")

    adjoint.missing_reason = reason  # type: ignore[attr-defined]
    return adjoint


def refuse(reason: str, *functions: Any) -> None:
    """Say that these functions are not differentiated, and why."""
    for function in functions:
        REFUSED[function] = reason


def public_name(function: Any) -> str:
    """Return the name users know a function by: `np.linalg.norm`."""
    if isinstance(function, np.ufunc):
        name = function.__name__
        for module in ("numpy", "numpy.strings", "scipy.special"):
            if getattr(sys.modules.get(module), name, None) is function:
                return f"{module}.{name}".replace("numpy", "np", 1)
        return name
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", repr(function))
    return f"{module.replace('numpy', 'np', 1)}.{name}" if module.startswith("numpy") else name
