"""The checks that users call for plain functions: check_gradients, check_adjoint, compare_adjoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.comparison import Comparison, compare, tolerance_of
from minigrad.check.conditions import Condition, conditions
from minigrad.check.diagnosis import Context, diagnose
from minigrad.check.evidence import Evidence, measure
from minigrad.check.formula import formula_of
from minigrad.check.generated import Generated
from minigrad.check.locate import locate
from minigrad.check.report import Listing, Report
from minigrad.check.subject import Subject, name_of
from minigrad.check.variations import variations
from minigrad.check.whole import measured_gradients

__all__ = ["check_adjoint", "check_gradients", "compare_adjoints"]

SEED = 1


def check_gradients(
    f: Callable[..., Any], *args: Any, argnums: Sequence[int] | None = None, **kwargs: Any
) -> Report:
    """Check the generated gradient of a function against derivatives that are measured from its values alone.

    Parameters
    ----------
    f
        A function of arrays and trees that returns an array or a tree of arrays. Nothing need be registered.
    *args, **kwargs
        An example of its arguments. The gradients of the positional arguments that are float arrays, or trees of
        them, are checked, or of those that `argnums` names.

    Returns
    -------
    Report
        What was measured, how, and with which probability an error would pass.

    Raises
    ------
    AdjointMismatch
        If a gradient is wrong. `error.report` is the report.
    MinigradError
        If the function cannot be differentiated.
    """
    subject = Subject.of(f, None, args, kwargs, argnums)
    report = Report(f"the generated gradient of {name_of(f)}", forward=Listing.of(f))
    reference = Reference.of(subject)
    assert reference is not None
    report.evidence = reference.evidence
    report.reference = "values of the function: the complex step where it is analytic, else differences over many steps"
    _again(subject, report)
    return report.require()


def check_adjoint(
    forward: Callable[..., Any],
    adjoint: Callable[..., Any],
    *args: Any,
    argnums: Sequence[int] | None = None,
    names: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Report:
    """Check an adjoint that was written by hand, or that comes from somewhere else, in every way there is.

    Its values are held against the generated adjoint, and that against derivatives measured from values of the
    forward function alone. If the forward function cannot be traced (it calls a C library, or another framework), the
    measured derivatives are the reference. Besides, the adjoint must give the same twice, be linear, change nothing,
    return its own memory in the right dtypes, take incoming gradients of any layout, and be right in other shapes.

    Parameters
    ----------
    forward
        `forward(*args, **kwargs)` returns an array or a tree of arrays.
    adjoint
        `adjoint(g, *args, **kwargs)` returns one gradient per positional argument that is a float array, or a tree
        of them: a tuple, or the gradient itself if there is one. None stands for zero.
    argnums
        Which positional arguments it returns gradients for, if not for all of them.
    names
        Which local variable of the adjoint is the gradient of which variable of the forward, where their names do
        not say: `{"delta": "scores"}`.

    Returns
    -------
    Report

    Raises
    ------
    AdjointMismatch
        If anything is wrong. Its message is the report: what is off, what it looks like, and the first wrong line.
    """
    subject = Subject.of(forward, adjoint, args, kwargs, argnums)
    return examine(subject, names).require()


def compare_adjoints(
    forward: Callable[..., Any],
    adjoint: Callable[..., Any],
    *args: Any,
    argnums: Sequence[int] | None = None,
    names: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> Report:
    """Compare a hand-written adjoint with the generated one, variable by variable, and name the first wrong line.

    As `check_adjoint`, without the measurements, the conditions and the other shapes.

    Raises
    ------
    AdjointMismatch
        If a gradient is wrong: with the first wrong line, its neighbours, and the generated formula.
    MinigradError
        If the forward function cannot be differentiated.
    """
    subject = Subject.of(forward, adjoint, args, kwargs, argnums)
    report = Report(_title(subject), forward=Listing.of(forward), adjoint=Listing.of(adjoint))
    reference = Reference.of(subject, measured=False)
    assert reference is not None
    report.reference = "the generated adjoint"
    compare_with(subject, reference, report, names)
    return report.require()


@dataclass
class Reference:
    """The right gradients of a subject, and what they are known from."""

    generated: Generated | None
    gs: list[Any]
    wanted: list[Any]
    noise: list[float]  # in machine epsilons
    evidence: list[Evidence]
    why_not: str = ""

    @classmethod
    def of(cls, subject: Subject, measured: bool = True, must: bool = True) -> Reference | None:
        """Return the reference, with random incoming gradients; None if the function cannot be traced and need not."""
        rng = np.random.default_rng(SEED)
        wide = widened(subject)
        gs = wide.random_cotangents(rng)
        try:
            generated = Generated(wide)
        except Exception as error:  # whatever the function raises when it meets a Tensor
            if must:
                raise
            return cls(None, gs, [], [0.0] * len(subject.names), [], _first_line(error))
        wanted = generated.gradients(gs)
        noise = generated.noise(gs, rng)
        evidence: list[Evidence] = []
        if measured:
            eps = float(np.finfo(np.float64).eps)
            evidence = measure(wide, wanted, gs, [n * eps for n in noise], rng)
        return cls(generated, gs, wanted, noise, evidence)

    def tolerances(self, subject: Subject) -> list[float]:
        """Return how far the gradients may be off that were computed in the subject's precision."""
        return [
            tolerance_of(w, n, np.asarray(x).dtype)
            for w, n, x in zip(self.wanted, self.noise, subject.leaves, strict=True)
        ]


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def widened(subject: Subject) -> Subject:
    """Return the subject in float64, if its functions can be computed in it; otherwise the subject itself."""
    if all(np.asarray(x).dtype in (np.float64, np.complex128) for x in subject.leaves):
        return subject
    try:
        wide = subject.in_dtype(np.float64)
    except Exception:  # it knows one precision only
        return subject
    return wide if all(x.dtype.itemsize >= 8 for x in wide.out) else subject


def examine(
    subject: Subject, names: Mapping[str, str] | None = None, fixed: Sequence[int] = (), own: bool = True,
    fixed_cotangent: bool = False,
) -> Report:
    """Return the full report on an adjoint. `own`: whether sharing memory and other dtypes are wrong."""
    report = Report(_title(subject), forward=Listing.of(subject.shown[0]), adjoint=Listing.of(subject.shown[1]))
    if not _again(subject, report):
        return report
    reference = Reference.of(subject, must=False)
    assert reference is not None
    if reference.generated is None:
        report.reference = f"derivatives measured from values of the function; it cannot be traced ({reference.why_not})"
        measured_gradients(subject, reference, report)
    else:
        report.evidence = reference.evidence
        how = "confirmed" if all(e.agrees for e in reference.evidence) else "NOT CONFIRMED"
        report.reference = f"the generated adjoint, {how} by measurements along {len(reference.evidence) * 3} random directions"
        if how != "confirmed":
            report.notes.append(
                "the generated adjoint does not agree with measured derivatives: is a stop_gradient in the function, or "
                "a value that was converted to a plain number?"
            )
    if fixed_cotangent:
        reference.gs = [np.ones_like(g) for g in reference.gs]
        reference.wanted = reference.generated.gradients(reference.gs) if reference.generated else reference.wanted
    ran = compare_with(subject, reference, report, names)
    if ran:
        tolerances = reference.tolerances(subject)
        gs = _cast(reference.gs, subject)
        report.conditions += conditions(subject, gs, tolerances, fixed_cotangent, own)
    if ran and reference.generated is not None and all(c.right for c in report.comparisons):
        report.variations = [_varied(label, s, own, fixed_cotangent) for label, s in variations(subject, fixed)]
    return report


def _title(subject: Subject) -> str:
    return f"{name_of(subject.shown[1])}, the adjoint of {name_of(subject.shown[0])}"


def _again(subject: Subject, report: Report) -> bool:
    """Note whether the forward function gives the same twice: otherwise nothing can be said about its gradient."""
    for first, second in zip(subject.out, subject.run(subject.leaves), strict=True):
        if not np.array_equal(first, second, equal_nan=True):
            report.errors.append(
                f"{name_of(subject.forward)} gives something else on every call: pass the seed or the mask as an argument"
            )
            return False
    return True


def _cast(gs: Sequence[Any], subject: Subject) -> list[Any]:
    return [np.asarray(g).astype(x.dtype) for g, x in zip(gs, subject.out, strict=True)]


def compare_with(
    subject: Subject, reference: Reference, report: Report, names: Mapping[str, str] | None = None
) -> bool:
    """Compare every result's gradients with the reference, and look for the wrong line; return whether it ran."""
    generated, gs = reference.generated, _cast(reference.gs, subject)
    tolerances = reference.tolerances(subject)
    try:
        with np.errstate(all="ignore"):
            got = subject.by_leaf(subject.gradients(gs))
    except Exception as error:  # whatever the adjoint raises is the finding
        report.errors.append(_first_line(error))
        got = None
    if got is not None:
        report.comparisons += _all_pairs(subject, reference, gs, got, tolerances)
    wrong = got is None or any(not c.right for c in report.comparisons)
    relative = 1e-7 if all(np.asarray(x).dtype.itemsize >= 8 for x in subject.leaves) else 1e-4
    if wrong and generated is not None:
        report.culprit = locate(subject, generated, gs, tolerances, names, relative)
        if report.culprit is not None and report.culprit.meant is not None:
            report.formula = formula_of(subject, report.culprit.meant.truth.name)
    context = _context(subject, reference, relative)
    for c in report.comparisons:
        if not c.right:
            c.diagnosis = diagnose(c, context)
    return got is not None


def _all_pairs(
    subject: Subject, reference: Reference, gs: Sequence[Any], got: Sequence[Any], tolerances: Sequence[float]
) -> list[Comparison]:
    """Return a comparison for every result and argument: with several results, each is given a gradient alone."""
    if len(subject.results) == 1 or reference.generated is None:
        whole = subject.results[0] if len(subject.results) == 1 else "the results"
        rows = zip(subject.names, got, reference.wanted, tolerances, strict=True)
        return [compare(whole, *row) for row in rows]
    found = []
    for i, result in enumerate(subject.results):
        alone = [g if i == j else np.zeros_like(g) for j, g in enumerate(gs)]
        wanted = reference.generated.gradients(alone)
        gradients = subject.by_leaf(subject.gradients(alone))
        rows = zip(subject.names, gradients, wanted, tolerances, strict=True)
        found += [compare(result, *row) for row in rows]
    reference.generated.gradients(reference.gs)
    return found


def _context(subject: Subject, reference: Reference, relative: float) -> Context:
    sizes: dict[int, str] = {}
    for name, x in zip((*subject.names, *subject.results), (*subject.leaves, *subject.out), strict=True):
        for axis, n in enumerate(np.shape(x)):
            sizes.setdefault(n, f"the size of axis {axis} of {name}")
        sizes.setdefault(np.size(x), f"the number of elements of {name}")
    masks = {}
    for i, a in enumerate((*subject.args, *subject.kwargs.values())):
        label = (*subject.arguments, *subject.kwargs)[i]
        for p, leaf in zip(tree.paths(a), tree.leaves(a), strict=True):
            if isinstance(leaf, np.ndarray) and leaf.dtype == bool:
                masks[label + p] = leaf
    wanted = dict(zip(subject.names, reference.wanted, strict=True))
    return Context(reference.generated, reference.gs, wanted, masks, sizes, max(relative, 1e-6))


def _varied(label: str, subject: Subject, own: bool, fixed_cotangent: bool) -> Condition:
    """Return whether the adjoint is right in another shape."""
    name = f"right {label}"
    try:
        reference = Reference.of(subject, measured=False)
    except Exception:  # not to be differentiated there
        return Condition(name, True)
    assert reference is not None
    gs = [np.ones_like(g) for g in reference.gs] if fixed_cotangent else reference.gs
    wanted = reference.generated.gradients(gs) if reference.generated else []
    try:
        with np.errstate(all="ignore"):
            got = subject.by_leaf(subject.gradients(_cast(gs, subject)))
    except Exception as error:  # whatever the adjoint raises is the finding
        empty = any(0 in np.shape(x) for x in subject.leaves)  # that it fails aloud there is no wrong gradient
        return Condition(name, False, f"the adjoint raised {_first_line(error)}", remark=empty)
    for leaf, g, w, t, x in zip(subject.names, got, wanted, reference.tolerances(subject), subject.leaves, strict=True):
        c = compare(subject.results[0], leaf, g, w, t)
        if not c.right:
            c.diagnosis = diagnose(c, _context(subject, reference, 1e-6))
            return Condition(name, False, str(c))
        if own and g is not None and np.asarray(g).dtype != np.asarray(x).dtype:
            return Condition(name, False, f"the gradient of {leaf} is {np.asarray(g).dtype}")
    return Condition(name, True)
