"""Arithmetic on shapes and axes. Nothing here looks at a value."""

from collections.abc import Sequence
from math import prod
from typing import Any

Shape = tuple[int, ...]
Axis = int | Sequence[int] | None


def shape_of(x: Any) -> Shape:
    """Return the shape of an array, a Tensor, a scalar or a nested list."""
    shape = getattr(x, "shape", None)
    if shape is not None:
        return shape  # type: ignore[no-any-return]
    if isinstance(x, (list, tuple)):
        return (len(x), *shape_of(x[0])) if x else (0,)
    return ()


def normal_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return the axes as non-negative integers; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, Sequence):
        return tuple(int(a) % ndim for a in axis)
    return (int(axis) % ndim,) if ndim else ()


def kept_shape(shape: Shape, axis: Axis) -> Shape:
    """Return the shape of a reduction with `keepdims=True`."""
    kept = list(shape)
    for i in normal_axes(axis, len(shape)):
        kept[i] = 1
    return tuple(kept)


def reduced_count(shape: Shape, axis: Axis) -> int:
    """Return how many elements a reduction over `axis` combines into one."""
    return prod(shape[i] for i in normal_axes(axis, len(shape)))


def broadcast_axes(shape: Shape, target: Shape) -> tuple[int, ...]:
    """Return the axes of `shape` that broadcasting `target` up to `shape` has added or stretched."""
    extra = len(shape) - len(target)
    stretched = (i + extra for i, n in enumerate(target) if n == 1 and shape[i + extra] != 1)
    return (*range(extra), *stretched)


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `axes`."""
    inverse = [0] * len(axes)
    for i, axis in enumerate(axes):
        inverse[axis % len(axes)] = i
    return tuple(inverse)
