"""Checks of values that hold in compiled functions too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.errors import warn
from minigrad.op import Op

__all__ = ["caution", "require"]


def _require(condition: Any, *values: Any, error: str | Callable[..., Exception]) -> Any:
    if not np.all(condition):
        raise ValueError(error, *values) if isinstance(error, str) else error(*values)
    return condition


_op = Op(_require, "condition *values", (None, None), "minigrad.require", kind="effect")


def require(condition: Any, error: str | Callable[..., Exception], *values: Any) -> None:
    """Raise unless a condition on values is true everywhere.

    `if np.any(ids < 0): raise ...` would be decided once and for all when a function is compiled. This is part of the
    program, and is decided at every run.

    Parameters
    ----------
    condition
        A boolean or an array of them.
    error
        The text of a ValueError, or a function: `error(*values)` returns the exception to raise.
    *values
        Arrays that the message needs.
    """
    if not (isinstance(error, str) or callable(error)):
        raise TypeError(
            f"require: the error should be a text, or a function that returns the exception, got {type(error).__name__}"
        )
    _op(condition, *values, error=error)


def _caution(condition: Any, *, message: str, category: type[Warning] = RuntimeWarning) -> Any:
    if np.any(condition):
        warn(message, category)
    return condition


_caution_op = Op(_caution, "condition", (None,), "minigrad.require.caution", kind="effect")


def caution(condition: Any, message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn, as NumPy would, if a condition on values is true anywhere; at every run of a compiled function."""
    _caution_op(condition, message=message, category=category)
