"""Assertions about gradients, for test suites: like those of `numpy.testing`, they raise AssertionError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minigrad.check import check_adjoint, check_gradients, check_layer

__all__ = ["assert_adjoint", "assert_gradients", "assert_layer"]


def assert_adjoint(forward: Callable[..., Any], adjoint: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Raise unless an adjoint written by hand is right in every way: see `minigrad.check.check_adjoint`.

    Raises
    ------
    AssertionError
        With the report: what is off, what it looks like, and the first wrong line.

    Examples
    --------
    >>> import numpy as np
    >>> assert_adjoint(np.sin, lambda g, x: g * np.cos(x), np.linspace(-1.0, 2.0, 5))
    """
    check_adjoint(forward, adjoint, *args, **kwargs)


def assert_gradients(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Raise unless the generated gradients of a function agree with measured derivatives: see `check_gradients`.

    Raises
    ------
    AssertionError
        With the report.

    Examples
    --------
    >>> import numpy as np
    >>> assert_gradients(lambda x: np.exp(-x * x), np.linspace(-1.0, 2.0, 5))
    """
    check_gradients(f, *args, **kwargs)


def assert_layer(layer: Any, *inputs: Any, **options: Any) -> None:
    """Raise unless the backward pass of somebody's layer is right: see `minigrad.check.check_layer`.

    Raises
    ------
    AssertionError
        With the report.
    """
    check_layer(layer, *inputs, **options)
