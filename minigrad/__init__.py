"""Automatic differentiation for plain NumPy code."""

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
    "trace",
    "tree",
    "value_and_grad",
    "vjp",
]
