"""Arithmetic on basic indices, which NumPy answers with views: integers, slices, None and Ellipsis."""

from __future__ import annotations

from typing import Any

from minigrad.shapes import Shape

__all__ = ["are_apart", "as_index", "composed", "in_full", "is_whole", "same"]

Item = int | range | None


def is_whole(index: Any) -> bool:
    """Tell whether an index takes everything as it is: x[...], x[:, :]."""
    return all(item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in _items(index))


def composed(shape: Shape, first: Any, second: Any) -> tuple[Any, ...] | None:
    """Return the index for which `x[index]` is `x[first][second]`, x being of this shape; None if there is none."""
    is_array = Ellipsis in [i for i in _items(second) if not isinstance(i, slice)]  # x[1, ...] is one, x[1] is not
    if is_whole(second):
        return tuple(i for i in _items(first) if is_array or second != () or i is not Ellipsis)
    if is_whole(first):
        return _items(second)
    outer = in_full(shape, first)
    inner = iter(in_full(tuple(1 if i is None else len(i) for i in outer if not isinstance(i, int)), second))
    index: list[Any] = []
    for item in outer:
        if isinstance(item, int):
            index.append(item)
            continue
        while (then := next(inner)) is None:
            index.append(None)
        if item is not None:
            index.append(item[then] if isinstance(then, int) else _range_of(item, then))
        elif isinstance(then, range):
            if not then:
                return None  # nothing of an axis that is new
            index.append(None)
    index += inner  # new axes at the end
    found = as_index(shape, index)
    return (*found, ...) if is_array and all(isinstance(i, int) for i in found) else found


def in_full(shape: Shape, index: Any) -> list[Item]:
    """Return for each axis the position or the positions that an index takes, and None for each new axis."""
    items = list(_items(index))
    unnamed = len(shape) - sum(item is not None and item is not Ellipsis for item in items)
    place = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    items[place : place + 1] = [slice(None)] * unnamed
    lengths = iter(shape)
    return [None if item is None else range(next(lengths))[item] for item in items]


def as_index(shape: Shape, items: list[Item]) -> tuple[Any, ...]:
    """Return the index that `in_full` wrote in full."""
    lengths = iter(shape)
    index = [None if item is None else _as_slice(item, next(lengths)) for item in items]
    while index and isinstance(index[-1], slice) and index[-1] == slice(None):
        index.pop()
    return tuple(index)


def same(shape: Shape, one: Any, other: Any) -> bool:
    """Tell whether two indices into an array of this shape take the same: x[2] and x[2, :] do."""
    return in_full(shape, one) == in_full(shape, other)


def are_apart(shape: Shape, one: Any, other: Any) -> bool:
    """Tell whether two indices into an array of this shape have no element in common."""
    pairs = zip(*([i for i in in_full(shape, x) if i is not None] for x in (one, other)), strict=True)
    return any(_positions(a).isdisjoint(_positions(b)) for a, b in pairs)


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _range_of(positions: range, taken: range) -> range:
    """Return positions[taken]; a slice cannot say each range that goes down."""
    start, step = positions.start + taken.start * positions.step, positions.step * taken.step
    return range(start, start + len(taken) * step, step)


def _as_slice(item: int | range, length: int) -> int | slice:
    if isinstance(item, int):
        return item
    if not item:
        return slice(0, 0)
    stop = item[-1] + item.step
    step = None if item.step == 1 else item.step
    if item.step > 0:
        return slice(item.start or None, None if item[-1] + item.step >= length else stop, step)
    return slice(None if item.start == length - 1 else item.start, None if stop < 0 else stop, step)


def _positions(item: Item) -> set[int]:
    return {item} if isinstance(item, int) else set(item or ())
