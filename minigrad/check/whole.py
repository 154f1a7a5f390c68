"""Whole gradients from values alone, for functions that cannot be traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.check.differences import Line, complex_step, sweep
from minigrad.check.evidence import measure
from minigrad.check.subject import Subject

if TYPE_CHECKING:
    from minigrad.check.reference import Reference
    from minigrad.check.report import Report

__all__ = ["measured_gradients"]

MOST_ELEMENTS = 300


def measured_gradients(subject: Subject, reference: Reference, report: Report) -> None:
    """Fill in the reference: each element of each gradient measured, or if there are too many, what the adjoint says.

    Then the adjoint's gradients are held against measurements along random directions only.
    """
    try:
        with np.errstate(all="ignore"):
            got = subject.by_leaf(
                subject.gradients(
                    [np.asarray(g).astype(x.dtype) for g, x in zip(reference.gs, subject.out, strict=True)]
                )
            )
    except Exception:  # reported when it is compared
        got = [None] * len(subject.names)
    zeros = [np.zeros(np.shape(x), np.asarray(x).dtype) for x in subject.leaves]
    gradients = [z if g is None or np.shape(g) != z.shape else np.asarray(g) for g, z in zip(got, zeros, strict=True)]
    report.evidence = measure(subject, gradients, reference.gs, reference.noise, np.random.default_rng(2))
    small = sum(z.size for z in zeros) <= MOST_ELEMENTS
    reference.wanted = gradients
    if small:
        measured = [_measured(subject, reference.gs, i) for i in range(len(zeros))]
        reference.wanted = [gradient for gradient, _ in measured]
        reference.slack = max(error for _, error in measured)
    if not small:
        report.notes.append("too many elements to measure each: compared along random directions only")


def _measured(subject: Subject, gs: list[Any], which: int) -> tuple[Any, float]:
    """Return the gradient of one leaf, an element at a time, and how far an element may be off."""
    worst = 0.0
    x = np.asarray(subject.leaves[which])
    found = np.zeros(x.shape, np.complex128 if np.iscomplexobj(x) else np.float64)
    rest = [np.zeros(np.shape(y), np.asarray(y).dtype) for y in subject.leaves]
    for index in np.ndindex(*x.shape):
        for unit in (1, 1j) if np.iscomplexobj(x) else (1,):
            direction: list[Any] = list(rest)
            direction[which] = np.zeros(x.shape, found.dtype)
            direction[which][index] = unit
            line = Line(subject.run, subject.leaves, direction, gs)
            slope = sweep(line)
            try:
                exact = complex_step(line)
                close = abs(exact - slope.value) <= 3 * slope.error + 1e-6 * abs(exact)
            except ValueError:
                exact, close = 0.0, False
            value = exact if close else slope.value
            worst = worst if close else max(worst, slope.error)
            found[index] = found[index] + (value if unit == 1 else -1j * value)
    return found, worst
