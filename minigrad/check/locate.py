"""The line of a hand-written adjoint that is wrong, found by experiment.

First each variable is held against what is known to be right. Those that are nothing known are suspects, in the order
of the computation. A suspect is tried: the adjoint is run again with what the variable should be in its place. If
everything then comes out right, its line is the wrong one. Where what it should be is not known, small edits of the
lines in question are tried instead. If neither tells, the line that returns, or the first suspect, is named.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.check.generated import Generated
from minigrad.check.laboratory import Laboratory
from minigrad.check.lines import statements
from minigrad.check.sightings import Sighting, sight
from minigrad.check.subject import Subject
from minigrad.check.truths import Known, Truths, shaped
from minigrad.check.watch import Watch
from minigrad.errors import SourceLine

__all__ = ["WrongLine", "locate"]

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

    @property
    def before(self) -> Sighting | None:
        """The last variable before it that is right."""
        earlier = [
            s for s in self.sightings if s.assignment.line.line < self.line.line and s.status == "right"
        ]
        return earlier[-1] if earlier else None

    def __str__(self) -> str:
        head = (
            f"first wrong line: {self.line}\n    {f'`{self.variable}`' if self.variable else 'it'} {self.why}"
        )
        if self.cure:
            head += f"\n    everything is right with {self.cure}"
        elif self.confirmed:
            head += "\n    everything is right once it is"
        return head


def locate(
    subject: Subject,
    generated: Generated,
    gs: Sequence[Any],
    tolerances: Sequence[float],
    mapping: Mapping[str, str] | None = None,
    relative: float = 1e-7,
    seconds: float = 20.0,
) -> WrongLine | None:
    """Return the line that is wrong; None if the gradients are right or the adjoint cannot be watched.

    Parameters
    ----------
    subject, generated
        What is checked, and the truth about it.
    gs
        Cotangents of the results.
    tolerances
        How far each gradient may be off.
    mapping
        Which variable of the adjoint is the gradient of which variable of the forward, where the names do not say.
    relative
        How well a variable must agree with what it is recognised as.
    seconds
        How long the experiments may take.
    """
    lab = Laboratory(subject, gs, generated.gradients(gs), tolerances, seconds)
    if lab.root is None:
        return None
    gradients, watch, error = lab.run()
    right = lab.right(gradients)
    lab.misshapen = lab.flat(gradients) is None
    if len(right) == len(lab.wanted):
        return None
    truths = Truths(generated.truths, relative, mapping)
    arguments = dict(zip(subject.names, subject.leaves, strict=True)) | ({"g": gs[0]} if len(gs) == 1 else {})
    sightings = sight([a for a in watch.assignments if a.frame == 0], truths, arguments)
    raised = None if error is None else lab.raised_at(error)
    last = raised or _return_line(watch)
    relevant = _relevant(lab, sightings, last)
    suspects = [s for s in relevant if s.suspicious]
    found = _search(lab, relevant, suspects, truths, right, last, raised)
    if found is not None:
        found = found if found.cure else _cured(lab, watch, found)
        found.sightings = sightings
        found.raised = None if error is None else f"{type(error).__name__}: {error}"
    return found


def _search(
    lab: Laboratory,
    relevant: Sequence[Sighting],
    suspects: Sequence[Sighting],
    truths: Truths,
    right: frozenset[int],
    last: SourceLine | None,
    raised: SourceLine | None,
) -> WrongLine | None:
    """Try one kind of experiment after the other: the most telling and the cheapest come first."""
    named = _by_truth(lab, suspects, _by_name, right)
    if named is not None and named.confirmed:
        before = {s.assignment.line.line for s in suspects}
        rivals = sorted(n for n in before if n < named.line.line)
        if rivals:  # the line is wrong because of one that leads to it?
            return _by_edit(lab, relevant, [*rivals, named.line.line], [], 3, named) or named
        return named
    every = sorted(
        {s.assignment.line.line for s in relevant} | set(lab.source.headers() if lab.source else [])
    )
    lines = sorted({s.assignment.line.line for s in suspects})
    ends = [place.line for place in (last,) if place is not None]
    near = sorted(_read_by(relevant, last)) if raised is not None else []
    return (
        _by_edit(lab, relevant, list(dict.fromkeys([*near, *lines[:3], *ends])), [], 3)
        or _confirmed(_by_truth(lab, suspects, lambda s: _by_size(s, truths), right))
        or _by_edit(lab, relevant, [*lines, *ends], every, 4)
        or _confirmed(
            _by_truth(lab, [s for s in relevant if not s.suspicious], lambda s: _by_size(s, truths), right)
        )
        or named
        or _by_elimination(suspects, last, raised)
    )


def _confirmed(found: WrongLine | None) -> WrongLine | None:
    return found if found is not None and found.confirmed else None


def _return_line(watch: Watch) -> SourceLine | None:
    last = [r for r in watch.returns if r.frame == 0]
    return last[-1].line if last else None


def _relevant(lab: Laboratory, sightings: Sequence[Sighting], last: SourceLine | None) -> list[Sighting]:
    """Return the variables that the last line depends on, in order."""
    assert lab.root is not None
    needed: set[str] = set()
    for statement in statements(lab.root).values():
        if last is None or statement.line == last.line:
            needed |= statement.reads
    kept = []
    for s in reversed(sightings):
        a = s.assignment
        name = a.name.removesuffix(a.path)
        if name in needed or (
            name not in a.reads and any(c in name for c in ".[")
        ):  # attributes are results too
            needed |= a.reads
            kept.append(s)
    return kept[::-1]


def _by_truth(
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
            now = lab.right(lab.run({s.assignment.step: value})[0])
            if now > right:
                a = s.assignment
                found = WrongLine(
                    a.line, a.function, a.name, len(now) == len(lab.wanted), f"should be {known.text}", known
                )
                if found.confirmed:
                    return found
                partly = partly or found
    return partly


def _by_name(s: Sighting) -> Iterator[tuple[Known, Any]]:
    """Yield what a variable should be by its name, in any shape and as it has it."""
    value = np.asarray(s.assignment.value)
    for known in s.meant if value.dtype.kind in "fc" else ():
        yield known, known.value.astype(value.dtype)
        for turned in (False, True):
            yield from ((known, x.astype(value.dtype)) for x in shaped(known.value, value, turned))


def _by_size(s: Sighting, truths: Truths) -> Iterator[tuple[Known, Any]]:
    """Yield what a variable could be meant to be: anything of its size."""
    value = np.asarray(s.assignment.value)
    if value.dtype.kind in "fc" and value.ndim:
        others = sorted(truths.known, key=lambda k: k.kind == "part")
        found = (
            (known, candidate.astype(value.dtype))
            for turned in (False, True)
            for known in (*s.meant, *others)
            for candidate in shaped(known.value, value, turned)
        )
        yield from itertools.islice(found, MOST_CANDIDATES)


def _by_edit(
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
    variables = [s.assignment.name for s in relevant if s.assignment.line.line == cure.line]
    place = SourceLine(lab.root.co_filename, cure.line)
    variable = variables[0] if variables else None
    return WrongLine(place, lab.root.co_name, variable, True, "is not what it should be", cure=cure.text)


def _read_by(relevant: Sequence[Sighting], place: SourceLine | None) -> set[int]:
    """Return the lines of the variables that a line reads."""
    root = statements(relevant[0].assignment.code) if relevant else {}
    reads = root[place.line].reads if place is not None and place.line in root else set()
    return {
        s.assignment.line.line for s in relevant if s.assignment.name.removesuffix(s.assignment.path) in reads
    }


def _cured(lab: Laboratory, watch: Watch, found: WrongLine) -> WrongLine:
    """Return the line with an edit that makes everything right; inside a function that it calls, if that is wrong."""
    cure = lab.cure([found.line.line], most=3, seconds=4.0) if found.confirmed else None
    if cure is not None:
        found.cure = cure.text
        return found
    for source in lab.helpers(watch, found.line.line):
        cure = lab.cure([s.lineno for s in source.statements()], most=2, seconds=2.0, source=source)
        if cure is not None:
            code = cure.function.__code__
            place = SourceLine(code.co_filename, cure.line)
            why = f"is not right; {found.function or 'the adjoint'} calls it in line {found.line.line}"
            return WrongLine(place, code.co_name, None, True, why, cure=cure.text)
    return found


def _by_elimination(
    suspects: Sequence[Sighting], last: SourceLine | None, raised: SourceLine | None
) -> WrongLine | None:
    """Name what is left: the first suspect that is an array, or the line that raised or returns."""
    for status in ("wrong", "unknown", "right"):
        for s in suspects:
            a, value = s.assignment, np.asarray(s.assignment.value)
            if (
                s.status == status
                and not a.path
                and value.ndim
                and value.dtype.kind in "fc"
                and np.any(value)
            ):
                return WrongLine(a.line, a.function, a.name, False, s.text)
    if last is None:
        return None
    return WrongLine(
        last, "", None, False, "raised" if raised else "is wrong, and every variable before it is right"
    )
