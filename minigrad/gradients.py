"""What becomes of a gradient on its way: the shape and the dtype of its value, and sums of what arrived."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.errors import ShapeError
from minigrad.shapes import shape_of

__all__ = ["Spec", "Sums", "as_dtype", "sum_to"]

Spec = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and dtype of a value."""


def sum_to(g: Any, shape: tuple[int, ...], who: str = "sum_to") -> Any:
    """Undo broadcasting: sum g over the axes that were added or stretched to reach its shape.

    Raises
    ------
    ShapeError
        If `shape` does not broadcast to the shape of g.
    """
    came = g.shape
    extra = len(came) - len(shape)
    axes = list(range(extra))
    for i, n in enumerate(shape, extra):
        if extra < 0 or n not in (1, came[i]):
            return _stretched(g, shape, who)
        if n != came[i]:
            axes.append(i)
    if axes:
        g = g.sum(axis=tuple(axes))
    return g if g.shape == shape else g.reshape(shape)


def _stretched(g: Any, shape: tuple[int, ...], who: str) -> Any:
    """Return g in a shape that has more axes, or longer ones."""
    came = shape_of(g)
    extra = len(shape) - len(came)
    if extra > 0 and shape[:extra] == (1,) * extra:  # assignment takes a value with more axes, of length 1
        return np.reshape(sum_to(g, shape[extra:], who), shape)
    try:
        if np.broadcast_shapes(came, shape) == shape:
            return np.broadcast_to(g, shape)
    except ValueError:
        pass
    raise ShapeError(f"the adjoint of {who} returned a gradient of shape {came} for an input of shape {shape}")


def as_dtype(gradient: Any, dtype: np.dtype[Any]) -> Any:
    """Return the gradient in the dtype of the value it belongs to; of a real value, the real part."""
    if dtype.kind != "c" and gradient.dtype.kind == "c":
        gradient = np.real(gradient)
    return gradient.astype(dtype, copy=False)


class Sums:
    """Sums of gradients by slot. A sum that was made here is added to in place; what a rule returned never is."""

    def __init__(self, specs: dict[int, Spec], n: int) -> None:
        self.specs = specs
        self.values: list[Any] = [None] * n
        self.owned = bytearray(n)

    def add(self, slot: int, gradient: Any) -> None:
        present = self.values[slot]
        if present is None:
            self.values[slot] = gradient
        elif self.owned[slot] and isinstance(present, np.ndarray) and isinstance(gradient, np.ndarray):
            np.add(present, gradient, out=present)
        else:
            self.values[slot] = present + gradient
            self.owned[slot] = 1

    def take(self, first: int, count: int) -> tuple[Any, ...] | None:
        """Return the gradients of an op with several results and let go of them; None if none arrived."""
        slots = range(first, first + count)
        gs = [self.values[s] for s in slots]
        if all(g is None for g in gs):
            return None
        for s in slots:
            self.values[s] = None
        return tuple(np.zeros(*self.specs[s]) if g is None else g for s, g in zip(slots, gs, strict=True))
