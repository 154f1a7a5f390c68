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


@dataclass
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

    @property
    def suspicious(self) -> bool:
        """Whether it could be to blame: it is nothing known, or something known that it is not called, or no news."""
        known = self.known
        misnamed = known is not None and bool(self.meant) and not any(_same(k, known) for k in self.meant)
        name = self.assignment.name.rsplit(".", 1)[-1].lower()
        if known is not None and known.kind == "value" and name.startswith(("d", "grad")) and len(name) > 1:
            misnamed = True  # called a gradient
        if self.form and bool(self.meant) and any(c in self.assignment.name for c in ".["):
            misnamed = True  # a gradient that is left in an attribute is a result: its shape counts
        return self.status != "right" or misnamed or self.same_as is not None

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

    Of a variable that one statement assigns again and again, in a loop, only the last value counts.
    """
    earlier = [(name, np.asarray(x)) for name, x in arguments.items()]
    last: dict[tuple[int, int, str], Assignment] = {}
    for a in assignments:
        key = (a.frame, a.line.line, a.name)
        last.pop(key, None)
        last[key] = a
    sightings = [_sight(a, truths) for a in last.values()]
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
            earlier.append((s.assignment.name, value))
    return sightings


def _sight(a: Assignment, truths: Truths) -> Sighting:
    found = truths.find(a.value)
    meant = truths.meant_by(a.name)
    if meant is None or not isinstance(a.value, (np.ndarray, np.floating)):
        return Sighting(a, "unknown") if found is None else Sighting(a, "right", *found)
    candidates, kind = meant
    values = [(t, t.value if kind == "value" else t.gradient) for t in candidates]
    wanted = [Known(np.asarray(value), t, kind) for t, value in values if value is not None]
    wanted.sort(key=lambda k: k.value.size != np.size(a.value))
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
