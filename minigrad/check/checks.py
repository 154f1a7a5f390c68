"""The checks that users call for plain functions: check_gradients, check_adjoint, compare_adjoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minigrad.check.calling import require_example, require_incoming_gradient
from minigrad.check.examine import compare_with, examine, gives_the_same, title_of
from minigrad.check.finite import left_out, require_numbers
from minigrad.check.reference import Reference
from minigrad.check.report import Listing, Report
from minigrad.check.subject import Subject, name_of

__all__ = ["check_adjoint", "check_gradients", "compare_adjoints"]


def check_gradients(f: Callable[..., Any], *args: Any, argnums: Sequence[int] | None = None, **kwargs: Any) -> Report:
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
    require_example("check_gradients", [f], args)
    subject = Subject.of(f, None, args, kwargs, argnums)
    report = Report(f"the generated gradient of {name_of(f)}", forward=Listing.of(f), notes=left_out(subject))
    reference = Reference.of(subject)
    assert reference is not None
    require_numbers(subject, reference.wanted)
    report.evidence = reference.evidence
    report.reference = "values of the function: the complex step where it is analytic, else differences over many steps"
    gives_the_same(subject, report)
    return report.require()


def check_adjoint(
    forward: Callable[..., Any],
    adjoint: Callable[..., Any],
    *args: Any,
    argnums: Sequence[int] | None = None,
    names: Mapping[str, str] | None = None,
    other_shapes: bool = True,
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
    other_shapes
        Whether the adjoint is tried in other shapes, made from the example: longer, of size 1, empty, square.

    Returns
    -------
    Report

    Raises
    ------
    AdjointMismatch
        If anything is wrong. Its message is the report: what is off, what it looks like, and the first wrong line.
    """
    require_example("check_adjoint", [forward, adjoint], args)
    require_incoming_gradient(forward, adjoint, args, kwargs)
    subject = Subject.of(forward, adjoint, args, kwargs, argnums)
    return examine(subject, names, other_shapes=other_shapes).require()


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
    require_example("compare_adjoints", [forward, adjoint], args)
    require_incoming_gradient(forward, adjoint, args, kwargs)
    subject = Subject.of(forward, adjoint, args, kwargs, argnums)
    report = Report(title_of(subject), forward=Listing.of(forward), adjoint=Listing.of(adjoint))
    report.notes = left_out(subject)
    reference = Reference.of(subject, measured=False)
    assert reference is not None
    report.reference = "the generated adjoint"
    compare_with(subject, reference, report, names)
    return report.require()
