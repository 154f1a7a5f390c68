"""Experiments on a hand-written adjoint: it is run again with another value in a variable, or with an edited line."""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from minigrad.check.changes import CHANGES
from minigrad.check.comparison import compare
from minigrad.check.edits import Edit, Source, edited
from minigrad.check.lines import code_of, first_line
from minigrad.check.reach import Reach
from minigrad.check.subject import Subject
from minigrad.check.watch import Watch
from minigrad.errors import SourceLine

__all__ = ["Laboratory"]


class Laboratory:
    """Runs an adjoint again and again, and tells which of its gradients are right.

    Parameters
    ----------
    subject, gs
        What is run, and for which cotangents.
    wanted, tolerances
        The right gradients, and how far each may be off.
    seconds
        How long the experiments may take in all, in time of this thread.
    example
        The laboratory of the example, if this one is of another shape: an edit must keep everything right there.
    """

    def __init__(
        self,
        subject: Subject,
        gs: Sequence[Any],
        wanted: Sequence[Any],
        tolerances: Sequence[float],
        seconds: float,
        example: Laboratory | None = None,
    ) -> None:
        self.subject = subject
        self.gs = gs
        self.example = example
        self.wanted = wanted
        self.tolerances = tolerances
        self.root = code_of(subject.shown[1])
        self.deadline = time.thread_time() + seconds
        self.source = _source(subject.shown[1])
        self.patience = 1.0  # how long an edited adjoint may take
        self.misshapen = False  # the adjoint raises, or a gradient has a wrong shape
        self.reach: Reach | None = None
        self.in_vain: set[tuple[Any, ...]] = set()  # experiments that need no second try

    @property
    def late(self) -> bool:
        """Whether the time for experiments is over."""
        return time.thread_time() > self.deadline

    def begin(self) -> tuple[list[Any] | None, Watch, Exception | None]:
        """Run the adjoint as it is, and get ready to tell what depends on which line."""
        gradients, watch, error = self.run()
        self.misshapen = self.flat(gradients) is None
        if gradients is not None and self.root is not None:
            wrong = set(range(len(self.wanted))) - self.right(gradients)
            self.reach = Reach(self.root, watch, gradients, wrong, lambda changes: self.run(changes)[0])
        return gradients, watch, error

    def run(self, changes: Mapping[int, Any] | None = None) -> tuple[list[Any] | None, Watch, Exception | None]:
        """Return the gradients (None if the adjoint raised), what was seen, and what was raised."""
        watch, start = Watch(self.root, dict(changes or {})), time.thread_time()
        try:
            with np.errstate(all="ignore"):
                found = self.subject.by_leaf(watch.run(lambda: self.subject.gradients(self.gs)))
        except Exception as error:  # whatever the adjoint raises is an answer
            return None, watch, error
        self.patience = 0.1 + 10 * (time.thread_time() - start)
        return found, watch, None

    def right(self, gradients: Sequence[Any] | None) -> frozenset[int]:
        """Return which leaves have the right gradient."""
        if gradients is None:
            return frozenset()
        return frozenset(
            i
            for i, (g, w, t) in enumerate(zip(gradients, self.wanted, self.tolerances, strict=True))
            if compare("", "", g, w, t).right
        )

    def gradients_with(self, edit: Edit) -> list[Any] | None:
        """Return the gradients with an edit of the adjoint or of a function that it calls, None if it raises."""
        with edited(edit.function, edit), np.errstate(all="ignore"), _patience(edit.code, self.patience):
            try:
                return self.subject.by_leaf(self.subject.gradients(self.gs))
            except Exception:  # most edits make no sense
                return None

    def cure(
        self,
        lines: Sequence[int],
        others: Sequence[int] = (),
        most: int = max(CHANGES),
        seconds: float = math.inf,
        source: Source | None = None,
    ) -> Edit | None:
        """Return the simplest edit of one of the lines with which everything is right, in the order of the lines.

        Of the other lines only what takes away or exchanges something is tried, after the first lines. Edits that
        cost more than `most` are left out, and so is what takes longer than this. The lines are the adjoint's, or
        those of another source.
        """
        source = source or self.source
        deadline = min(self.deadline, time.thread_time() + seconds)
        if source is None:
            return None
        most = min(most, 3) if self.misshapen else most
        for cost in range(1, most + 1):
            for line in (*lines, *(others if cost <= 2 else ())):
                tried = source.function.__code__, line, cost
                if tried in self.in_vain or (source is self.source and not self.can_help(line)):
                    continue
                for edit in source.edits(line, cost):
                    if time.thread_time() > deadline:
                        return None
                    if edit.number and self.misshapen:
                        continue  # no number makes a wrong shape right
                    cure = self._with_its_number(edit, simple=cost <= 2) if edit.number else edit
                    if cure is not None and self._is_right_with(cure):
                        return cure
                self.in_vain.add(tried)
        return None

    def can_help(self, line: int) -> bool:
        """Return False only if something wrong does not depend on a line, so that nothing done to it can help."""
        return self.reach is None or self.reach.can_help(line)

    def _is_right_with(self, edit: Edit) -> bool:
        """Tell whether everything is right with an edit, in the example too."""
        right = len(self.right(self.gradients_with(edit))) == len(self.wanted)
        return right and (self.example is None or self.example._is_right_with(edit))

    def helpers(self, watch: Watch, line: int) -> list[Source]:
        """Return the sources of the user's functions that a line of the adjoint has called, in the order they ended."""
        codes = dict.fromkeys(r.code for r in watch.returns if r.frame > 0 and r.caller == line)
        functions = [f for code in codes for f in gc.get_referrers(code) if isinstance(f, FunctionType)]
        sources = [_source(f) for f in functions if f.__code__ in codes]
        return [s for s in sources if s is not None]

    def _with_its_number(self, edit: Edit, simple: bool) -> Edit | None:
        """Return an edit with the number that makes the gradients right, if they depend on it in a straight line.

        A simple number has few digits. One that has not could make up for a size that another line forgot.
        """
        assert edit.number is not None
        at_one, two = self.flat(self.gradients_with(edit)), edit.number(2.0)
        at_two = None if two is None or at_one is None else self.flat(self.gradients_with(two))
        if at_one is None or at_two is None:
            return None
        with np.errstate(all="ignore"):
            slope, missing = at_two - at_one, self.flat(self.wanted) - at_one
            c = 1 + np.vdot(slope, missing).real / np.vdot(slope, slope).real
            fits = np.all(np.abs(missing - (c - 1) * slope) <= 1 + 1e-6 * np.max(np.abs(missing), initial=0))
        if not np.isfinite(c) or not fits:
            return None
        candidates = (round(c), round(c, 6), *(() if simple else (round(3 * c) / 3, c)))
        near = [n for n in candidates if abs(n - c) <= 1e-9 * abs(c)]
        return edit.number(float(near[0])) if near else None

    def flat(self, gradients: Sequence[Any] | None) -> Any:
        """Return all gradients as one array, each in units of its tolerance; None if a shape is wrong."""
        if gradients is None:
            return None
        pairs = list(zip(gradients, self.wanted, strict=True))
        if any(g is None or np.shape(g) != np.shape(w) for g, w in pairs):
            return None
        return np.concatenate([np.ravel(np.asarray(g)) / t for g, t in zip(gradients, self.tolerances, strict=True)])

    def raised_at(self, error: BaseException) -> SourceLine | None:
        """Return the line of the adjoint itself at which something was raised."""
        found, trace = None, error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code is self.root:
                return SourceLine(code.co_filename, first_line(code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        return found


class _TooLong(Exception):
    """An edit has made a loop that does not end."""


@contextmanager
def _patience(code: CodeType, seconds: float) -> Iterator[None]:
    """Within this context a function is interrupted that takes longer than this."""
    end, before = time.thread_time() + seconds, sys.gettrace()

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        if time.thread_time() > end:
            raise _TooLong
        return line

    sys.settrace(lambda frame, event, arg: line if frame.f_code is code else None)
    try:
        yield
    finally:
        sys.settrace(before)


def _source(function: Any) -> Source | None:
    try:
        return Source(function)
    except LookupError:
        return None
