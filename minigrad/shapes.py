"""Arithmetic on shapes and axes. Nothing here looks at a value."""

from collections.abc import Sequence
from math import prod
from typing import Any

from numpy.exceptions import AxisError

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


def normal_axis(axis: Any, ndim: int) -> int:
    """Return the axis as a non-negative integer.

    Raises
    ------
    AxisError
        As NumPy does, if there is no such axis.
    """
    if not -ndim <= axis < ndim:
        raise AxisError(axis, ndim)
    return int(axis) % ndim


def normal_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Return the axes as non-negative integers; None means all of them. A number has the axes 0 and -1, as in NumPy."""
    if axis is None:
        return tuple(range(ndim))
    if not isinstance(axis, Sequence):
        return (normal_axis(axis, ndim),) if ndim or axis not in (0, -1) else ()
    axes = tuple(normal_axis(a, ndim) for a in axis)
    if len(set(axes)) < len(axes):
        raise ValueError("repeated axis")
    return axes


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
