"""What a check found: as text, as one self-contained page, as JSON."""

from __future__ import annotations

import inspect
import json
import linecache
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.check.comparison import Comparison
from minigrad.check.conditions import Condition, held_of
from minigrad.check.evidence import Evidence, summaries
from minigrad.check.locate import WrongLine
from minigrad.errors import AdjointMismatch

__all__ = ["Listing", "Report"]


@dataclass(frozen=True)
class Listing:
    """The source of a function with its file and first line."""

    name: str
    file: str
    start: int
    lines: tuple[str, ...]

    @classmethod
    def of(cls, f: Any) -> Listing | None:
        """Return the listing of a function, None where its source cannot be read."""
        f = inspect.unwrap(getattr(f, "func", f)) if callable(f) else f
        try:
            lines, start = inspect.getsourcelines(f)
            file = inspect.getsourcefile(f) or ""
        except (OSError, TypeError):
            return None
        return cls(
            getattr(f, "__name__", type(f).__name__),
            file,
            max(start, 1),
            tuple(x.rstrip("\n") for x in lines),
        )


@dataclass
class Report:
    """What was compared, looked at and found. `str(report)` is the text.

    Attributes
    ----------
    title
        What was checked against what.
    reference
        What the right gradients are known from, and why that can be believed.
    comparisons
        For every result and every argument.
    conditions, variations
        What else must hold, and the same comparison in other shapes.
    evidence
        What was measured from the forward function alone.
    culprit
        The first wrong line.
    formula
        The generated formula of what is wrong.
    unchecked
        Arrays of a layer that its result depends on, and of which no gradient was found.
    """

    title: str
    reference: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    variations: list[Condition] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    culprit: WrongLine | None = None
    formula: str = ""
    notes: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    forward: Listing | None = None
    adjoint: Listing | None = None

    @property
    def right(self) -> bool:
        """Whether nothing wrong was found. Remarks are not wrong."""
        return not self.errors and not self.wrong and all(e.agrees for e in self.evidence)

    @property
    def wrong(self) -> list[Comparison | Condition]:
        """The comparisons and conditions that do not hold."""
        conditions = [c for c in (*self.conditions, *self.variations) if not c.holds and not c.remark]
        return [*(c for c in self.comparisons if not c.right), *conditions]

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        if not self.right:
            elsewhere = {id(c) for c in self.variations}
            only = not self.errors and all(id(c) in elsewhere for c in self.wrong)
            return "WRONG in another shape" if only and all(e.agrees for e in self.evidence) else "WRONG"
        return "right" if not self.unchecked else f"right, but not checked for {', '.join(self.unchecked)}"

    @property
    def open_question(self) -> list[str]:
        """What the user is to say of the arrays that were not checked."""
        if not self.unchecked:
            return []
        them, first = ", ".join(map(repr, self.unchecked)), self.unchecked[0]
        return [
            f"no gradient found for {', '.join(self.unchecked)}, on which the result depends",
            f"if that is right, say constants=[{them}]; of a parameter, say where its gradient is: "
            f"gradients={{{first!r}: '...'}}",
        ]

    def require(self) -> Report:
        """Return the report if nothing is wrong.

        Raises
        ------
        AdjointMismatch
            With the report, if something is.
        """
        if not self.right:
            raise AdjointMismatch(self)
        return self

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"{self.title}: {self.verdict}", *(f"  {line}" for line in self.open_question)]
        lines += [f"  {e}" for e in self.errors]
        for c in sorted(self.comparisons, key=lambda c: c.right):
            lines += _indented(str(c))
        if self.culprit is not None:
            lines += ["", *_indented(str(self.culprit)), *_indented(self.neighbours(), 4)]
            if self.formula:
                lines += ["  the generated adjoint computes it as", *_indented(self.formula, 6)]
        failed = [c for c in (*self.conditions, *self.variations) if not c.holds]
        if failed:
            lines += [
                "",
                *(line for c in failed for line in _indented(("remark, " if c.remark else "") + str(c))),
            ]
        if self.conditions:
            lines += ["", f"  {held_of(self.conditions)}"]
        if self.variations:
            right = sum(c.holds for c in self.variations)
            lines.append(f"  right in {right} of {len(self.variations)} other shapes, made from the example")
        if self.reference:
            lines += _indented(f"reference: {self.reference}")
        lines += [line for text in summaries(self.evidence) for line in _indented(text)]
        lines += [line for n in self.notes for line in _indented(f"note: {n}")]
        return lines

    def remarks(self) -> dict[int, str]:
        """Return what is known of the variables of the adjoint, by line."""
        sightings = self.culprit.sightings if self.culprit is not None else []
        found: dict[int, dict[str, str]] = {}
        for s in sightings:
            a, meant = s.assignment, s.meant[0].kind if s.meant else ""
            if s.status == "unknown" and np.ndim(a.value) == 0:
                continue  # a count, an index
            # A value of the forward that is changed in place keeps its name: that it is another one says nothing.
            if (s.status != "wrong" or meant != "value") and s.text != f"is {a.name} of the forward":
                found.setdefault(a.line.line, {})[a.name] = s.text
        return {
            line: "; ".join(texts.values() if len(texts) < 2 else (f"{name} {text}" for name, text in texts.items()))
            for line, texts in found.items()
        }

    def neighbours(self, around: int = 2) -> str:
        """Return the lines around the wrong one, each with what is known of what it assigns."""
        if self.culprit is None or self.adjoint is None:
            return ""
        wrong, known = self.culprit.line.line, self.remarks()
        lines = dict(enumerate(self.adjoint.lines, self.adjoint.start))
        if not self.is_marked(wrong):  # it is in a function that the adjoint calls
            known, lines = {}, dict(enumerate(map(str.rstrip, linecache.getlines(self.culprit.line.file)), 1))
        rows = []
        for n in range(wrong - around, wrong + around + 1):
            mark = ">" if n == wrong else " "
            what = f"    # {known[n]}" if n in known and n != wrong else ""
            rows += [f"{mark} {n:4} {lines[n]}{what}"] if n in lines else []
        return "\n".join(rows)

    def is_marked(self, n: int) -> bool:
        """Tell whether a line of the listing of the adjoint is the wrong one."""
        listing, culprit = self.adjoint, self.culprit
        if listing is None or culprit is None or culprit.line.line != n:
            return False
        return culprit.line.file == listing.file and 0 <= n - listing.start < len(listing.lines)

    def as_dict(self) -> dict[str, Any]:
        """Return what `json` can write."""
        culprit = self.culprit
        return {
            "title": self.title,
            "right": self.right,
            "not_checked": self.unchecked,
            "errors": self.errors,
            "reference": self.reference,
            "comparisons": [_comparison(c) for c in self.comparisons],
            "conditions": [
                {**vars(c), "text": "" if c.holds else c.text} for c in (*self.conditions, *self.variations)
            ],
            "evidence": [
                {
                    "name": e.name,
                    "method": e.method,
                    "why": e.why,
                    "agrees": e.agrees,
                    "decided": e.decided,
                    "pairs": [list(map(_number, p)) for p in e.pairs],
                    "chance_of_a_false_pass": _number(e.chance()),
                }
                for e in self.evidence
            ],
            "wrong_line": None
            if culprit is None
            else {
                "file": culprit.line.file,
                "line": culprit.line.line,
                "text": culprit.line.text,
                "variable": culprit.variable,
                "why": culprit.why,
                "confirmed": culprit.confirmed,
                "cure": culprit.cure,
                "raised": culprit.raised,
            },
            "formula": self.formula,
            "notes": self.notes,
        }

    def json(self, path: str | Path | None = None) -> str:
        """Return the report as JSON, and write it to a file if there is a path."""
        text = json.dumps(self.as_dict(), indent=1, allow_nan=False, default=_plain)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def html(self, path: str | Path | None = None) -> str:
        """Return the report as one self-contained page, and write it to a file if there is a path."""
        from minigrad.check.page import page

        text = page(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def _indented(text: str, by: int = 2) -> list[str]:
    return [" " * by + line if line else "" for line in text.splitlines()]


def _plain(x: Any) -> Any:
    """Return a number or a truth value of NumPy as Python's."""
    return x.item()


def _number(x: Any) -> Any:
    """Return a number that JSON has: a string for NaN and infinity."""
    x = x.real if isinstance(x, complex) else float(x)
    return x if math.isfinite(x) else str(x)


def _comparison(c: Comparison) -> dict[str, Any]:
    found: dict[str, Any] = {
        "result": c.result,
        "argument": c.name,
        "right": c.right,
        "error": _number(c.error),
        "tolerance": _number(c.tolerance),
        "shape": list(np.shape(c.wanted)),
        "got_shape": None if c.got is None else list(np.shape(c.got)),
        "diagnosis": c.diagnosis,
    }
    if c.index is not None:
        found |= {
            "index": list(c.index),
            "got": _number(complex(c.got[c.index])),
            "expected": _number(complex(c.wanted[c.index])),
            "ratio": None if c.ratio is None else _number(c.ratio),
        }
    return found
