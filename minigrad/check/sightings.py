"""Each variable of a hand-written adjoint held against what is known to be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.check.forms import form_of
from minigrad.check.truths import Known, Truths
from minigrad.check.watch import Assignment

__all__ = ["Sighting", "sight"]

MOST_TURNS = 8  # of a loop, that are looked at


@dataclass(eq=False)
class Sighting:
    """A variable that a statement assigned, and what is known of its value.

    Attributes
    ----------
    status
        "right": it is a value or a gradient of the forward pass, in some form. "wrong": by its name it should be one
        and is not. "unknown": neither; a person who writes an adjoint is free to compute what the forward did not.
    known, form
        What it is, and how it shows it.
    meant
        What it should be, by its name.
    """

    assignment: Assignment
    status: str
    known: Known | None = None
    form: str = ""
    meant: list[Known] = field(default_factory=list)
    same_as: str | None = None  # a variable or an argument that has the same value already
    repeated: bool = False  # in a loop

    @property
    def variable(self) -> str:
        """The name that the statement assigns to, without the place of a leaf in the value."""
        return self.assignment.name.removesuffix(self.assignment.path)

    @property
    def is_float(self) -> bool:
        """Whether it can be told by its value: an integer can be anything."""
        return np.asarray(self.assignment.value).dtype.kind in "fc"

    @property
    def sure(self) -> bool:
        """Whether it is right, and no accident."""
        return self.status == "right" and not self.suspicious and not self.doubtful and not self.repeated

    @property
    def certain(self) -> bool:
        """Whether it is right, and what it is has a name."""
        return self.sure and self.known is not None and bool(self.known.truth.names)

    @property
    def doubtful(self) -> bool:
        """Whether it shows less than all of something right: its sum, or one of its copies."""
        return self.status == "right" and any(f in self.form for f in ("summed", "one of its copies"))

    @property
    def suspicious(self) -> bool:
        """Whether it could be to blame: it is nothing known, or something known that it is not called, or no news."""
        known = self.known
        misnamed = known is not None and bool(self.meant) and not any(_same(k, known) for k in self.meant)
        name = self.variable.rsplit(".", 1)[-1]
        if known is not None and known.kind == "value" and name.lower().startswith(("d", "grad")) and len(name) > 1:
            misnamed = name not in known.truth.names  # called a gradient
        if self.form and bool(self.meant) and any(c in self.assignment.name for c in ".["):
            misnamed = True  # a gradient that is left in an attribute is a result: its shape counts
        named = self.form == "" and any(_same(k, known) for k in self.meant) if known is not None else False
        alias = self.same_as is not None and not self.assignment.path and not named
        return self.status != "right" or misnamed or alias

    @property
    def text(self) -> str:
        """What is known of it, for the report."""
        if self.status == "right" and self.known is not None:
            same = f", and the same as {self.same_as}" if self.same_as else ""
            return f"is {self.known.text}" + (f" ({self.form})" if self.form else "") + same
        if self.status == "wrong":
            return f"should be {self.meant[0].text} and is not"
        return "is nothing that the forward pass or its gradient has"


def sight(assignments: Sequence[Assignment], truths: Truths, arguments: Mapping[str, Any]) -> list[Sighting]:
    """Return what is known of each variable, in the order of assignment.

    Of a variable that one statement assigns again and again, in a loop, the first value that is not right counts, or
    the last.
    """
    earlier = [(name, np.asarray(x)) for name, x in arguments.items()]
    turns: dict[tuple[int, int, str], list[Assignment]] = {}
    for a in assignments:
        turns.setdefault((a.frame, a.line.line, a.name), []).append(a)
    sightings = [_in_turn(group, truths) for group in turns.values()]
    sightings.sort(key=lambda s: s.assignment.step)
    later: set[str] = set()
    for s in reversed(sightings):  # of a variable that is built up, only the end is what its name says
        if s.assignment.name in later:
            s.meant = []
            s.status = "unknown" if s.status == "wrong" else s.status
        later.add(s.assignment.name)
    for s in sightings:
        value = np.asarray(s.assignment.value)
        if value.dtype.kind == "f" and value.size > 1:
            same = (name for name, x in earlier if form_of(value, x, 1e-9) in ("", "reshaped"))
            s.same_as = next(same, None)
            if s.same_as == s.variable and s.variable in arguments:
                s.same_as = None  # an argument that is cleaned first, and was clean
            earlier.append((s.assignment.name, value))
    return sightings


def _in_turn(group: Sequence[Assignment], truths: Truths) -> Sighting:
    """Return what is known of a variable that one statement assigns again and again."""
    built_up = group[0].name.removesuffix(group[0].path) in group[0].reads
    for a in [] if built_up else group[:MOST_TURNS]:
        s = _sight(a, truths)
        if s.status != "right":
            break
    else:
        s = _sight(group[-1], truths)
    s.repeated = len(group) > 1
    return s


def _sight(a: Assignment, truths: Truths) -> Sighting:
    found = truths.find(a.value)
    meant = truths.meant_by(a.name)
    if meant is None or not isinstance(a.value, (np.ndarray, np.floating)):
        return Sighting(a, "unknown") if found is None else Sighting(a, "right", *found)
    candidates, kind = meant
    values = [(t, t.value if kind == "value" else t.gradient) for t in candidates]
    wanted = [Known(np.asarray(value), t, kind) for t, value in values if value is not None]
    wanted.sort(key=lambda k: k.value.size != np.size(a.value))
    forms = ((k, form_of(a.value, k.value, truths.relative)) for k in wanted)
    own = next(((k, form) for k, form in forms if form is not None), None)
    if own is not None and (found is None or own[1] == "" or found[1] != ""):
        found = own  # the gradient of a sum is that of each term as well
    if found is not None and not _misplaced(a.value, *found, wanted):
        return Sighting(a, "right", *found, meant=wanted)
    return Sighting(a, "wrong" if wanted else "unknown", meant=wanted)


def _misplaced(value: Any, known: Known, form: str, wanted: Sequence[Known]) -> bool:
    """Tell whether a variable has the elements of what it should be, and the shape, but not in the right order."""
    alike = (k for k in wanted if k.truth is known.truth and k.kind == known.kind)
    return form != "" and any(k.value.shape == np.shape(value) for k in alike)


def _same(a: Known, b: Known) -> bool:
    """Tell whether a value is what its name says: of `dx` the whole gradient, of `dx_left` a part of it will do."""
    return a.truth is b.truth and (a.kind == b.kind or (a.kind == "part" and b.kind == "gradient"))
