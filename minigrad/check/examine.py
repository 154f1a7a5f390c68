"""Everything that is looked at in an adjoint: values, conditions, other shapes, and the wrong line."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.calling import raised_at
from minigrad.check.comparison import Comparison, compare
from minigrad.check.conditions import Condition, conditions
from minigrad.check.diagnosis import Context, diagnose
from minigrad.check.finite import left_out, require_numbers
from minigrad.check.formula import formula_of
from minigrad.check.laboratory import Laboratory
from minigrad.check.locate import WrongLine, locate
from minigrad.check.reference import Reference, first_line
from minigrad.check.report import Listing, Report
from minigrad.check.subject import Subject, name_of
from minigrad.check.variations import variations
from minigrad.check.whole import measured_gradients
from minigrad.errors import MinigradError

__all__ = ["compare_with", "examine", "gives_the_same", "title_of"]

HARDLY = 5e-5  # of its largest element: what an epsilon of 1e-7 in a logarithm does to a gradient


def examine(
    subject: Subject,
    names: Mapping[str, str] | None = None,
    fixed: Sequence[int] = (),
    own: bool = True,
    fixed_cotangent: bool = False,
    other_shapes: bool = True,
) -> Report:
    """Return the full report on an adjoint. `own`: whether sharing memory and other dtypes are wrong."""
    report = Report(title_of(subject), forward=Listing.of(subject.shown[0]), adjoint=Listing.of(subject.shown[1]))
    report.notes = left_out(subject)
    if not gives_the_same(subject, report):
        return report
    reference = Reference.of(subject, must=False)
    assert reference is not None
    if fixed_cotangent:
        reference.use_ones()
    if reference.generated is not None and all(e.agrees for e in reference.evidence):
        report.evidence = reference.evidence
        count = sum(len(e.pairs) for e in reference.evidence)
        report.reference = f"the generated adjoint, confirmed by measurements along {count} random directions"
    else:
        if reference.generated is not None:
            reference.why_not = (
                "the generated adjoint disagrees with what was measured: is a stop_gradient in the function, "
                "or was a value turned into a plain number?"
            )
            reference.generated = None
        report.reference = (
            f"derivatives measured from values of the function; it cannot be traced ({reference.why_not})"
        )
        measured_gradients(subject, reference, report)
    ran = compare_with(subject, reference, report, names, own)
    if ran:
        tolerances = reference.tolerances(subject, [c.got for c in report.comparisons])
        gs = _cast(reference.gs, subject)
        report.conditions += conditions(subject, gs, tolerances, fixed_cotangent, own)
    if other_shapes and ran and reference.generated is not None and all(c.right for c in report.comparisons):
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # the mean of nothing is no news
            warnings.simplefilter("ignore")
            _other_shapes(subject, reference, fixed, own, fixed_cotangent, report, names)
    return report


def title_of(subject: Subject) -> str:
    return f"{name_of(subject.shown[1])}, the adjoint of {name_of(subject.shown[0])}"


def gives_the_same(subject: Subject, report: Report) -> bool:
    """Note whether the forward function gives the same twice: otherwise nothing can be said about its gradient."""
    for first, second in zip(subject.out, subject.run(subject.leaves), strict=True):
        if not np.array_equal(first, second, equal_nan=True):
            report.errors.append(
                f"{name_of(subject.forward)} gives something else on every call: "
                "pass the seed, or the random numbers, as an argument"
            )
            return False
    return True


def _cast(gs: Sequence[Any], subject: Subject) -> list[Any]:
    return [np.asarray(g).astype(x.dtype) for g, x in zip(gs, subject.out, strict=True)]


def compare_with(
    subject: Subject,
    reference: Reference,
    report: Report,
    names: Mapping[str, str] | None = None,
    own: bool = True,
) -> bool:
    """Compare every result's gradients with the reference, and look for the wrong line; return whether it ran."""
    generated, gs = reference.generated, _cast(reference.gs, subject)
    tolerances = reference.tolerances(subject)
    try:
        with np.errstate(all="ignore"):
            got = subject.by_leaf(subject.gradients(gs))
    except Exception as error:  # whatever the adjoint raises is the finding
        report.errors.append(str(error) if isinstance(error, MinigradError) else first_line(error))
        got = None
    if got is not None:
        require_numbers(subject, got)
        tolerances = reference.tolerances(subject, got)
        report.comparisons += _all_pairs(subject, reference, gs, got, tolerances)
    if not own:
        report.notes += [note for c in report.comparisons for note in _forgiven(c)]
    wrong = got is None or any(not c.right for c in report.comparisons)
    relative = 1e-7 if all(np.asarray(x).dtype.itemsize >= 8 for x in subject.leaves) else 1e-4
    if wrong and generated is not None:
        report.culprit = locate(subject, generated, gs, tolerances, names, relative)
        if report.culprit is not None and report.culprit.meant is not None:
            meant = report.culprit.meant
            report.formula = formula_of(subject, meant.truth, "value" if meant.kind == "value" else "gradient")
    context = _context(subject, reference, relative)
    for c in report.comparisons:
        if not c.right:
            c.diagnosis = diagnose(c, context)
    return got is not None


def _forgiven(c: Comparison) -> list[str]:
    """Call a gradient of somebody's layer right that is off by hardly more than rounding; return what to say of it."""
    scale = float(np.max(np.abs(c.wanted), initial=0))
    if c.right or not c.error <= HARDLY * scale:
        return []
    c.right = True
    return [
        f"the gradient of {c.name} is off by {c.error / scale:.0e} of its largest element: more than rounding is. "
        "Does the forward pass add an epsilon that the backward pass does not know?"
    ]


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


def _other_shapes(
    subject: Subject,
    here: Reference,
    fixed: Sequence[int],
    own: bool,
    fixed_cotangent: bool,
    report: Report,
    names: Mapping[str, str] | None,
) -> None:
    """Look whether the adjoint is right in other shapes; in the first in which it is wrong, look for the line."""
    right_once = False  # where an axis of size 1 was made longer
    for variation in variations(subject, fixed):
        found = [(_varied(variation.label, s, own, fixed_cotangent), s) for s in variation.subjects]
        condition, varied = next((pair for pair in found if pair[0].holds), found[0])
        if not condition.holds and variation.doubtful and (right_once or not own):
            condition = replace(condition, text=f"{condition.text} (is that shape meant?)", remark=True)
        if not condition.holds and _made_for(subject, varied):
            text = f"{condition.text} (the layer was made for other sizes)"
            condition = replace(condition, text=text, remark=True)
        right_once |= variation.doubtful and condition.holds
        report.variations.append(condition)
        if not condition.holds and not condition.remark and report.culprit is None:
            reference = _reference(varied, fixed_cotangent)
            assert reference is not None and reference.generated is not None
            gs, tolerances = _cast(reference.gs, varied), reference.tolerances(varied)
            got = [c.got for c in report.comparisons]
            example = Laboratory(subject, _cast(here.gs, subject), here.wanted, here.tolerances(subject, got), math.inf)
            culprit = locate(varied, reference.generated, gs, tolerances, names, example=example)
            report.culprit = _that_raised(varied, gs, culprit)


def _that_raised(subject: Subject, gs: Sequence[Any], found: WrongLine | None) -> WrongLine | None:
    """Return the line that raises in another shape, unless an edit makes everything right there and in the example."""
    if found is not None and found.confirmed:
        return found
    try:
        with np.errstate(all="ignore"):
            subject.gradients(gs)
    except Exception as error:  # whatever the adjoint raises
        place = raised_at(error)
        if place is not None:
            return WrongLine(*place, None, False, "raises in another shape", raised=first_line(error))
    return found


def _tried(subject: Subject) -> str:
    """Return the shapes of the arrays that gradients are taken of: "x (4, 2), kernel (5,)"."""
    shapes = [f"{name} {np.shape(x)}" for name, x in zip(subject.names, subject.leaves, strict=True)]
    return ", ".join(shapes[:8]) + (f" and {len(shapes) - 8} more" if len(shapes) > 8 else "")


def _made_for(subject: Subject, varied: Subject) -> bool:
    """Tell whether a size that has changed is among the numbers that the layer holds."""
    known: Collection[int] = getattr(subject.forward, "sizes", ())
    pairs = zip(tree.leaves(subject.args), tree.leaves(varied.args), strict=True)
    changed = {n for x, y in pairs for n, m in zip(np.shape(x), np.shape(y), strict=True) if n != m}
    return bool(changed & set(known))


def _reference(subject: Subject, fixed_cotangent: bool) -> Reference | None:
    try:
        reference = Reference.of(subject, measured=False)
    except Exception:  # not to be differentiated there
        return None
    if reference is not None and fixed_cotangent:
        reference.use_ones()
    return reference


def _varied(label: str, subject: Subject, own: bool, fixed_cotangent: bool) -> Condition:
    """Return whether the adjoint is right in another shape."""
    name, reference = f"right {label}", _reference(subject, fixed_cotangent)
    if reference is None:
        return Condition(name, True)
    gs = _cast(reference.gs, subject)
    try:
        with np.errstate(all="ignore"):
            got = subject.by_leaf(subject.gradients(gs))
    except Exception as error:  # whatever the adjoint raises is the finding
        empty = any(0 in np.shape(x) for x in subject.leaves)  # to fail aloud there is no wrong gradient
        place = raised_at(error)
        at = "" if place is None else f"\n    at {place[0]}"
        text = f"the adjoint raised {first_line(error)}{at}\n    tried with {_tried(subject)}"
        return Condition(name, False, text, remark=empty)
    rows = zip(subject.names, got, reference.wanted, reference.tolerances(subject, got), strict=True)
    wrong = [c for c in (compare(subject.results[0], *row) for row in rows) if not c.right]
    wrong = [c for c in wrong if own or not _forgiven(c)]
    if not wrong:
        return _same_dtypes(name, subject, got) if own else Condition(name, True)
    wrong[0].diagnosis = diagnose(wrong[0], _context(subject, reference, 1e-6))
    return Condition(name, False, f"{wrong[0]}\n    tried with {_tried(subject)}")


def _same_dtypes(name: str, subject: Subject, got: Sequence[Any]) -> Condition:
    for leaf, g, x in zip(subject.names, got, subject.leaves, strict=True):
        if g is not None and np.asarray(g).dtype != np.asarray(x).dtype:
            return Condition(name, False, f"the gradient of {leaf} is {np.asarray(g).dtype}")
    return Condition(name, True)
