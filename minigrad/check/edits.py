"""A function with one small edit: an operator, a variable, a number, an axis, a transposition, a term or a factor.

Used to find how a wrong line could have been meant. An edit counts only if everything comes out right with it, so a
long list of candidates does no harm but time. What takes something away or exchanges it comes before what adds.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any

from minigrad.check.changes import CHANGES, AtHand, is_module, other_writes

__all__ = ["Edit", "Source", "edited"]


@dataclass(frozen=True)
class Edit:
    """What was changed, how far-fetched it is (less is simpler), and the function with it."""

    function: FunctionType
    line: int
    before: str
    after: str
    cost: int
    code: CodeType
    number: Callable[[float], Edit | None] | None = None  # the edit with another number in it, for one to be found

    @property
    def text(self) -> str:
        """The change, for the report."""
        return f"`{self.after}` in place of `{self.before}`"


@contextmanager
def edited(function: FunctionType, edit: Edit) -> Iterator[None]:
    """Within this context the function is the edited one, for whoever calls it."""
    before = function.__code__
    function.__code__ = edit.code
    try:
        yield
    finally:
        function.__code__ = before


class Source:
    """The syntax tree of a function, from its file.

    Raises
    ------
    LookupError
        If the source cannot be read.
    """

    def __init__(self, function: Any) -> None:
        function = getattr(function, "func", function)
        function = inspect.unwrap(getattr(function, "__func__", function))
        if not isinstance(function, FunctionType):
            raise LookupError("not a Python function")
        self.function = function
        code = function.__code__
        found = _definitions(code.co_filename, len(linecache.getlines(code.co_filename)))
        candidates = [d for d in found if d[0].name == code.co_name and _first(d[0]) == code.co_firstlineno]
        if not candidates:
            raise LookupError(f"the source of {function.__qualname__} cannot be read")
        self.definition = copy.deepcopy(candidates[0][0])
        self.attributes = _attributes(self.definition, candidates[0][1])
        self.definition.decorator_list = []
        self._statements = _simple_statements(self.definition)
        strings = (n.value for s in self.statements() for n in ast.walk(s) if isinstance(n, ast.Constant))
        self.words = tuple(dict.fromkeys(word for word in strings if isinstance(word, str)))
        called = (n.func for s in self.statements() for n in ast.walk(s) if isinstance(n, ast.Call) and n.args)
        named = (f for f in called if isinstance(f, ast.Name) or (isinstance(f, ast.Attribute) and is_module(f.value)))
        self.functions = tuple(dict.fromkeys(map(ast.unparse, named)))
        slices = (ast.unparse(n) for s in self.statements() for n in ast.walk(s) if isinstance(n, ast.Slice))
        self.slices = tuple(dict.fromkeys(text for text in slices if text != ":"))
        owner = function.__qualname__.rsplit(".", 2)[-2:]
        self.module = self._module(owner[0] if len(owner) == 2 and owner[0].isidentifier() else None)

    def statements(self) -> list[ast.stmt]:
        """Return the simple statements, in order, and the headers of the others."""
        return self._statements

    def headers(self) -> list[int]:
        """Return the lines of the statements that decide which others run."""
        return [s.lineno for s in self.statements() if isinstance(s, (ast.If, ast.While, ast.For))]

    def edits(self, line: int, cost: int) -> Iterator[Edit]:
        """Yield the edits of this cost of the statement that begins at a line."""
        arguments = self.definition.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        names += self.attributes
        read = {n.id for n in ast.walk(self.definition) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for i, statement in enumerate(self.statements()):
            if statement.lineno == line:
                seen = {ast.unparse(statement)}
                names = sorted(dict.fromkeys(names), key=read.__contains__)  # first what nothing uses: forgotten?
                at_hand = AtHand(tuple(names), self.words, self.functions, self.slices)
                for other in other_writes(statement) if cost == 1 else ():
                    edit = self._rewritten(statement, other, cost)
                    if edit is not None:
                        yield edit
                for path, node in _expressions(statement):
                    before = _shown(node)
                    for new in CHANGES[cost](node, at_hand):
                        edit = self._edit(i, path, node, before, new, cost, seen)
                        if edit is not None:
                            yield edit
            stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            names += [n.id for n in stored]

    def _edit(
        self, i: int, path: Path, node: ast.expr, before: str, new: ast.expr, cost: int, seen: set[str]
    ) -> Edit | None:
        place, after = self.statements()[i], _shown(new)
        ast.fix_missing_locations(ast.copy_location(new, node))
        _replace(place, path, new)
        try:
            text = ast.unparse(place)
            code = None if text in seen else self._compiled()
        finally:
            _replace(place, path, node)
        if code is None:
            return None
        seen.add(text)
        edit = Edit(self.function, place.lineno, before, after, cost, code)
        unknown = [n for n in ast.walk(new) if isinstance(n, ast.Constant) and getattr(n, "unknown", False)]
        if not unknown:
            return edit

        def with_number(c: float) -> Edit | None:
            unknown[0].value = c
            return self._edit(i, path, node, before, new, cost, set())

        return replace(edit, number=with_number)

    def _rewritten(self, statement: ast.stmt, other: ast.stmt, cost: int) -> Edit | None:
        """Return the edit that puts another statement in the place of one."""
        bodies = (getattr(n, name, None) for n in ast.walk(self.definition) for name in ("body", "orelse", "finalbody"))
        body = next(b for b in bodies if isinstance(b, list) and any(s is statement for s in b))
        i = next(i for i, s in enumerate(body) if s is statement)
        body[i] = ast.fix_missing_locations(ast.copy_location(other, statement))
        try:
            code = self._compiled()
        finally:
            body[i] = statement
        texts = ast.unparse(statement), ast.unparse(other)
        return None if code is None else Edit(self.function, statement.lineno, *texts, cost, code)

    def _module(self, owner: str | None) -> ast.Module:
        """Return the definition in a module that gives it the free variables and the private names it has."""
        inner: ast.stmt = self.definition
        wanted = self.function.__code__.co_freevars
        if owner is not None:
            inner = ast.ClassDef(owner, [], [], [inner], [])
        outer = ast.parse("def factory():\n    pass").body[0]
        assert isinstance(outer, ast.FunctionDef)
        own = [ast.Global([self.definition.name])] if self.definition.name not in wanted else []  # it may call itself
        free = [ast.Assign([ast.Name(n, ast.Store())], ast.Constant(None)) for n in wanted if n != "__class__"]
        outer.body = [*own, *free, inner]
        return ast.fix_missing_locations(ast.Module([outer], []))

    def _compiled(self) -> CodeType | None:
        """Return the code of the definition, to take the place of the original's; None if it does not fit."""
        code = self.function.__code__
        try:
            whole = compile(self.module, code.co_filename, "exec")
        except (SyntaxError, ValueError):
            return None
        codes = [c for c in _codes_in(whole) if c.co_name == self.definition.name]
        return codes[0] if codes and codes[0].co_freevars == code.co_freevars else None


def _shown(node: ast.expr) -> str:
    """Return an expression as it is written; of an index with slices, with its brackets."""
    text = ast.unparse(node)
    index = isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts)
    return f"[{text[1:-1]}]" if index and text.startswith("(") else text


def _simple_statements(definition: ast.FunctionDef) -> list[ast.stmt]:
    found: list[ast.stmt] = []

    def visit(body: Sequence[ast.stmt]) -> None:
        for s in body:
            if not isinstance(s, (ast.FunctionDef, ast.ClassDef)) and not _is_docstring(s):
                found.append(s)
                for name in ("body", "orelse", "finalbody"):
                    visit(getattr(s, name, []))

    visit(definition.body)
    return found


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


@functools.lru_cache(maxsize=64)
def _definitions(file: str, length: int) -> list[tuple[ast.FunctionDef, ast.ClassDef | None]]:
    """Return the functions of a file, each with the class it is a method of."""
    try:
        module = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    owners = {id(f): c for c in ast.walk(module) if isinstance(c, ast.ClassDef) for f in c.body}
    return [(n, owners.get(id(n))) for n in ast.walk(module) if isinstance(n, ast.FunctionDef)]


def _attributes(definition: ast.FunctionDef, owner: ast.ClassDef | None) -> list[str]:
    """Return the attributes that a class assigns to itself, as they are written: self.gain."""
    arguments = definition.args.posonlyargs + definition.args.args
    if owner is None or not arguments:
        return []
    me = arguments[0].arg
    stored = (n for n in ast.walk(owner) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return list(dict.fromkeys(f"{me}.{n.attr}" for n in stored if isinstance(n.value, ast.Name) and n.value.id == me))


def _first(definition: ast.FunctionDef) -> int:
    return min([definition.lineno, *(d.lineno for d in definition.decorator_list)])


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


Path = tuple[tuple[str, int | None], ...]


def _expressions(statement: ast.stmt) -> Iterator[tuple[Path, ast.expr]]:
    """Yield the expressions that a statement computes, outer ones first, with the way to them."""
    queue: list[tuple[ast.AST, Path]] = [(statement, ())]
    while queue:
        node, path = queue.pop(0)
        for name, value in ast.iter_fields(node):
            if isinstance(node, ast.stmt) and name in ("targets", "target", "annotation", "body", "orelse"):
                continue
            for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.expr):
                    yield (*path, (name, i)), child
                if isinstance(child, (ast.expr, ast.keyword, ast.comprehension)):
                    queue.append((child, (*path, (name, i))))


def _replace(node: Any, path: Path, new: ast.AST) -> None:
    for name, i in path[:-1]:
        node = getattr(node, name) if i is None else getattr(node, name)[i]
    name, i = path[-1]
    if i is None:
        setattr(node, name, new)
    else:
        getattr(node, name)[i] = new
