"""The experiments that find a wrong line: the right value in a variable's place, and small edits of a line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minigrad.check.laboratory import Laboratory
from minigrad.check.lines import statements
from minigrad.check.sightings import Sighting
from minigrad.check.truths import Known, Truths, shaped
from minigrad.errors import SourceLine
from minigrad.fingerprint import fingerprint

__all__ = ["WrongLine", "by_edit", "by_name", "by_size", "by_truth"]

MOST_CANDIDATES = 150


@dataclass
class WrongLine:
    """The line that is wrong, and why it is thought so.

    Attributes
    ----------
    line, function, variable
        Where it is, and what it assigns; the variable is None for the line that returns.
    confirmed
        With the right value in place of the variable, or with a small edit, everything comes out right.
    why
        What was found out about it.
    meant
        The right value of the variable, where it is known.
    cure
        The edit that makes everything right.
    sightings
        What is known of every variable of the adjoint, in order.
    raised
        What the adjoint raised, if it did.
    alone
        With the right value in place of the variable only the gradient came right that it is, or is added up to:
        that says nothing about the line.
    """

    line: SourceLine
    function: str
    variable: str | None
    confirmed: bool
    why: str
    meant: Known | None = None
    cure: str | None = None
    sightings: list[Sighting] = field(default_factory=list)
    raised: str | None = None
    alone: bool = False

    @property
    def before(self) -> Sighting | None:
        """The last variable before it that is right."""
        earlier = [s for s in self.sightings if s.assignment.line.line < self.line.line and s.status == "right"]
        return earlier[-1] if earlier else None

    def __str__(self) -> str:
        sure = self.confirmed or self.raised is not None
        found = "first wrong line" if sure else "first wrong line, as a suspicion that no experiment confirmed"
        head = f"{found}: {self.line}\n    {f'`{self.variable}`' if self.variable else 'it'} {self.why}"
        if self.cure:
            head += f"\n    everything is right with {self.cure}"
        elif self.confirmed:
            head += "\n    everything is right once it is"
        return head


def by_truth(
    lab: Laboratory,
    suspects: Sequence[Sighting],
    candidates: Callable[[Sighting], Iterable[tuple[Known, Any]]],
    right: frozenset[int],
) -> WrongLine | None:
    """Put what a variable should be in its place: does everything come out right?"""
    partly: WrongLine | None = None
    for s in suspects:
        for known, value in candidates(s):
            if lab.late:
                return partly
            tried = s.assignment.step, value.shape, fingerprint(value)
            if tried in lab.in_vain:
                continue
            lab.in_vain.add(tried)
            now = lab.right(lab.run({s.assignment.step: value})[0])
            if now > right:
                a = s.assignment
                found = WrongLine(
                    a.line, a.function, a.name, len(now) == len(lab.wanted), f"should be {known.text}", known
                )
                if found.confirmed:
                    found.alone = known.kind != "value" and now - right == {known.truth.slot}
                    return _that_fills(found, s)
                partly = partly or found
    return partly


def _that_fills(found: WrongLine, s: Sighting) -> WrongLine:
    """Return the line that should have written to a buffer of zeros, if the variable is only that."""
    name, code = s.assignment.name, statements(s.assignment.code)
    after = [t for n, t in sorted(code.items()) if n > found.line.line and not t.returns and t.binds <= {name}]
    writers = [t.line for t in after if name in t.reads] or [t.line for t in after]
    if np.any(s.assignment.value) or not writers:
        return found
    return replace(found, line=SourceLine(found.line.file, writers[0]))


def by_name(s: Sighting) -> Iterator[tuple[Known, Any]]:
    """Yield what a variable should be by its name, in any shape and as it has it."""
    value = np.asarray(s.assignment.value)
    for known in s.meant if value.dtype.kind in "fc" else ():
        yield known, known.value.astype(value.dtype)
        for turned in (False, True):
            yield from ((known, x.astype(value.dtype)) for x in shaped(known.value, value, turned))


def by_size(s: Sighting, truths: Truths) -> Iterator[tuple[Known, Any]]:
    """Yield what a variable could be meant to be: anything of its size."""
    value = np.asarray(s.assignment.value)
    if value.dtype.kind in "fc" and value.ndim and not s.assignment.path:
        others = sorted(truths.known, key=lambda k: k.kind == "part")
        found = (
            (known, candidate.astype(value.dtype))
            for turned in (False, True)
            for known in (*s.meant, *others)
            for candidate in shaped(known.value, value, turned)
        )
        yield from itertools.islice(found, MOST_CANDIDATES)


def by_edit(
    lab: Laboratory,
    relevant: Sequence[Sighting],
    lines: Sequence[int],
    others: Sequence[int],
    most: int,
    named: WrongLine | None = None,
) -> WrongLine | None:
    """Edit the lines in small ways: does everything come out right?"""
    cure = lab.cure(lines, [n for n in others if n not in lines], most)
    if cure is None or lab.root is None:
        return None
    if named is not None and named.line.line == cure.line:
        named.cure = cure.text
        return named
    assigned = [s for s in relevant if s.assignment.line.line == cure.line]
    wrong = [s.assignment.name for s in assigned if s.suspicious]  # of a tuple each part may be right: it has too few
    place = SourceLine(lab.root.co_filename, cure.line)
    at = statements(lab.root).get(cure.line)
    whole = [] if at is not None and at.returns else [s.variable for s in assigned]
    variable = next(iter([*wrong, *whole]), None)
    return WrongLine(place, lab.root.co_name, variable, True, "is not what it should be", cure=cure.text)
