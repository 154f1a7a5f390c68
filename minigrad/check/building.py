"""Layers that make their parameters when they first run, as many do that learn the sizes from their input."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any

from minigrad.check.parameters import PARAMETERS
from minigrad.check.places import Place, places

__all__ = ["built"]


def built(layer: Any, run: Callable[[Any], Any]) -> Any:
    """Return a layer with the parameters that it makes when it first runs; the layer itself if it makes none then.

    Parameters
    ----------
    run
        `run(layer)` runs its forward pass. What a second run makes anew is no parameter but saved for the backward
        pass; and lists that were empty before the first run are empty again, unless parameters are in them.
    """
    ready = copy.deepcopy(layer)
    known = {p.path for p in places(layer)}
    run(ready)
    found = places(ready)
    old = {id(p.value) for p in found if p.path in known}
    made = {p.path: p for p in found if p.path not in known and id(p.value) not in old and _is_parameter(p)}
    again = copy.deepcopy(ready) if made else None
    if again is None:
        return layer
    first = {p.path: p.value for p in places(again) if p.path in made}
    run(again)
    kept = [made[p.path] for p in places(again) if first.get(p.path) is p.value]
    if not kept:
        return layer
    _empty(layer, ready, {id(p.owner) for p in kept}, set())
    return ready


def _is_parameter(place: Place) -> bool:
    names = (str(place.key), place.holder.rpartition(".")[2])
    return "param" in names[1].lower() or any(PARAMETERS.search(name.strip("_")) for name in names)


def _empty(before: Any, after: Any, kept: Collection[int], seen: set[int]) -> None:
    """Empty the lists that were empty before."""
    if id(after) in seen or type(before) is not type(after):
        return
    seen.add(id(after))
    if isinstance(after, list):
        if not before and id(after) not in kept:
            after.clear()
        pairs = list(zip(before, after, strict=False))
    elif isinstance(after, dict):
        pairs = [(before[k], after[k]) for k in before.keys() & after.keys()]
    else:
        old, new = getattr(before, "__dict__", {}), getattr(after, "__dict__", {})
        pairs = [] if isinstance(after, type) else [(old[k], new[k]) for k in old.keys() & new.keys()]
    for x, y in pairs:
        _empty(x, y, kept, seen)
