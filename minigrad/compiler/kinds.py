"""The kind of an argument: a program serves calls whose arguments are of the kinds that it was made for."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from minigrad.errors import DtypeError, UnsupportedError
from minigrad.tape import computes_in_its_own_way

__all__ = ["kind"]


def kind(leaf: Any) -> tuple[Any, ...]:
    """Return what must be equal for a program to serve another argument."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        dtype = leaf.dtype
        if dtype.hasobject:
            raise DtypeError(f"compile: arrays of objects cannot be compiled, got dtype {dtype}")
        if type(leaf) is not np.ndarray and isinstance(leaf, np.ndarray) and computes_in_its_own_way(leaf):
            raise DtypeError(
                f"compile: a {type(leaf).__name__} computes in its own way\n"
                "  fix  pass a plain array: np.asarray(x), or x.filled(0) and a mask for np.where"
            )
        return ("array", (dtype, leaf.shape))
    if isinstance(leaf, np.random.Generator):
        return ("generator", type(leaf.bit_generator))
    if isinstance(leaf, np.random.RandomState):
        raise UnsupportedError("compile: a RandomState would be frozen\n  fix  pass a numpy.random.Generator")
    if isinstance(leaf, (float, complex)):
        return ("value", type(leaf), repr(leaf))  # 0.0 is not -0.0, and NaN is NaN
    if _may_change(leaf):
        raise UnsupportedError(
            f"compile: a {type(leaf).__name__} is an argument, and would be part of the program as it is now: what it "
            "holds could change without being seen\n"
            "  fix  pass what the function needs of it, or make it a dataclass, whose fields are arguments"
        )
    return ("value", type(leaf), leaf)


def _may_change(leaf: Any) -> bool:
    """Tell whether a Python value may be another one at the next call, and yet equal to itself."""
    hashed: Any = type(leaf).__hash__
    if hashed is not object.__hash__ or isinstance(leaf, (type, FunctionType, np.ufunc)):
        return hashed is None
    if hasattr(leaf, "__wrapped__"):  # for a function
        return False
    return bool(getattr(leaf, "__dict__", None)) or any(map(_holds_values, type(leaf).__mro__))


def _holds_values(class_: type) -> bool:
    """Tell whether a class has slots, or attributes that are neither methods nor properties."""
    own = {name: value for name, value in vars(class_).items() if not name.startswith("_")}
    return bool(vars(class_).get("__slots__")) or not all(hasattr(value, "__get__") for value in own.values())
