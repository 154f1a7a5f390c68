"""Arithmetic of kernels: the instructions for what their source says of numbers, and the types of these.

A value is an instruction of LLVM, which has a type, or a plain Python number, which takes the type of what it meets.
Operands are cast by the source; where types still differ, the wider one is taken.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.compiler.llvm_value import FLAGS, Value
from minigrad.compiler.vector_math import FORMULAS

__all__ = [
    "FUNCTIONS", "SIGNS", "alike", "binary", "cast", "compare", "llvm_type", "to_bit", "to_long", "typed", "unary",
]  # fmt: skip

INSTRUCTIONS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "sdiv", ast.Mod: "srem",
    ast.LShift: "shl",
}  # fmt: skip
LOGICAL = {ast.BitAnd: "and_", ast.BitOr: "or_"}
SIGNS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
WIDTH = [np.bool_, np.int32, np.int64, np.float32, np.float64]  # from the narrowest


@functools.cache
def llvm_type(kind: Any) -> Any:
    """Return LLVM's type for one of NumPy's."""
    from llvmlite import ir

    types = (ir.IntType(1), ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.DoubleType())
    return types[WIDTH.index(kind)]


def _width(type_: Any) -> int:
    return [llvm_type(kind) for kind in WIDTH].index(type_)


def _is_float(type_: Any) -> bool:
    return _width(type_) >= WIDTH.index(np.float32)


# --- from one type to another


def typed(x: Any) -> Any:
    """Return a value of LLVM; a Python number with its own type."""
    if hasattr(x, "type"):
        return x
    return llvm_type(np.bool_ if isinstance(x, bool) else np.int64 if isinstance(x, int) else np.float64)(x)


def cast(builder: Any, x: Any, to: Any) -> Any:
    """Return a value as another type of LLVM, as C does; any number but 0 is True."""
    bit, is_float = llvm_type(np.bool_), _is_float(to)
    if not hasattr(x, "type"):
        if to == llvm_type(np.float32):
            x = float(np.float32(x))
        return to(float(x) if is_float else int(bool(x)) if to == bit else int(x))
    if x.type == to:
        return x
    if to == bit:
        return compare(builder, "!=", x, 0)
    wider = _width(to) > _width(x.type)
    if x.type == bit:
        return (builder.uitofp if is_float else builder.zext)(x, to)
    if _is_float(x.type) and is_float:
        return (builder.fpext if wider else builder.fptrunc)(x, to)
    if _is_float(x.type):
        return builder.fptosi(x, to)
    return builder.sitofp(x, to) if is_float else (builder.sext if wider else builder.trunc)(x, to)


def to_bit(builder: Any, x: Any) -> Any:
    """Return whether a value is anything but 0."""
    return cast(builder, x, llvm_type(np.bool_))


def to_long(builder: Any, x: Any) -> Any:
    """Return a value as an int64: an index, a count or an address."""
    return cast(builder, x, llvm_type(np.int64))


def alike(builder: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return two values as one type: that of the one that is no Python number, or the wider of both."""
    if not hasattr(x, "type") and not hasattr(y, "type"):
        x, y = typed(x), typed(y)
    if not hasattr(x, "type"):
        return alike(builder, y, x)[::-1]
    if not hasattr(y, "type"):
        if x.type == llvm_type(np.bool_) and not isinstance(y, bool):
            x = to_long(builder, x)
        return x, cast(builder, y, x.type)
    kind = max(x.type, y.type, key=_width)
    return cast(builder, x, kind), cast(builder, y, kind)


# --- operators


def binary(builder: Any, op: Any, x: Any, y: Any) -> Any:
    """Return the result of an operator, which is given as its class in `ast`."""
    x, y = alike(builder, x, y)
    if op in LOGICAL:
        return getattr(builder, LOGICAL[op])(x, y)
    if op is ast.Pow:
        return _intrinsic(builder, "llvm.pow", [x, y])
    if _is_float(x.type):
        return getattr(builder, f"f{INSTRUCTIONS[op]}")(x, y, flags=FLAGS)
    return getattr(builder, INSTRUCTIONS[op])(x, y)


def unary(builder: Any, op: Any, x: Any) -> Any:
    """Return a value with the other sign, or whether it is 0."""
    if not hasattr(x, "type"):
        return -x if op is ast.USub else not x
    if op is ast.Not:
        return builder.not_(to_bit(builder, x))
    return builder.fneg(x) if _is_float(x.type) else builder.neg(x)


def compare(builder: Any, sign: str, x: Any, y: Any) -> Any:
    """Return whether a comparison holds; with NaN none does but `!=`."""
    x, y = alike(builder, x, y)
    if _is_float(x.type):
        return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, x, y)
    return (builder.icmp_unsigned if x.type == llvm_type(np.bool_) else builder.icmp_signed)(sign, x, y)


# --- functions


def _intrinsic(builder: Any, name: str, arguments: list[Any], flags: tuple[str, ...] = FLAGS) -> Any:
    from llvmlite import ir

    kind = arguments[0].type
    signature = ir.FunctionType(kind, [kind] * len(arguments))
    function = builder.module.declare_intrinsic(name, [kind], signature)
    return builder.call(function, arguments, fastmath=flags)


def _abs(builder: Any, x: Any) -> Any:
    if _is_float(x.type):
        return _intrinsic(builder, "llvm.fabs", [x])
    return builder.select(compare(builder, "<", x, 0), builder.neg(x), x)


def _extremum(name: str, sign: str, builder: Any, x: Any, y: Any) -> Any:
    x, y = alike(builder, x, y)
    if _is_float(x.type):  # NaN if either is NaN; of 0 and -0 either one, as with NumPy
        return _intrinsic(builder, f"llvm.{name}", [x, y], ("nsz", *FLAGS))
    return builder.select(compare(builder, sign, x, y), x, y)


def _plus(builder: Any, x: Any, y: Any) -> Any:
    """Add in any order: what makes LLVM add up a loop in the lanes of a vector.

    Without `nsz`, which with `reassoc` would let LLVM take a common factor out of a sum: inf * 0 would be lost.
    """
    return builder.fadd(x, cast(builder, y, x.type), flags=("reassoc", "contract"))


def _by_llvm(name: str, builder: Any, x: Any) -> Any:
    return _intrinsic(builder, f"llvm.{name}", [x])


def _by_formula(formula: Callable[[Value], Value], builder: Any, x: Any) -> Any:
    return formula(Value(builder, x)).ir


# By the names that they have in the source of a kernel; the first argument is llvmlite's builder.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": _abs,
    "maximum": functools.partial(_extremum, "maximum", ">"),
    "minimum": functools.partial(_extremum, "minimum", "<"),
    "plus": _plus,
    **{name: functools.partial(_by_llvm, name) for name in ("sqrt", "sin", "cos", "floor", "ceil", "trunc")},
    **{name: functools.partial(_by_formula, formula) for name, formula in FORMULAS.items()},
}
