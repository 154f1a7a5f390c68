"""The generated formula for the gradient of one variable, as source."""

from __future__ import annotations

import numpy as np

import minigrad
from minigrad.check.subject import Subject, is_float
from minigrad.trace import adjoint_program

__all__ = ["formula_of"]


def formula_of(subject: Subject, name: str) -> str:
    """Return the lines that compute the gradient of a variable of the forward; "" where there are none."""
    name = name.rsplit(".", 1)[-1]
    if not name.isidentifier():
        return ""
    try:
        return _from_source(subject, name) or _from_program(subject, name)
    except Exception:  # the report is no place to fail in
        return ""


def _from_source(subject: Subject, name: str) -> str:
    write = getattr(minigrad, "adjoint_source", None)
    if write is None or subject.kwargs:
        return ""
    lines = str(write(subject.forward, *subject.args)).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip().startswith(f"d{name} ="))


def _from_program(subject: Subject, name: str) -> str:
    def forward(*args: object) -> object:
        return subject.forward(*args, **subject.kwargs)

    wanted = [i for i in subject.argnums if all(is_float(x) for x in [np.asarray(subject.args[i])])]
    _, adjoint = adjoint_program(forward, *subject.args, wrt=wanted or None)
    lines = str(adjoint).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip().startswith(f"d{name}:"))
