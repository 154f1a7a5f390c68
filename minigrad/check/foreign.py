"""Checking somebody's layer as it stands: a class with forward and backward, or functions that hand on a cache.

The layer is copied for every run, so that nothing in it is changed. Its forward pass is run on Tensors, unmodified,
in a context where NumPy's constructors answer for them; its backward pass is run on arrays as it always is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from minigrad.check.examine import examine
from minigrad.check.layer import Layer
from minigrad.check.naming import name_of
from minigrad.check.pairs import Functions, LossAndGradient, Pair
from minigrad.check.report import Report
from minigrad.check.variations import numbers_of
from minigrad.errors import MinigradError

__all__ = ["check_layer"]


def check_layer(
    layer: Any,
    *inputs: Any,
    forward: str | None = None,
    backward: str | None = None,
    gradients: Mapping[str, str] | None = None,
    constants: Sequence[str] = (),
    other_shapes: bool = True,
    names: Mapping[str, str] | None = None,
) -> Report:
    """Check the backward pass of somebody's layer, as it stands.

    Parameters
    ----------
    layer
        An object with a forward and a backward method (or `__call__`, `fprop`, `backward_pass` ...); or a pair of
        functions `(forward, backward)`, where `forward(*inputs)` returns `(out, cache)` and `backward(dout, cache)`
        the gradients; or one function that returns `(loss, gradients)`, which may be a method: `model.loss`.
    *inputs
        An example of the inputs of its forward pass.
    forward, backward
        The names of its methods, where they are unusual.
    gradients
        Where the gradient of a parameter is found, where its name does not say: `{"W": "update"}`. Paths from the
        layer, such as `attention.W_q` or `grads['W']`.
    constants
        Which float arrays of the layer are no parameters, though the result depends on them: `["pos_encoding"]`.
    other_shapes
        As in `check_adjoint`: whether inputs of other shapes are tried too.
    names
        As in `check_adjoint`: which local variable is the gradient of which.

    Returns
    -------
    Report
        Sharing memory with the incoming gradient, or a gradient of another precision, is only remarked on.

    Raises
    ------
    AdjointMismatch
        If a gradient is wrong. The message is the report.
    MinigradError
        If the layer cannot be called, or nothing in it has a gradient.
    """
    pair: Pair
    if isinstance(layer, (FunctionType, BuiltinFunctionType, MethodType)):
        _require_no_backward(layer, inputs, forward, backward)
    if isinstance(layer, (tuple, list)):
        pair = Functions(*layer)
    elif isinstance(layer, (FunctionType, BuiltinFunctionType)):
        pair = LossAndGradient(layer)
    elif isinstance(layer, MethodType):
        pair = Layer(layer.__self__, layer.__name__, layer.__name__, gradients or {}, constants)
    else:
        pair = Layer(layer, forward, backward, gradients or {}, constants)
    subject = pair.subject(inputs)
    fixed = numbers_of(subject, 0) if isinstance(pair, Layer) and pair.parameters else []
    report = examine(subject, pair.names() | dict(names or {}), fixed, False, pair.fixed_cotangent, other_shapes)
    report.title, report.unchecked = pair.title, pair.unchecked
    report.notes += pair.notes()
    wrong = [c for c in report.comparisons if not c.right]
    for c in wrong:
        if c.name in pair.explanations:
            c.diagnosis = pair.explanations[c.name].splitlines()
    left = getattr(pair, "parameters", {})
    absent = [c.name in pair.explanations or (c.name in left and not np.any(c.got)) for c in wrong]
    if wrong and all(absent) and report.culprit is not None and not report.culprit.confirmed:
        report.culprit = None  # what is missing has no line
    return report.require()


def _require_no_backward(function: Any, inputs: Sequence[Any], forward: Any, backward: Any) -> None:
    """Raise if a function is given with its backward pass beside it: the two of them are one argument.

    Raises
    ------
    MinigradError
        With the call that was meant.
    """
    kinds = (FunctionType, BuiltinFunctionType, MethodType)
    besides = next((f for f in (backward, forward, *inputs[:1]) if isinstance(f, kinds)), backward or forward)
    if besides is not None:
        name, other = name_of(function), besides if isinstance(besides, str) else name_of(besides)
        raise MinigradError(
            f"check_layer takes {name} alone for a function that returns (loss, gradients)\n"
            f"  fix  with its backward pass, as a pair: check_layer(({name}, {other}), *inputs)"
        )
