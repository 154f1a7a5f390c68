"""The generated formula for the gradient of one variable, as source that can be understood by itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from minigrad.check.generated import Truth
from minigrad.check.lines import code_of
from minigrad.check.subject import Subject
from minigrad.emit import adjoint_source

__all__ = ["formula_of"]

MOST_LINES = 3


def formula_of(subject: Subject, truth: Truth, kind: str = "gradient") -> str:
    """Return the lines that compute a variable of the forward, or its gradient; "" where there are none.

    Every name in them is one of the forward function, `d` and such a name, or `g`; or the line that makes it is there
    as well. What would take more than three lines is left out.

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
        body = [line[4:] for line in source.splitlines() if line.startswith("    ")]
    except Exception:  # a report is no place to fail in
        return ""
    made = _assignments(_with_plain_names(body))
    code = code_of(subject.shown[0])
    names = {*subject.arguments, *(n.rpartition(".")[2] for n in subject.names)}
    names |= {*code.co_varnames, *code.co_names} if code is not None else set()
    known = {"np", "math", "g", *names, *(f"d{n}" for n in names)}
    called = truth.name.rsplit(".", 1)[-1]
    for name in (called, *_assigned_at(body, truth)):
        wanted, said = (name, called) if kind == "value" else (f"d{name}", f"d{called}")
        text = "\n".join(_explained(wanted, made, known))
        if text:
            return _in_the_users_words(re.sub(rf"\b{wanted}\b", said, text) if truth.names else text, subject)
    return ""


def _in_the_users_words(text: str, subject: Subject) -> str:
    """Return a formula with the incoming gradient as the hand-written adjoint calls it, and a layer's attributes."""
    code = code_of(subject.shown[1])
    taken = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    if subject.arguments[:1] == ("parameters",) and taken:
        text = re.sub(r"""\bparameters\[(?:"(.+?)"|'(.+?)')\]""", lambda m: f"{taken[0]}.{m[1] or m[2]}", text)
        taken = taken[1:]
    if len(subject.results) == 1 and taken and not re.search(rf"\b{taken[0]}\b", text):
        text = re.sub(r"\bg\b", taken[0], text)
    return text


def _with_plain_names(body: list[str]) -> list[str]:
    """Return the lines with the name of a whole gradient without a number: `dq` for the last of dq, dq_2 and dq_3.

    The others are parts of it, and are called `dq_1` and so on.
    """
    text = "\n".join(re.sub(r" {2,}# ", "    # ", line) for line in body)
    values = set(re.findall(r"^(\w+) = ", text, re.MULTILINE))
    for name in sorted(set(re.findall(r"\b(d\w+?)_2\b", text))):
        if f"{name[1:]}_2" in values:  # the gradient of x_2, not the second part of that of x
            continue
        numbers = [int(n or 1) for n in re.findall(rf"\b{name}(?:_(\d+))?\b", text)]
        last = max(numbers)
        text = re.sub(rf"\b{name}\b(?!_)", f"{name}_1", text)
        text = re.sub(rf"\b{name}_{last}\b", name, text)
    return text.splitlines()


def _assignments(body: list[str]) -> dict[str, list[str]]:
    """Return the lines that assign to each name or to parts of it; none for a name that is assigned in a loop."""
    found: dict[str, list[str]] = {}
    inside = {m[1] for line in body if (m := re.match(r"\s+(\w+)(\[.*?\])? [-+*/]?= ", line))}
    for line in body:
        match = re.match(r"(\w+)(\[.*?\])? [-+*/]?= ", line)
        if match and match[1] not in inside:
            found.setdefault(match[1], []).append(line)
    return found


def _explained(name: str, made: dict[str, list[str]], known: set[str]) -> list[str]:
    """Return the lines that make a name, after those that make what cannot be known by its name; [] if too many."""
    lines: list[str] = []
    queue, seen = [name], {name}
    while queue:
        current = queue.pop(0)
        if current not in made:
            return []
        lines = [*made[current], *lines]
        if len(lines) > MOST_LINES:
            return []
        needed = {n for line in made[current] for n in _names_in(line)}
        unknown = sorted(needed - known - seen)
        seen.update(unknown)
        queue += unknown
    return lines


def _names_in(line: str) -> set[str]:
    try:
        return {n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    except SyntaxError:  # a statement over several lines
        return {"?"}


def _assigned_at(body: list[str], truth: Truth) -> list[str]:
    """Return what the generated source calls the value of a line of the user's code."""
    if truth.line is None:
        return []
    comment = re.compile(rf"# {re.escape(Path(truth.line.file).name)}:{truth.line.line}\b")
    after = [body[i + 1] for i, line in enumerate(body[:-1]) if comment.match(line)]
    return [line.split(" = ")[0] for line in after if " = " in line and line.split(" = ")[0].isidentifier()]
