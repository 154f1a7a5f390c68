"""Writing through views: what becomes of the array whose memory a view shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.op import Op
from minigrad.rules.index import assign, getitem, is_basic, split_index
from minigrad.shapes import shape_of
from minigrad.slices import composed

__all__ = ["Link", "Step", "is_already_there", "steps_to", "written"]

Step = tuple[Op, dict[str, Any]]
"""An op that gives a view, and its parameters."""

Link = tuple["Link | None", Op, dict[str, Any]]
"""How a view was made: the link of what it is a view of (None: of the base), the op, and its parameters.

Views are made often and written to rarely, so that the steps are put together when they are needed.
"""


def steps_to(base: Any, link: Link | None) -> tuple[Step, ...]:
    """Return the steps that lead from a base to a view."""
    made: list[Step] = []
    while link is not None:
        link, op, params = link
        made.append((op, params))
    steps: tuple[Step, ...] = ()
    for op, params in reversed(made):
        steps = joined(base, steps, op, params)
    return steps


def joined(base: Any, steps: tuple[Step, ...], op: Op, params: dict[str, Any]) -> tuple[Step, ...]:
    """Return the steps from a base to a view of a view; a part of a part is one step."""
    if steps and steps[-1][0] is op is getitem:
        *before, (_, last) = steps
        shape = base.shape
        for through, how in before:
            shape = through.function(np.broadcast_to(0, shape), **how).shape
        index = composed(shape, last["index"], params["index"])
        if index is not None:
            return (*before, (op, {"index": index}))
    return (*steps, (op, params))


def written(base: Any, steps: tuple[Step, ...], index: Any, value: Any) -> Any:
    """Return the base after `view[index] = value`, the view being what the steps make of the base."""
    if is_basic(index):
        *before, (_, params) = joined(base, steps, getitem, {"index": index})
        steps, index = tuple(before), params["index"]
    through = _written_through(base, steps, index, value)
    return _written_at(base, steps, index, value) if through is None else through


def _written_through(x: Any, steps: tuple[Step, ...], index: Any, value: Any) -> Any:
    """Do each step, write, and undo the steps in turn; None if one cannot be undone."""
    if not steps:
        template, arrays = split_index(index)
        return assign(x, value, *arrays, index=template)
    (op, params), *rest = steps
    part = op(x, **params)
    if op is not getitem and (op.rules[0] is None or part.size != x.size):
        return None
    inside = _written_through(part, tuple(rest), index, value)
    if inside is None or op is getitem:
        return None if inside is None else assign(x, inside, index=split_index(params["index"])[0])
    rule = op.rules[0]  # a view that shows each element once is undone by its adjoint
    return rule.function(inside, *rule.fetch((x,), part, params, 0))  # type: ignore[union-attr]


def _written_at(base: Any, steps: tuple[Step, ...], index: Any, value: Any) -> Any:
    """Write where the elements of the view lie in the base, found by looking at positions through the view."""
    positions = np.arange(base.size).reshape(base.shape)
    for op, params in steps:
        positions = op.function(positions, **params)
    places = np.array(positions[index])
    positions[index] = np.broadcast_to(0, shape_of(value))  # NumPy says what does not fit
    where = np.unravel_index(places, base.shape) if base.ndim else ()
    return assign(base, value, *map(np.asarray, where), index=split_index(tuple(where))[0])


def is_already_there(value: Any, base: Any, link: Link | None, index: Any) -> bool:
    """Tell whether a value is the very view it is assigned to: the second half of `t[i] += x` changes nothing."""
    if getattr(value, "_base", None) is not base or not is_basic(index):
        return False
    before, op, params = value._link
    return before is link and op is getitem and bool(params["index"] == index)
