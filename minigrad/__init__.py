"""Automatic differentiation for plain NumPy code."""

from minigrad import errors, tree
from minigrad.special import erf
from minigrad.tensor import Tensor
from minigrad.transforms import grad, jvp, stop_gradient, value_and_grad, vjp

__all__ = ["Tensor", "erf", "errors", "grad", "jvp", "stop_gradient", "tree", "value_and_grad", "vjp"]
