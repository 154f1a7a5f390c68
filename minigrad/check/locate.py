"""The line of a hand-written adjoint that is wrong, found by experiment.

First each variable is held against what is known to be right. Those that are nothing known are suspects, in the order
of the computation. A suspect is tried: the adjoint is run again with what the variable should be in its place. If
everything then comes out right, its line is the wrong one. Where what it should be is not known, small edits of the
lines in question are tried instead. If neither tells, the line that returns, or the first suspect, is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.check.experiments import WrongLine, by_edit, by_name, by_size, by_truth
from minigrad.check.flow import Flow
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
    example: Laboratory | None = None,
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
    example
        Where the subject is in another shape, the laboratory of the example, in which everything is right.
    """
    lab = Laboratory(subject, gs, generated.gradients(gs), tolerances, seconds, example)
    if lab.root is None:
        return None
    gradients, watch, error = lab.begin()
    right = lab.right(gradients)
    if len(right) == len(lab.wanted):
        return None
    truths = Truths(generated.truths, relative, mapping)
    arguments = dict(zip(subject.names, subject.leaves, strict=True)) | ({"g": gs[0]} if len(gs) == 1 else {})
    sightings = sight([a for a in watch.assignments if a.frame == 0], truths, arguments)
    raised = None if error is None else lab.raised_at(error)
    last = raised or _return_line(watch)
    flow = Flow(sightings, _read_at(lab, last))
    found = _search(lab, flow, truths, right, last, raised, gradients)
    if found is not None:
        found = found if found.cure else _cured(lab, watch, found)
        if found.alone and not found.cure and not _reads_what_is_right(flow, found):
            found.confirmed = False
            found.why += ", which is all that came out wrong: this line, or what it is computed from"
        found.sightings = sightings
        found.raised = None if error is None else f"{type(error).__name__}: {error}"
    return found


def _reads_what_is_right(flow: Flow, found: WrongLine) -> bool:
    """Tell whether all that leads to a variable is right: then its line is wrong, whatever was tried."""
    own = (s for s in flow.sightings if s.assignment.name == found.variable)
    return all(s.sure for here in own for s in flow.sources(here))


def _search(
    lab: Laboratory,
    flow: Flow,
    truths: Truths,
    right: frozenset[int],
    last: SourceLine | None,
    raised: SourceLine | None,
    gradients: Sequence[Any] | None,
) -> WrongLine | None:
    """Try one kind of experiment after the other: the most telling and the cheapest come first."""
    relevant = flow.relevant()
    exposed = flow.relevant(flow.covers)  # what leads only to something right did no harm
    suspects = [s for s in exposed if s.suspicious]
    returned = [id_of(g) for i, g in enumerate(gradients or ()) if i not in right]
    named = by_truth(lab, _with_a_name(exposed, returned), by_name, right)
    ends = [place.line for place in (last,) if place is not None]
    if named is not None and named.confirmed:
        return _or_a_rival(lab, flow, exposed, named, ends)
    arrays = [s for s in suspects if s.is_float]
    wrong = [s for s in arrays if np.any(s.assignment.value)]  # zeros to add to are no reason for a wrong sum
    first = _lines(s for s in arrays if not any(source in wrong for source in _before(s, flow.sources(s))))
    front = [s for s in suspects if s.assignment.line.line in first]
    near = sorted(_read_by(relevant, last)) if raised is not None else []
    lines = _lines(suspects)
    # A right value that is returned as it is is not to blame: the line that returns it should have used it.
    rest = [s for s in relevant if s not in suspects and id_of(s.assignment.value) not in returned]
    misfit = last if gradients is None and raised is None else None  # it returns not one gradient for each argument
    return (
        by_edit(lab, relevant, _once(*near, *first, *([] if any(s.status == "wrong" for s in front) else ends)), [], 2)
        or _confirmed(by_truth(lab, front, lambda s: by_size(s, truths), right))
        or by_edit(lab, relevant, _once(*lines, *ends), _others(lab, flow), 2)
        or by_edit(lab, relevant, _once(*near, *first, *ends), [], 3)
        or _confirmed(by_truth(lab, suspects, lambda s: by_size(s, truths), right))
        or by_edit(lab, relevant, _once(*lines, *ends), [], 4)
        or _confirmed(by_truth(lab, rest, lambda s: by_size(s, truths), right))
        or (WrongLine(misfit, "", None, False, "returns that") if misfit is not None else None)
        or _by_elimination(sorted(front, key=truths.has_multiple), suspects, last, raised, named)
    )


def _or_a_rival(
    lab: Laboratory, flow: Flow, exposed: Sequence[Sighting], named: WrongLine, ends: Sequence[int]
) -> WrongLine:
    """Return the line that is wrong because of one that leads to it, or one that takes it for something else."""
    place = named.line.line
    found = [s for s in exposed if s.assignment.name == named.variable and s.assignment.line.line <= place][-1]
    earlier = [s for s in flow.before(found) if s in exposed and not s.certain]
    lines = [n for n in _lines(earlier) if n < place]
    if found.status == "right" and not found.doubtful:
        lines += [place, *(n for n in _once(*_lines(exposed), *ends) if n > place)]
    if not lines:
        return named
    lines = _once(*lines, place)
    exact = [n for n in lines if lab.reach is not None and lab.reach.is_exact(n)]  # what is right is not its work
    return by_edit(lab, exposed, exact, [], 3, named) or by_edit(lab, exposed, lines, [], 3, named) or named


def _with_a_name(exposed: Sequence[Sighting], returned: Sequence[Any]) -> list[Sighting]:
    """Return the variables whose names say what they should be, and that may not be it."""
    kept = (s for s in exposed if s.suspicious or s.doubtful or id_of(s.assignment.value) in returned)
    return [s for s in kept if s.meant]


def _others(lab: Laboratory, flow: Flow) -> list[int]:
    """Return the lines of all statements but those that assign what leads to no result."""
    idle = set(_lines(flow.sightings)) - set(_lines(flow.relevant()))
    return [s.lineno for s in lab.source.statements() if s.lineno not in idle] if lab.source else []


def _before(s: Sighting, sources: Iterable[Sighting]) -> list[Sighting]:
    """Return the sources that were there when a variable was seen: in a loop each may lead to the other."""
    return [source for source in sources if source.assignment.step < s.assignment.step]


def _lines(sightings: Iterable[Sighting]) -> list[int]:
    return sorted({s.assignment.line.line for s in sightings})


def _once(*lines: int) -> list[int]:
    return list(dict.fromkeys(lines))


def id_of(value: Any) -> Any:
    """Return what tells two values apart."""
    value = np.asarray(value)
    return value.shape, value.dtype, value.tobytes()


def _confirmed(found: WrongLine | None) -> WrongLine | None:
    return found if found is not None and found.confirmed else None


def _return_line(watch: Watch) -> SourceLine | None:
    last = [r for r in watch.returns if r.frame == 0]
    return last[-1].line if last else None


def _read_at(lab: Laboratory, place: SourceLine | None) -> set[str]:
    """Return the names that a line reads; those of every line where none is given."""
    assert lab.root is not None
    found = statements(lab.root).values()
    return set().union(*(s.reads for s in found if place is None or s.line == place.line))


def _read_by(relevant: Sequence[Sighting], place: SourceLine | None) -> set[int]:
    """Return the lines of the variables that a line reads."""
    root = statements(relevant[0].assignment.code) if relevant else {}
    reads = root[place.line].reads if place is not None and place.line in root else set()
    return {s.assignment.line.line for s in relevant if s.assignment.name.removesuffix(s.assignment.path) in reads}


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
    front: Sequence[Sighting],
    suspects: Sequence[Sighting],
    last: SourceLine | None,
    raised: SourceLine | None,
    named: WrongLine | None,
) -> WrongLine | None:
    """Name what is left: the first that is wrong though everything before it is right, or the line that returns.

    What is right under another name is not to blame while there is anything that is not right.
    """
    if named is not None and (not front or named.line.line in _lines(front)):
        return named
    tries = [(front, "wrong"), (front, "unknown"), (suspects, "wrong"), (suspects, "unknown")]
    for group, status in tries if last is not None else [*tries, (front, "right")]:
        for s in group:
            a = s.assignment
            if s.status == status and not a.path and np.ndim(a.value) and np.any(a.value):
                return WrongLine(a.line, a.function, a.name, False, s.text)
    if last is None:
        return None
    return WrongLine(last, "", None, False, "raised" if raised else "is wrong, and every variable before it is right")
