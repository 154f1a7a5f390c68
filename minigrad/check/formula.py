"""The generated formula for the gradient of one variable, as source."""

from __future__ import annotations

from pathlib import Path

from minigrad.check.generated import Truth
from minigrad.check.subject import Subject
from minigrad.emit import adjoint_source

__all__ = ["formula_of"]


def formula_of(subject: Subject, truth: Truth, kind: str = "gradient") -> str:
    """Return the lines that compute a variable of the forward, or its gradient; "" where there are none.

    Parameters
    ----------
    subject
        Whose forward function is differentiated.
    truth
        The variable. It is found by its name, or else by the line that it comes from.
    kind
        "gradient", or "value" for the variable itself.
    """
    try:
        source = adjoint_source(subject.forward, *subject.args, **subject.kwargs)
    except Exception:  # a report is no place to fail in
        return ""
    lines = [line.strip() for line in source.splitlines()]
    name = truth.name.rsplit(".", 1)[-1]
    by_line = _assigned_at(lines, truth)
    for known in (name, *by_line):
        wanted = known if kind == "value" else f"d{known}"
        found = [line for line in lines if line.startswith((f"{wanted} =", f"{wanted}:"))]
        if found:
            named = (
                [] if known == name or kind == "value" else [x for x in lines if x.startswith(f"{known} =")]
            )
            return "\n".join([*named, *found])
    return ""


def _assigned_at(lines: list[str], truth: Truth) -> list[str]:
    """Return what the generated source calls the value of a line of the user's code."""
    if truth.line is None:
        return []
    comment = f"# {Path(truth.line.file).name}:{truth.line.line} "
    after = [lines[i + 1] for i, line in enumerate(lines[:-1]) if line.startswith(comment)]
    return [line.split(" = ")[0] for line in after if " = " in line and line.split(" = ")[0].isidentifier()]
