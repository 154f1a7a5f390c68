"""The line of a hand-written adjoint that is wrong, found by experiment.

First each variable is held against what is known to be right. Those that are nothing known are suspects, in the order
of the computation. A suspect is tried: the adjoint is run again with what the variable should be in its place. If
everything then comes out right, its line is the wrong one. Where what it should be is not known, small edits of the
lines in question are tried instead. If neither tells, the line that returns, or the first suspect, is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.check.experiments import WrongLine, by_edit, by_name, by_size, by_truth
from minigrad.check.generated import Generated
from minigrad.check.laboratory import Laboratory
from minigrad.check.lines import statements
from minigrad.check.sightings import Sighting, sight
from minigrad.check.subject import Subject
from minigrad.check.truths import Truths
from minigrad.check.watch import Watch
from minigrad.errors import SourceLine

__all__ = ["WrongLine", "locate"]


def locate(
    subject: Subject,
    generated: Generated,
    gs: Sequence[Any],
    tolerances: Sequence[float],
    mapping: Mapping[str, str] | None = None,
    relative: float = 1e-7,
    seconds: float = 10.0,
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
    found = _search(lab, relevant, suspects, truths, right, last, raised, gradients)
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
    gradients: Sequence[Any] | None,
) -> WrongLine | None:
    """Try one kind of experiment after the other: the most telling and the cheapest come first."""
    named = by_truth(lab, suspects, by_name, right)
    if named is not None and named.confirmed:
        before = {s.assignment.line.line for s in suspects}
        rivals = sorted(n for n in before if n < named.line.line)
        if rivals:  # the line is wrong because of one that leads to it?
            return by_edit(lab, relevant, [*rivals, named.line.line], [], 3, named) or named
        return named
    every = sorted(
        {s.assignment.line.line for s in relevant} | set(lab.source.headers() if lab.source else [])
    )
    lines = sorted({s.assignment.line.line for s in suspects})
    ends = [place.line for place in (last,) if place is not None]
    near = sorted(_read_by(relevant, last)) if raised is not None else []
    # A right value that is returned as it is is not to blame: the line that returns it should have used it.
    returned = [id_of(g) for g in gradients or ()]
    rest = [s for s in relevant if not s.suspicious and id_of(s.assignment.value) not in returned]
    return (
        by_edit(lab, relevant, list(dict.fromkeys([*near, *lines[:3], *ends])), [], 3)
        or _confirmed(by_truth(lab, suspects, lambda s: by_size(s, truths), right))
        or by_edit(lab, relevant, [*lines, *ends], every, 4)
        or _confirmed(by_truth(lab, rest, lambda s: by_size(s, truths), right))
        or named
        or _by_elimination(suspects, last, raised)
    )


def id_of(value: Any) -> Any:
    """Return what tells two values apart."""
    value = np.asarray(value)
    return value.shape, value.dtype, value.tobytes()


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
