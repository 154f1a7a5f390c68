"""What the compiler knows of ops: which are elementwise, which reduce, which only look at memory differently."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.custom import once_more
from minigrad.op import OPS, Op
from minigrad.program import Atom, Const, Equation
from minigrad.rules import index
from minigrad.special import erf
from minigrad.zero import zero_stays_zero

__all__ = ["ELEMENTWISE", "REDUCE", "VIEWS", "common_type", "is_scalar"]

# Elementwise ops: the ufunc that computes it into `out=`, and the expression in a generated kernel. {0} {1} {2} are
# the operands, already of the result's type T (or, for comparisons and where's choices, of their common type).
ELEMENTWISE: dict[Op, tuple[Any, str]] = {
    OPS[np.add]: (np.add, "{0} + {1}"),
    OPS[np.subtract]: (np.subtract, "{0} - {1}"),
    OPS[np.multiply]: (np.multiply, "{0} * {1}"),
    OPS[np.divide]: (np.divide, "{0} / {1}"),
    OPS[np.negative]: (np.negative, "-{0}"),
    OPS[np.positive]: (np.positive, "{0}"),
    OPS[np.square]: (np.square, "{0} * {0}"),
    OPS[np.reciprocal]: (np.reciprocal, "T(1) / {0}"),
    OPS[np.sqrt]: (np.sqrt, "sqrt({0})"),
    OPS[np.exp]: (np.exp, "exp({0})"),
    OPS[np.expm1]: (np.expm1, "expm1({0})"),
    OPS[np.log]: (np.log, "log({0})"),
    OPS[np.log1p]: (np.log1p, "log1p({0})"),
    OPS[np.tanh]: (np.tanh, "tanh({0})"),
    OPS[np.sin]: (np.sin, "sin({0})"),
    OPS[np.cos]: (np.cos, "cos({0})"),
    OPS[np.absolute]: (np.absolute, "abs({0})"),
    OPS[np.fabs]: (np.fabs, "abs({0})"),
    OPS[np.sign]: (np.sign, "(T({0} > 0) - T({0} < 0) if {0} == {0} else {0})"),
    OPS[np.power]: (np.power, "{0} ** {1}"),
    OPS[np.floor]: (np.floor, "np.floor({0})"),
    OPS[np.ceil]: (np.ceil, "np.ceil({0})"),
    OPS[np.trunc]: (np.trunc, "np.trunc({0})"),
    OPS[np.fmax]: (np.fmax, "({0} if ({0} >= {1}) | ({1} != {1}) else {1})"),
    OPS[np.fmin]: (np.fmin, "({0} if ({0} <= {1}) | ({1} != {1}) else {1})"),
    OPS[np.isfinite]: (np.isfinite, "abs({0}) < INF"),
    OPS[np.isinf]: (np.isinf, "abs({0}) == INF"),
    OPS[np.logical_xor]: (np.logical_xor, "{0} != {1}"),
    OPS[np.maximum]: (np.maximum, "maximum({0}, {1})"),
    OPS[np.minimum]: (np.minimum, "minimum({0}, {1})"),
    OPS[np.equal]: (np.equal, "{0} == {1}"),
    OPS[np.not_equal]: (np.not_equal, "{0} != {1}"),
    OPS[np.less]: (np.less, "{0} < {1}"),
    OPS[np.less_equal]: (np.less_equal, "{0} <= {1}"),
    OPS[np.greater]: (np.greater, "{0} > {1}"),
    OPS[np.greater_equal]: (np.greater_equal, "{0} >= {1}"),
    OPS[np.isnan]: (np.isnan, "{0} != {0}"),
    OPS[np.logical_and]: (np.logical_and, "{0} & {1}"),
    OPS[np.logical_or]: (np.logical_or, "{0} | {1}"),
    OPS[np.logical_not]: (np.logical_not, "not {0}"),
    OPS[np.bitwise_and]: (np.bitwise_and, "{0} & {1}"),
    OPS[np.bitwise_or]: (np.bitwise_or, "{0} | {1}"),
    OPS[np.invert]: (np.invert, "not {0}"),
    OPS[np.where]: (None, "({1} if {0} else {2})"),
    OPS[np.copy]: (np.positive, "{0}"),
    erf: (None, "erf({0})"),
    index.cast: (None, "T({0})"),
    zero_stays_zero: (None, "({1} if ({1} == {1}) | ({0} != 0) else T(0))"),
}

REDUCE: dict[Op, Any] = {OPS[np.sum]: np.add, OPS[np.max]: np.maximum, OPS[np.min]: np.minimum}

VIEWS: frozenset[Op] = frozenset(
    {
        OPS[f]
        for f in (
            np.reshape,
            np.ravel,
            np.transpose,
            np.permute_dims,
            np.matrix_transpose,
            np.swapaxes,
            np.moveaxis,
            np.squeeze,
            np.expand_dims,
            np.broadcast_to,
        )
        if f in OPS
    }
    | {index.getitem, once_more}
)

COMPARISONS = frozenset(
    OPS[f]
    for f in (
        np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isfinite, np.isinf,
        np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
    )
)  # fmt: skip
FLOATS_ONLY = frozenset(
    OPS[f]
    for f in (
        np.power, np.sign, np.fabs, np.floor, np.ceil, np.trunc, np.fmax, np.fmin, np.isfinite, np.isinf, np.reciprocal,
    )
)  # fmt: skip
LOGICAL = frozenset(OPS[f] for f in (np.logical_and, np.logical_or, np.logical_xor, np.logical_not))
ARITHMETIC = frozenset(OPS[f] for f in (np.add, np.subtract, np.multiply, np.negative, np.square, np.absolute))
KERNEL_TYPES = frozenset(np.dtype(t) for t in (np.float32, np.float64, np.int64, np.int32, np.bool_))


def is_scalar(atom: Atom) -> bool:
    """Tell whether an atom is a constant number, which kernels hold as a literal."""
    return isinstance(atom, Const) and not isinstance(atom.value, np.ndarray) and atom.shape == ()


def fusable(eq: Equation) -> bool:
    """Tell whether an equation is one result computed elementwise from real numbers and booleans."""
    if eq.op not in ELEMENTWISE or eq.several:
        return False
    if any(a.dtype not in KERNEL_TYPES for a in (*eq.inputs, *eq.outs) if not is_scalar(a)):
        return False  # that of another byte order is not equal to any of these
    if any(a.dtype.kind == "c" for a in eq.inputs):
        return False
    if eq.op is OPS[np.power] and is_scalar(eq.inputs[1]) and abs(eq.inputs[1].value) == 0.5:  # type: ignore[union-attr]
        return False  # LLVM takes the square root, whose answer for -inf is another
    if eq.op in LOGICAL and any(a.dtype.kind != "b" for a in eq.inputs):
        return False
    if not _has_fitting_numbers(eq):
        return False
    if eq.op in ARITHMETIC and eq.outs[0].dtype.kind == "b":
        return False
    if eq.op is OPS[np.invert] or eq.op is OPS[np.bitwise_and] or eq.op is OPS[np.bitwise_or]:
        return eq.outs[0].dtype.kind == "b"
    return eq.op not in FLOATS_ONLY or all(a.dtype.kind == "f" for a in eq.inputs if not is_scalar(a))


def common_type(eq: Equation) -> np.dtype[Any]:
    """Return the type in which a comparison compares, and everything else computes."""
    if eq.op not in COMPARISONS:
        return eq.outs[0].dtype
    return np.result_type(*(a.value if is_scalar(a) else a.dtype for a in eq.inputs))  # type: ignore[union-attr]


def _has_fitting_numbers(eq: Equation) -> bool:
    """Tell whether the type that an equation computes in holds its numbers: int32 does not hold 2**31."""
    kind = common_type(eq)
    if kind not in KERNEL_TYPES:
        return False
    if eq.op in COMPARISONS and kind.kind == "f" and all(a.dtype.kind in "iu" for a in eq.inputs):
        return False  # NumPy compares integers of two kinds exactly
    numbers = [a.value for a in eq.inputs if is_scalar(a)]  # type: ignore[union-attr]
    whole = [int(n) for n in numbers if isinstance(n, (int, np.integer))]
    return kind.kind != "i" or all(np.iinfo(kind).min <= n <= np.iinfo(kind).max for n in whole)
