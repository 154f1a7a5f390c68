"""The whole function as text: signature, docstring, statements with their comments, and what it returns."""

from __future__ import annotations

import functools
import linecache
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.emit.outputs import AdjointWriter, ForwardWriter
from minigrad.emit.scope import Scope
from minigrad.emit.signature import LINE, Signature, built, called, described, returned
from minigrad.emit.writer import Line
from minigrad.errors import SourceLine
from minigrad.program import Program
from minigrad.tree import Structure

__all__ = ["Emitted", "write_adjoint", "write_forward"]

COMMENT_COLUMN = 72  # the last column at which the shapes at the ends of lines are lined up


@dataclass(frozen=True)
class Emitted:
    """A function as source.

    Parameters
    ----------
    name
        Of the function.
    text
        The source of a module that defines it.
    constants
        Values that it takes as further keyword arguments: arrays that the original had from elsewhere, and functions
        that are no NumPy.
    """

    name: str
    text: str
    constants: dict[str, Any]

    def function(self) -> Callable[..., Any]:
        """Execute the source and return the function, its constants filled in."""
        file = f"<{self.name}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)  # for tracebacks
        namespace: dict[str, Any] = {}
        exec(compile(self.text, file, "exec"), namespace)
        return functools.partial(namespace[self.name], **self.constants) if self.constants else namespace[self.name]


def write_adjoint(
    f: Callable[..., Any],
    program: Program,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    wrt: list[int],
    exact: bool,
    caller: SourceLine | None,
) -> Emitted:
    """Return the source of the program of an adjoint."""
    scope = Scope(exact)
    result: Structure = program.notes["result"]
    seeds, inputs = list(program.inputs[: result.n_leaves]), list(program.inputs[result.n_leaves :])
    signature = Signature(f, args, kwargs, inputs, scope)
    signature.add_cotangent(seeds, result)
    labels = ["d" + label for i in wrt for label in tree_labels(args[i], signature.names[i])]
    writer = AdjointWriter(program, scope)
    gradients = writer.write_outputs(labels)
    rest = list(gradients)
    values = [built(tree.structure(args[i]), rest, signature.names[i]) for i in wrt]
    results = [typed(name, x, _usual(program)) for name, x in zip(gradients, program.outputs, strict=True)]
    head = [f"Adjoint of {described(f)}.", "", *_typed(program, scope, results)]
    return _function(program, signature, head + _remarks(f, program, scope), writer.lines, values, caller)


def write_forward(
    f: Callable[..., Any],
    program: Program,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    exact: bool,
    caller: SourceLine | None,
) -> Emitted:
    """Return the source of a program."""
    scope = Scope(exact)
    signature = Signature(f, args, kwargs, list(program.inputs), scope)
    writer = ForwardWriter(program, scope)
    values = [built(program.notes["result"], writer.write_outputs(), "out")]
    head = [f"{described(f)}.", "", *_typed(program, scope, [typed("", x, _usual(program)) for x in program.outputs])]
    return _function(program, signature, head + _remarks(f, program, scope), writer.lines, values, caller)


def _typed(program: Program, scope: Scope, results: list[str]) -> list[str]:
    """Return what the docstring says of the shapes, and of the dtype that most have."""
    usual = _usual(program)
    given = [typed(scope.names[v], v, usual) for v in program.inputs]
    return _wrapped([*given, "->", *results], f"; {usual}")


def _usual(program: Program) -> np.dtype[Any]:
    return program.inputs[0].dtype if program.inputs else np.dtype(float)


def typed(name: str, x: Any, usual: np.dtype[Any]) -> str:
    """Return the name and the shape of an array, and its dtype where that is another than most have."""
    return f"{name} {x.shape}".strip() + ("" if x.dtype == usual else f" {x.dtype}")


def _remarks(f: Callable[..., Any], program: Program, scope: Scope) -> list[str]:
    """Return what the docstring says of values that are no arguments, and of those that Python code looked at."""
    remarks: list[str] = []
    if scope.constants:
        usual = _usual(program)
        values = [typed(n, v, usual) if isinstance(v, np.ndarray) else f"{n}()" for n, v in scope.constants.items()]
        remarks += _wrapped(values, f": constants of {called(f)}; `emit_adjoint(...).constants` has them.")
    places = dict.fromkeys(Path(where.split("    ")[0]).name for _, where in program.notes.get("reads", []))
    if places:
        remarks += _wrapped(list(places), ": Python code looked at values here; for others it may go another way.")
    return remarks


def _wrapped(parts: list[str], end: str) -> list[str]:
    """Return "a, b -> c" in lines that break between the parts."""
    text = ", ".join(p.replace(" ", "\0") for p in parts).replace(", ->,", " ->") + end
    return [line.replace("\0", " ") for line in textwrap.wrap(text, LINE - 4)]


def _function(
    program: Program,
    signature: Signature,
    document: list[str],
    lines: list[Line],
    values: list[str],
    caller: SourceLine | None,
) -> Emitted:
    """Put a function together."""
    scope = signature.scope
    text = [f'"""{document[0]}', *document[1:], '"""']
    text += [f"{name} = {scope.literal(value).code}" for name, value in scope.numbers.items()]
    text += _commented(lines, caller)
    text += returned(values)
    head = f"def {program.name}({', '.join([*signature.parameters, *scope.constants])}):"
    body = "\n".join(f"    {line}" if line else "" for line in text)
    code = "\n\n\n".join([*(h.rstrip() for h in scope.helpers.values()), f"{head}\n{body}"])
    imports = _imports(scope.imports, code)
    return Emitted(program.name, imports + code + "\n", dict(scope.constants))


def _imports(wanted: set[str], code: str) -> str:
    """Return the imports that code needs, the standard library's in a paragraph of their own."""
    standard = sorted(line for line in wanted if line == "import math")
    needs_numpy = any("np." in line for line in code.splitlines() if not line.strip().startswith("#"))
    others = sorted(line for line in wanted if line not in standard and (needs_numpy or "numpy" not in line))
    paragraphs = ["\n".join(lines) for lines in (standard, others) if lines]
    return "\n\n".join(paragraphs) + "\n\n\n" if paragraphs else ""


def _commented(lines: list[Line], caller: SourceLine | None) -> list[str]:
    """Return the lines with the user's lines above them, each quoted once, and shapes lined up at their ends."""
    column = max((len(line.code) for line in lines if line.comment and len(line.code) < COMMENT_COLUMN), default=0)
    text: list[str] = []
    quoted: set[SourceLine] = set()
    last: tuple[bool, SourceLine | None] = (False, None)
    for line in lines:
        if line.backward and not last[0] and text:
            text.append("")
        if line.source in (None, caller):  # a value that no line of the function itself computes
            last = (line.backward, last[1])
        elif (line.backward, line.source) != last:
            last = (line.backward, line.source)
            text.append(_place(line, quoted))
        text.append(f"{line.code:<{column}}  # {line.comment}" if line.comment else line.code)
    return text


def _place(line: Line, quoted: set[SourceLine]) -> str:
    """Return the comment that says which line of the user's a line computes, or is the adjoint of."""
    assert line.source is not None
    theirs = line.source.text.split("  #")[0].strip()
    place = f"# {'adjoint of ' if line.backward else ''}{Path(line.source.file).name}:{line.source.line}"
    if line.source in quoted or theirs == line.code or not theirs:
        quoted.add(line.source)
        return place
    quoted.add(line.source)
    whole = f"{place}  {theirs}"
    return whole if len(whole) <= LINE - 4 else whole[: LINE - 8].rstrip() + " ..."


def tree_labels(argument: Any, name: str) -> list[str]:
    """Return a name for each leaf of an argument: weights_q."""
    from minigrad.trace import identifier

    return [name + ("_" if p else "") + identifier(p) for p in tree.paths(argument)]
