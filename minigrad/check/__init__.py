"""Checking gradients: generated ones against measured derivatives, and hand-written ones against generated ones.

    check_gradients(f, *args)                      the generated gradient against values of the function
    check_adjoint(forward, adjoint, *args)         an adjoint by hand, in every way there is
    compare_adjoints(forward, adjoint, *args)      the first wrong line of an adjoint by hand

    check_layer(layer, *inputs)                    somebody's class with forward and backward, as it stands

Each returns a `Report`, or raises `AdjointMismatch` with it.
"""

from minigrad.check.checks import check_adjoint, check_gradients, compare_adjoints
from minigrad.check.foreign import check_layer
from minigrad.check.report import Report

__all__ = ["Report", "check_adjoint", "check_gradients", "check_layer", "compare_adjoints"]
