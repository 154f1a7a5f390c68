"""Arithmetic that writes LLVM instructions: how the formulas of vector_math come into a kernel.

Instructions on floats have one flag, `contract`: LLVM may join a product and a sum in one. With `reassoc`, it would
make x of (x + c) - c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

__all__ = ["FLAGS", "Bits", "Value", "polynomial"]

FLAGS = ("contract",)


@dataclass(frozen=True, eq=False)
class _Operand:
    """An argument or the result of an instruction; Python numbers beside it become constants of its type."""

    builder: Any  # llvmlite's
    ir: Any

    @property
    def width(self) -> int:
        """32 or 64."""
        return 32 if str(self.ir.type) in ("float", "i32") else 64

    def _ir_of(self, other: Any) -> Any:
        from llvmlite import ir

        return other.ir if isinstance(other, _Operand) else ir.Constant(self.ir.type, other)

    def _write(self, instruction: str, left: Any, right: Any, **flags: Any) -> Self:
        write = getattr(self.builder, instruction)
        return type(self)(self.builder, write(self._ir_of(left), self._ir_of(right), **flags))


class Value(_Operand):
    """A float32 or float64 of the running kernel.

    Comparisons are false where an operand is NaN. They give a condition for `choose`.
    """

    @property
    def digits(self) -> int:
        """The number of binary digits stored after the point."""
        return 23 if self.width == 32 else 52

    @property
    def bias(self) -> int:
        """What the exponent's field holds for 1."""
        return 127 if self.width == 32 else 1023

    def __add__(self, other: Value | float) -> Value:
        return self._write("fadd", self, other, flags=FLAGS)

    def __radd__(self, other: float) -> Value:
        return self._write("fadd", other, self, flags=FLAGS)

    def __sub__(self, other: Value | float) -> Value:
        return self._write("fsub", self, other, flags=FLAGS)

    def __rsub__(self, other: float) -> Value:
        return self._write("fsub", other, self, flags=FLAGS)

    def __mul__(self, other: Value | float) -> Value:
        return self._write("fmul", self, other, flags=FLAGS)

    def __truediv__(self, other: Value | float) -> Value:
        return self._write("fdiv", self, other, flags=FLAGS)

    def compare(self, sign: str, other: Value | float) -> Any:
        """Return a condition: sign is '<', '>' or '=='."""
        return self.builder.fcmp_ordered(sign, self.ir, self._ir_of(other), flags=FLAGS)

    def __lt__(self, other: Value | float) -> Any:
        return self.compare("<", other)

    def __gt__(self, other: Value | float) -> Any:
        return self.compare(">", other)

    def choose(self, condition: Any, yes: Value | float, no: Value | float) -> Value:
        """Return one of two values of this one's type, without a branch."""
        return Value(self.builder, self.builder.select(condition, self._ir_of(yes), self._ir_of(no)))

    def at_least(self, bound: float) -> Value:
        """Return the larger; NaN stays."""
        return self.choose(self < bound, bound, self)

    def at_most(self, bound: float) -> Value:
        """Return the smaller; NaN stays."""
        return self.choose(self > bound, bound, self)

    def bits(self) -> Bits:
        """Return the same bits as an integer."""
        from llvmlite import ir

        return Bits(self.builder, self.builder.bitcast(self.ir, ir.IntType(self.width)))

    # By the bit of the sign, which zero and NaN have too.
    def __abs__(self) -> Value:
        return (self.bits() & ((1 << self.width - 1) - 1)).value()

    def __neg__(self) -> Value:
        return (self.bits() ^ (1 << self.width - 1)).value()

    def with_sign_of(self, other: Value) -> Value:
        """Return this number, which is >= 0, with the sign of another."""
        return (self.bits() | (other.bits() & (1 << self.width - 1))).value()


class Bits(_Operand):
    """The bits of a Value as an integer without sign."""

    def __add__(self, other: int) -> Bits:
        return self._write("add", self, other)

    def __rsub__(self, other: int) -> Bits:
        return self._write("sub", other, self)

    def __lshift__(self, places: int) -> Bits:
        return self._write("shl", self, places)

    def __rshift__(self, places: int) -> Bits:
        return self._write("lshr", self, places)

    def __and__(self, other: int) -> Bits:
        return self._write("and_", self, other)

    def __or__(self, other: Bits | int) -> Bits:
        return self._write("or_", self, other)

    def __xor__(self, other: int) -> Bits:
        return self._write("xor", self, other)

    def value(self) -> Value:
        """Return the same bits as a float."""
        from llvmlite import ir

        kind = ir.FloatType() if self.width == 32 else ir.DoubleType()
        return Value(self.builder, self.builder.bitcast(self.ir, kind))


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Return the sum by Horner's rule, the coefficient of the highest power first."""
    highest, second, *rest = coefficients
    total = x * highest + second
    for c in rest:
        total = total * x + c
    return total
