"""The rows of tests/test_ops.py: one per NumPy function, each a list of sample calls.

    row(np.tanh, unary(), analytic=True, complex=True)
    row(np.concatenate, call([real(2, 3), real(1, 3)]), call([real(2, 3), real(2, 1)], axis=-1))

A new op needs one row here; test_ops.py multiplies it by the modes (value, gradient, second order, and so on).
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samples import Real, generator, leaves, positive, real, replaced

__all__ = [
    "Case",
    "Row",
    "binary",
    "call",
    "cases",
    "collect",
    "only",
    "outputs",
    "positive",
    "real",
    "row",
    "unary",
]


@dataclass(frozen=True)
class Row:
    """A function, sample calls of it, and what is true of it."""

    function: Any
    calls: tuple
    name: str
    through: Callable  # what is called, where a call of the function alone is no test of it
    analytic: bool = False  # the complex step finds the derivative
    complex: bool = False  # takes complex numbers
    exact: bool = True  # the value on Tensors is NumPy's to the last bit
    second: bool = True  # the second derivative can be measured
    float32: float | None = 1e-4  # how close the gradients in float32 are to those in float64


@dataclass(frozen=True)
class Call:
    """The arguments of a call; `real(...)` among them is drawn and differentiated."""

    args: tuple
    kwargs: dict


@dataclass(frozen=True)
class Case:
    """A call with its arrays drawn: a function of `primals` that returns its floating-point results as a tuple."""

    row: Row
    call: Call
    name: str
    primals: tuple

    def result(self, *arrays):
        """Return whatever the function returns."""
        given = iter(arrays)
        args = replaced(self.call.args, given)
        return self.row.through(*args, **replaced(self.call.kwargs, given))

    def __call__(self, *arrays):
        return tuple(
            x for x in outputs(self.result(*arrays)) if np.dtype(getattr(x, "dtype", int)).kind in "fc"
        )

    def at(self, *primals):
        """Return the case with other arrays."""
        return replace(self, primals=primals)

    def __str__(self):
        return self.name


def outputs(result) -> list:
    """Return the arrays of a result, which may be a list or tuple of them."""
    if isinstance(result, (list, tuple)):
        return [x for item in result for x in outputs(item)]
    return [] if result is None else [result]


def row(function, *calls, through=None, name=None, **facts) -> Row | None:
    """Return the row of a function, or None if it is only a name, of what this NumPy is too old to have."""
    if isinstance(function, str):
        if not hasattr(np, function):
            return None
        function = getattr(np, function)
    flat = [c for item in calls for c in (item if isinstance(item, list) else [item])]
    if name is None:
        module = "" if isinstance(function, np.ufunc) else getattr(function, "__module__", None) or ""
        name = ".".join(filter(None, [module.removeprefix("numpy").strip("."), function.__name__]))
    return Row(function, tuple(flat), name, through or function, **facts)


def call(*args, **kwargs) -> Call:
    """Return a sample call."""
    return Call(args, kwargs)


def unary(**domain) -> list[Call]:
    """Return calls of a function of one array."""
    return [call(real(*shape, **domain)) for shape in ((3, 2), (4,), ())]


def binary(x=real, y=real) -> list[Call]:
    """Return calls of a function of two arrays: equal shapes, all kinds of broadcasting, and Python numbers."""
    shapes = [
        ((3, 2), (3, 2)),
        ((3, 2), (2,)),
        ((2, 1, 4), (3, 1)),
        ((3,), ()),
        ((), (2, 2)),
        ((1, 2), (3, 1)),
        ((), ()),
    ]
    return [call(x(*a), y(*b)) for a, b in shapes] + [call(x(2, 2), 1.5), call(0.75, y(3))]


def only(low, high):
    """Return what describes arrays of numbers from low to high: `binary(only(0.2, 2), real)`."""
    return lambda *shape: Real(shape, low, high)


def cases(row_: Row) -> list[Case]:
    """Return the cases of a row, drawn."""
    out = []
    for i, c in enumerate(row_.calls):
        name = f"{row_.name} #{i}"
        rng = generator(name)
        out.append(Case(row_, c, name, tuple(leaf.draw(rng) for leaf in leaves((c.args, c.kwargs)))))
    return out


def collect() -> list[Row]:
    """Return the rows of every file of this folder."""
    modules = (
        importlib.import_module(f"cases.{m.name}") for m in sorted(pkgutil.iter_modules(__path__), key=str)
    )
    return [r for module in modules for r in module.ROWS if r is not None]
