"""The statements of the user's functions: what each reads and binds, its lines, and a look at frames that return."""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from minigrad.errors import is_internal

__all__ = ["Statement", "code_of", "first_line", "is_users", "profiled", "statements"]

_LIBRARIES = tuple(sysconfig.get_paths()[k] + "/" for k in ("stdlib", "platstdlib", "purelib", "platlib"))

_BINDS = {"STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"}


@dataclass
class Statement:
    """What a statement does with names: local variables, and attributes that it assigns to or loads."""

    line: int
    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    returns: bool = False


def is_users(file: str) -> bool:
    """Tell whether a file is the user's own: neither minigrad, nor NumPy, nor Python's or an installed library."""
    return not is_internal(file) and not file.startswith(_LIBRARIES) and not file.startswith("<frozen")


def code_of(f: Any) -> CodeType | None:
    """Return the code of a function, a method, a partial or an object that is called; None for what is not Python."""
    f = getattr(f, "func", f)
    f = getattr(f, "__wrapped__", f)
    f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None and not isinstance(f, type):
        code = getattr(vars(type(f)).get("__call__"), "__code__", None)
    return code


@functools.cache
def statements(code: CodeType) -> dict[int, Statement]:
    """Return the statements of a function by their first lines."""
    found: dict[int, Statement] = {}
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        place = instruction.positions.lineno if instruction.positions else None
        line = first_line(code.co_filename, place) if place is not None else line
        statement = found.setdefault(line, Statement(line))
        name = instruction.argval
        if instruction.opname in _BINDS:
            statement.binds.add(name)
        elif instruction.opname == "STORE_ATTR":
            statement.attributes.add(name)
        elif instruction.opname == "LOAD_ATTR":
            statement.loads.add(name)
        elif instruction.opname.startswith("RETURN_"):
            statement.returns = instruction.opname != "RETURN_GENERATOR"
        elif "LOAD_FAST" in instruction.opname or instruction.opname in (
            "LOAD_DEREF",
            "LOAD_NAME",
            "LOAD_CLOSURE",
        ):
            statement.reads.update(name if isinstance(name, tuple) else (name,))
        if instruction.opname.startswith("STORE_FAST_") and isinstance(name, tuple):  # two in one instruction
            (statement.binds if "STORE_FAST_STORE" in instruction.opname else statement.reads).update(name[-2:])
            statement.binds.add(name[0])
    return found


def first_line(file: str, line: int) -> int:
    """Return the first line of the statement that a line belongs to; the line itself where the source is unknown."""
    return _statement_starts(file, len(linecache.getlines(file))).get(line, line)


@functools.lru_cache(maxsize=64)
def _statement_starts(file: str, length: int) -> dict[int, int]:
    """Return for each line of a simple statement over several lines the first of them."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    starts: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and node.end_lineno is not None:
            starts.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), node.lineno))
    return starts


@contextmanager
def profiled(look: Callable[[FrameType, str, Any], object]) -> Iterator[None]:
    """Within this context a function is shown the events of every frame, on this thread; a profiler is set aside."""
    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before if callable(before) else None)
        if before is not None and not callable(before):  # a profiler written in C: it cannot be set, but enabled
            before.enable()
