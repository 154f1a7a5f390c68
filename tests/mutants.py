"""Functions broken in every single-line way: one node of their syntax tree changed at a time."""

from __future__ import annotations

import ast
import inspect
import itertools
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """A broken function, the line that is broken, and what was done to it."""

    function: Callable[..., Any]
    line: int  # the first line of the statement, in the file of the original
    kind: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.function.__name__}:{self.line} {self.kind}: {self.before} -> {self.after}"


def mutants(function: Callable[..., Any]) -> Iterator[Mutant]:
    """Yield every mutant of a function of a module. Each has a source of its own, with the lines of the original's."""
    file = inspect.getsourcefile(function)
    assert file is not None
    lines = linecache.getlines(file)
    module = ast.parse("".join(lines))
    definition = next(
        n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == function.__name__
    )
    names = [a.arg for a in definition.args.posonlyargs + definition.args.args]
    for statement in _statements(definition):
        for node in _expressions(statement):
            for kind, new in _changes(node, list(dict.fromkeys(names))):
                text = ast.unparse(ast.fix_missing_locations(new))
                broken = _with_text(lines, node, text)
                yield Mutant(function_of(function, broken), statement.lineno, kind, ast.unparse(node), text)
        names += _bound(statement)


_numbers = itertools.count()


def _with_text(lines: list[str], node: ast.expr, text: str) -> list[str]:
    """Return the lines with an expression replaced: as many lines, so that those after it keep their numbers."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    first, last = lines[node.lineno - 1].encode(), lines[node.end_lineno - 1].encode()
    more = "\n" * (node.end_lineno - node.lineno)
    head, tail = first[: node.col_offset].decode(), last[node.end_col_offset :].decode()
    changed = f"{head}({text}{more}){tail}"
    return [*lines[: node.lineno - 1], *changed.splitlines(keepends=True), *lines[node.end_lineno :]]


def function_of(original: Callable[..., Any], lines: list[str]) -> Callable[..., Any]:
    """Return the function of the original's name in these lines; everything else is the original module's."""
    file = f"<mutant {next(_numbers)} of {original.__name__}>"
    source = "".join(lines)
    linecache.cache[file] = (len(source), None, lines, file)
    tree = ast.parse(source)
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == original.__name__]
    scope = dict(original.__globals__)  # type: ignore[attr-defined]
    exec(compile(tree, file, "exec"), scope)
    return scope[original.__name__]  # type: ignore[no-any-return]


def _statements(definition: ast.AST) -> list[ast.stmt]:
    """Return the simple statements and the headers of the compound ones; no docstring, no nested functions."""
    found: list[ast.stmt] = []

    def visit(body: list[ast.stmt]) -> None:
        for s in body:
            if isinstance(s, ast.FunctionDef) or (
                isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
            ):
                continue
            found.append(s)
            for field in ("body", "orelse", "finalbody"):
                visit(getattr(s, field, []))

    visit(definition.body)  # type: ignore[attr-defined]
    return found


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions that a statement computes."""
    for field, value in ast.iter_fields(statement):
        if field not in ("body", "orelse", "finalbody", "targets", "target", "annotation"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr):
                    yield from (n for n in ast.walk(child) if isinstance(n, ast.expr))


def _bound(statement: ast.stmt) -> list[str]:
    targets = getattr(statement, "targets", [])
    return [
        n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]


OTHER = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPARE = {
    ast.Gt: ast.Lt,
    ast.Lt: ast.Gt,
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


def _changes(node: ast.expr, names: list[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield what an expression can be broken into."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in OTHER:
            yield "operator", ast.BinOp(node.left, OTHER[type(node.op)](), node.right)
            yield "drop a term", node.left
            yield (
                "drop a term",
                node.right if not isinstance(node.op, ast.Sub) else ast.UnaryOp(ast.USub(), node.right),
            )
        if isinstance(node.op, ast.MatMult):
            for side in ("left", "right"):
                turned = ast.Attribute(getattr(node, side), "T", ast.Load())
                yield (
                    "a transpose",
                    ast.BinOp(
                        turned if side == "left" else node.left,
                        node.op,
                        turned if side == "right" else node.right,
                    ),
                )
            yield "order", ast.BinOp(node.right, node.op, node.left)
        if isinstance(node.op, (ast.Mult, ast.Div, ast.MatMult)):
            yield "sign", ast.UnaryOp(ast.USub(), node)
            yield "a factor", ast.BinOp(node, ast.Mult(), ast.Constant(2))
            yield "a factor", ast.BinOp(node, ast.Mult(), ast.Constant(1.0005))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        v = node.value
        yield "a number", ast.Constant(v + 1)
        yield "a number", ast.Constant(v - 1) if v > 0 else ast.UnaryOp(ast.USub(), ast.Constant(1 - v))
        if isinstance(v, float):
            yield "a number", ast.Constant(2 * v)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "a flag", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for other in ("q", "k", "v", "o", "gate", "up", "down"):
            if other != node.value and node.value in ("q", "k", "v", "o", "gate", "up", "down"):
                yield "a key", ast.Constant(other)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
        yield "a comparison", ast.Compare(node.left, [COMPARE[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        for other in names:
            if other != node.id:
                yield "a variable", ast.Name(other, ast.Load())
    elif isinstance(node, ast.Call):
        yield from _broken_call(node)


def _broken_call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in ("sum", "mean") and isinstance(node.func, ast.Attribute):
        other = "mean" if name == "sum" else "sum"
        yield (
            "sum or mean",
            ast.Call(ast.Attribute(node.func.value, other, ast.Load()), node.args, node.keywords),
        )
    if node.args and not isinstance(node.args[0], ast.Starred) and not isinstance(node.func, ast.Attribute):
        yield "drop a call", node.args[0]
    if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") != "np":
        yield "drop a call", node.func.value
    plain = [i for i, a in enumerate(node.args) if not isinstance(a, ast.Starred)]
    for i, j in itertools.pairwise(plain):
        args = list(node.args)
        args[i], args[j] = args[j], args[i]
        yield "order", ast.Call(node.func, args, node.keywords)
    for i in range(len(node.keywords)):
        if node.keywords[i].arg is not None:
            yield "drop an option", ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
