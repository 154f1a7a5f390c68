"""Automatic differentiation for plain NumPy code."""

import importlib as _importlib

from minigrad import emit, errors, tree
from minigrad.array import array
from minigrad.compiler import Compiled, compile
from minigrad.custom import checkpoint, custom_adjoint
from minigrad.debug import debug
from minigrad.emit import adjoint_source, forward_source
from minigrad.jacobians import hessian, hvp, jacobian
from minigrad.require import require
from minigrad.special import erf
from minigrad.tensor import Tensor
from minigrad.trace import trace
from minigrad.transforms import grad, jvp, stop_gradient, value_and_grad, vjp

__all__ = [
    "Compiled",
    "Tensor",
    "adjoint_source",
    "array",
    "check",
    "checkpoint",
    "compile",
    "custom_adjoint",
    "debug",
    "emit",
    "erf",
    "errors",
    "forward_source",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "require",
    "stop_gradient",
    "testing",
    "trace",
    "tree",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> object:
    """Import what few programs need when it is first asked for."""
    if name in ("check", "testing"):
        return _importlib.import_module(f"minigrad.{name}")
    raise AttributeError(f"module 'minigrad' has no attribute {name!r}")
