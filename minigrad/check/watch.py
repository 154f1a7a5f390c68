"""A hand-written adjoint watched while it runs: what each of its statements assigns, in order, with the lines.

Nothing is parsed or rewritten. The frames of the user's code are looked at by a trace function, on this thread only.
It can also put another value in a variable's place, which is how a suspicion is confirmed: if everything comes out
right once `dscores` is what it should be, the line that computes `dscores` is the wrong one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.lines import Statement, first_line, is_users, statements
from minigrad.errors import SourceLine
from minigrad.fingerprint import fingerprint

__all__ = ["Assignment", "Returned", "Watch"]

_NO_FUNCTIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
_MOST = 4000  # assignments to keep: a loop over elements makes many
_MOST_HELD = 64  # attributes or elements to look at


@dataclass
class Assignment:
    """A value that a statement gave to a variable, an attribute, or an element of a dictionary."""

    step: int  # among those of the adjoint itself; -1 in the functions it calls
    name: str
    value: Any
    line: SourceLine
    code: CodeType
    frame: int  # 0 is the adjoint itself, the others are the functions it calls, in order
    caller: int | None  # the line of the adjoint that was running
    reads: frozenset[str] = frozenset()
    path: str = ""  # of a part of a tree: "[0]", ".q"

    @property
    def function(self) -> str:
        """The name of the function it is in."""
        return self.code.co_name


@dataclass
class Returned:
    """What a call of the user's code returned."""

    value: Any
    line: SourceLine
    code: CodeType
    frame: int
    caller: int | None


@dataclass
class Watch:
    """Runs something and notes what happens in one function and in those that it calls.

    Parameters
    ----------
    root
        The code of the function to watch.
    changes
        Values to put in place of what is assigned, by the step of the assignment. Nothing is noted then.
    """

    root: CodeType | None
    changes: dict[int, Any] = field(default_factory=dict)
    assignments: list[Assignment] = field(default_factory=list)
    returns: list[Returned] = field(default_factory=list)
    _frames: int = 0
    _caller: int | None = None
    _step: int = 0

    @property
    def full(self) -> bool:
        """Whether there may have been more assignments than are kept."""
        return len(self.assignments) >= _MOST

    def run(self, f: Callable[[], Any]) -> Any:
        """Return f(), watched. A second watcher, such as a debugger, is set aside meanwhile."""
        if self.root is None:
            return f()
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return f()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if self._frames == 0 and code is not self.root:
            return None
        if self._frames > 0 and self.changes:
            return None  # what is called does not matter: something is changed in the adjoint itself
        if code is not self.root and (not is_users(code.co_filename) or code.co_name in _NO_FUNCTIONS):
            return None
        number, self._frames = self._frames, self._frames + 1
        return _Frame(self, frame, number).event

    def note(self, name: str, value: Any, frame: _Frame, statement: Statement) -> Any:
        """Note an assignment; return what is to be put in its place, or `None` if nothing is."""
        here = SourceLine(frame.code.co_filename, statement.line)
        caller = statement.line if frame.number == 0 else self._caller
        replacement = None
        for path, leaf in _leaves(value):
            step = -1
            if frame.number == 0:
                step, self._step = self._step, self._step + 1
            if step in self.changes:
                replacement = _with_leaf(value if replacement is None else replacement, path, self.changes[step])
            if not self.changes and len(self.assignments) < _MOST:
                kept = leaf.copy() if isinstance(leaf, np.ndarray) else leaf
                reads = frozenset(statement.reads)
                self.assignments.append(
                    Assignment(step, name + path, kept, here, frame.code, frame.number, caller, reads, path)
                )
        return replacement


class _Frame:
    """One call of a watched function."""

    def __init__(self, watch: Watch, frame: FrameType, number: int) -> None:
        self.watch = watch
        self.code = frame.f_code
        self.number = number
        self.statements = statements(frame.f_code)
        self.current: Statement | None = None
        self.bound: dict[str, Any] = {}
        self.marks: dict[tuple[str, str], Any] = {}
        self.this = self.code.co_varnames[0] if self.code.co_argcount else ""  # of a method, its object

    def event(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Handle an event of the frame: a new line, or its return."""
        if event == "exception":
            return self.event
        line = first_line(self.code.co_filename, frame.f_lineno)
        if event == "line" and self.current is not None and line == self.current.line and not self._looped(frame):
            return self.event
        values = frame.f_locals
        self._finish(frame, values)
        if event == "return":
            place = SourceLine(self.code.co_filename, line)
            caller = line if self.number == 0 else self.watch._caller
            self.watch.returns.append(Returned(arg, place, self.code, self.number, caller))
            return None
        self.current = self.statements.get(line)
        if self.number == 0:
            self.watch._caller = line
        if self.current is not None:
            self.bound = {name: values.get(name, _UNBOUND) for name in self.current.binds}
            self.marks = dict(_marks(self.current, values, self.this))
        return self.event

    def _looped(self, frame: FrameType) -> bool:
        """Tell whether a new line event on the same statement is a new run of it: not the rest of a long one."""
        return frame.f_lineno == self.current.line and not self.current.binds  # type: ignore[union-attr]

    def _finish(self, frame: FrameType, values: Any) -> None:
        """Note what the statement that has just run has assigned."""
        statement = self.current
        if statement is None:
            return
        changes: list[tuple[str, Any]] = []
        for name in sorted(statement.binds):
            value = values.get(name, _UNBOUND)
            if value is not _UNBOUND and (value is not self.bound.get(name, _UNBOUND) or name in statement.reads):
                replacement = self.watch.note(name, value, self, statement)
                if replacement is not None:
                    changes.append((name, replacement))
        for (owner, key), mark in _marks(statement, values, self.this):
            if owner not in statement.binds and self.marks.get((owner, key), _UNBOUND) != mark:
                value = _look(values[owner], key)
                replacement = self.watch.note(owner + key, value, self, statement)
                if replacement is not None:
                    _put(values[owner], key, replacement)
        for name, replacement in changes:
            values[name] = replacement  # the interpreter writes it back when the trace function has returned


_UNBOUND = object()


def _marks(statement: Statement, values: Any, this: str) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield a fingerprint of everything that the statement could write to in place."""
    for name in sorted(statement.reads):
        value = values.get(name)
        if isinstance(value, np.ndarray):
            yield (name, ""), fingerprint(value)
        elif isinstance(value, (dict, list)) or statement.attributes or name == this:
            for path, holder, key in _inside(value):
                held = holder[key]
                yield (name, path), (id(held), fingerprint(held) if isinstance(held, np.ndarray) else repr(held))


def _inside(value: Any, depth: int = 2) -> Iterator[tuple[str, Any, Any]]:
    """Yield the arrays and numbers in an object, a dictionary or a list: path, what holds it, attribute or key."""
    holder = value if isinstance(value, (dict, list)) else getattr(value, "__dict__", None)
    if not isinstance(holder, (dict, list)) or len(holder) > _MOST_HELD:
        return
    for key, held in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        path = f"[{key!r}]" if holder is value else f".{key}"
        if isinstance(held, (np.ndarray, np.generic, float)):
            yield path, holder, key
        elif depth > 1:
            yield from ((path + rest, inner, k) for rest, inner, k in _inside(held, depth - 1))


def _place(owner: Any, path: str) -> tuple[Any, Any]:
    return next((holder, key) for p, holder, key in _inside(owner) if p == path)


def _look(owner: Any, path: str) -> Any:
    if not path:
        return owner
    holder, key = _place(owner, path)
    return holder[key]


def _put(owner: Any, path: str, replacement: Any) -> None:
    if path:
        holder, key = _place(owner, path)
        holder[key] = replacement
    elif np.shape(replacement) == owner.shape:
        owner[...] = replacement


def _leaves(value: Any) -> list[tuple[str, Any]]:
    """Return the arrays and numbers of a value with their places; nothing for what is neither."""
    if isinstance(value, (dict, list, tuple)):
        if not _is_small(value):
            return []
        leaves = tree.leaves(value)
        paths = [p if p.startswith("[") else f".{p}" for p in tree.paths(value)]
        return [(p, x) for p, x in zip(paths, leaves, strict=True) if isinstance(x, (np.ndarray, np.generic))]
    kept = isinstance(value, (np.ndarray, np.generic, int, float)) and not isinstance(value, bool)
    return [("", value)] if kept else []


def _is_small(value: Any) -> bool:
    """Tell whether a structure has few parts: one that has itself as a part has not."""
    todo = [value]
    for _ in range(2 * _MOST_HELD):
        if not todo:
            return True
        part = todo.pop()
        if isinstance(part, (dict, list, tuple)):
            todo += part.values() if isinstance(part, dict) else part
    return False


def _with_leaf(value: Any, path: str, leaf: Any) -> Any:
    if not path:
        return leaf
    leaves, structure = tree.flatten(value)
    paths = [p if p.startswith("[") else f".{p}" for p in tree.paths(value)]
    return tree.unflatten(structure, [leaf if p == path else x for p, x in zip(paths, leaves, strict=True)])
