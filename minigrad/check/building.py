"""Layers that make their parameters when they first run, as many do that learn the sizes from their input."""

from __future__ import annotations

import copy
from collections.abc import Callable
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
        pass; and lists and counters that grow with every run are as they were before the first.
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
    if not any(first.get(p.path) is p.value for p in places(again)):
        return layer
    _unwind(ready, again, set())
    return ready


def _is_parameter(place: Place) -> bool:
    names = (str(place.key), place.holder.rpartition(".")[2])
    return "param" in names[1].lower() or any(PARAMETERS.search(name.strip("_")) for name in names)


def _unwind(once: Any, twice: Any, seen: set[int]) -> None:
    """Take from lists and counters what each run adds to them: of what has run once, given what has run twice."""
    if id(once) in seen or type(once) is not type(twice):
        return
    seen.add(id(once))
    if isinstance(once, list):
        grown = len(twice) - len(once)
        if 0 < grown <= len(once):
            del once[-grown:]
        pairs = list(zip(range(len(once)), once, twice, strict=False))
    else:
        old, new = (x if isinstance(x, dict) else getattr(x, "__dict__", {}) for x in (once, twice))
        pairs = [] if isinstance(once, type) else [(k, old[k], new[k]) for k in old.keys() & new.keys()]
        for k, x, y in pairs:
            if type(x) is int and type(y) is int and 0 < y - x <= x:
                old[k] = 2 * x - y
    for _, x, y in pairs:
        _unwind(x, y, seen)
