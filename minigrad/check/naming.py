"""What functions and arguments are called and are, for messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.op import Recorded
from minigrad.tensor import dtype_of

__all__ = ["argument_names", "is_float", "is_numeric", "kind_of", "name_of"]


def is_float(x: Any) -> bool:
    """Tell whether x is an array, a NumPy scalar or a Tensor of real or complex floating-point numbers."""
    return isinstance(x, (np.ndarray, np.generic, Recorded)) and dtype_of(x).kind in "fc"


def is_numeric(x: Any) -> bool:
    """Tell whether x is a number, an array of numbers, or a list that is one."""
    try:
        return np.asarray(x).dtype.kind in "fciub"
    except ValueError:  # a list of arrays of several shapes
        return False


def name_of(f: Any) -> str:
    """Return what a function, a partial or an object is called."""
    f = getattr(f, "func", f)
    return getattr(f, "__name__", type(f).__name__)


def kind_of(x: Any) -> str:
    """Return what an argument is, for a message."""
    return f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__


def argument_names(f: Callable[..., Any], n: int) -> list[str]:
    """Return what a function calls its first n positional arguments: x, y, and rest[0] for those of *rest."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "argument")
    return [*plain[:n], *(f"{rest}[{i}]" for i in range(n - len(plain)))]
