"""Which variables of an adjoint lead to which, and so which of them can be to blame for a wrong result.

What leads only to what is right did no harm. Where everything that a statement reads is right and what it assigns
is not, it is the first thing to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from minigrad.check.lines import statements
from minigrad.check.sightings import Sighting

__all__ = ["Flow"]


class Flow:
    """The variables of an adjoint, each with those that it was computed from.

    Parameters
    ----------
    sightings
        What is known of each variable, in the order of assignment.
    ends
        The names that the line which returns, or raised, reads. Attributes and elements are results as well.
    """

    def __init__(self, sightings: Sequence[Sighting], ends: Collection[str]) -> None:
        self.sightings = sightings
        self._sources = [set(self._read_by(i)) for i in range(len(sightings))]
        parts = {i for i, s in enumerate(sightings) if set(s.variable) & set(".[")}
        self._ends = parts.union(*(self._latest(name, len(sightings)) for name in ends))
        self._place = {id(s): i for i, s in enumerate(sightings)}

    def relevant(self, stop: Callable[[Sighting], bool] = lambda s: False) -> list[Sighting]:
        """Return the variables that lead to a result, in order, by a way on which the search is not stopped."""
        return self._reached(self._ends, stop)

    def sources(self, s: Sighting) -> list[Sighting]:
        """Return the variables that a variable was computed from."""
        return [self.sightings[i] for i in sorted(self._sources[self._place[id(s)]])]

    def covers(self, s: Sighting) -> bool:
        """Tell whether a variable is right, and so what leads to it is: unless it only passes on what is misnamed."""
        known = s.known
        passed = (x for x in self.sources(s) if x.suspicious and x.known is not None)
        return s.sure and not any(known is not None and x.known.truth is known.truth for x in passed)  # type: ignore[union-attr]

    def before(self, s: Sighting) -> list[Sighting]:
        """Return everything that leads to a variable, in order."""
        return self._reached(self._sources[self._place[id(s)]], lambda _: False)

    def _reached(self, ends: Collection[int], stop: Callable[[Sighting], bool]) -> list[Sighting]:
        todo, seen = list(ends), set(ends)
        while todo:
            i = todo.pop()
            new = set() if stop(self.sightings[i]) else self._sources[i] - seen
            seen |= new
            todo += new
        return [self.sightings[i] for i in sorted(seen)]

    def _read_by(self, i: int) -> Iterator[int]:
        a = self.sightings[i].assignment
        loaded = statements(a.code)[a.line.line].loads
        for name in a.reads:
            yield from self._latest(name, i)
            parts = {s.variable for s in self.sightings if s.variable.startswith((f"{name}.", f"{name}["))}
            for part in parts:
                if part[len(name)] == "[" or part[len(name) + 1 :].partition("[")[0] in loaded:
                    yield from self._latest(part, i)

    def _latest(self, name: str, i: int) -> Iterator[int]:
        """Yield where a name was assigned before, all its leaves; and where the previous turn of a loop assigned it."""
        found = [j for j, s in enumerate(self.sightings) if s.variable == name]
        last = max((j for j in found if j < i), default=None)
        for j in found:
            line = self.sightings[j].assignment.line.line
            if last is not None and j <= last and line == self.sightings[last].assignment.line.line:
                yield j
            elif j >= i and self.sightings[j].repeated:
                yield j
