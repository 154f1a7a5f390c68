"""Writing ops whose values functions of minigrad compute: as the NumPy expression they are, or with a helper."""

from __future__ import annotations

import ast
import functools
import inspect
import keyword
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from minigrad.emit.literals import ATOM, COMPARE, Text
from minigrad.emit.scope import Scope
from minigrad.program import Equation

__all__ = ["call_text", "defaults_of", "is_numpys", "spell_own"]


def call_text(name: str, operands: list[Text], keywords: list[str]) -> Text:
    """Return a call as source."""
    return Text(f"{name}({', '.join([*(o.code for o in operands), *keywords])})")


@functools.cache
def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a function, in order, with their defaults; none where it does not tell."""
    try:
        return {p.name: p.default for p in inspect.signature(function).parameters.values()}
    except (TypeError, ValueError):
        return {}


def is_numpys(function: Callable[..., Any]) -> bool:
    """Tell whether a function is one of NumPy's."""
    module = getattr(function, "__module__", None) or "numpy"
    return module.startswith("numpy") and not isinstance(function, functools.partial)


def spell_own(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    """Write an op of minigrad's own: a lambda as the expression it is, a function as a helper, else an argument."""
    function = eq.op.function
    if isinstance(function, FunctionType):
        if function.__name__ == "<lambda>":
            text = _inlined(function, operands, params, scope)
            if text is not None:
                return text
        elif _add_helper(function, scope):
            return call_text(function.__name__, operands, [f"{k}={scope.literal(v).code}" for k, v in params.items()])
    name = "".join(c if c.isalnum() else "_" for c in eq.op.name.removeprefix("np.").strip("<>"))
    name = name if name.isidentifier() and not keyword.iskeyword(name) else "function"
    bound = functools.partial(function, **params) if params else function
    return call_text(scope.argument(bound, name).code, operands, [])


def _inlined(function: FunctionType, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text | None:
    """Return the expression of a lambda with its parameters replaced."""
    found = _expression(function)
    if found is None:
        return None
    names, rest, source = found
    texts = dict(zip(names, operands, strict=False)) if rest is None else {}
    for name in names[len(texts) :]:
        texts[name] = scope.literal(params.get(name, defaults_of(function)[name]))
    if rest is not None:
        texts[rest] = Text(f"({''.join(f'{o.code}, ' for o in operands)})")
    values = {name: ast.parse(text.code, mode="eval").body for name, text in texts.items()}
    body = _Replace(values).visit(ast.parse(source, mode="eval").body)
    return Text(ast.unparse(body), ATOM if isinstance(body, (ast.Call, ast.Subscript, ast.Attribute)) else COMPARE)


@functools.cache
def _expression(function: FunctionType) -> tuple[tuple[str, ...], str | None, str] | None:
    """Return the parameters of one of minigrad's lambdas, that with a star, and its expression, if it is all NumPy."""
    code = function.__code__
    if code.co_freevars or not set(code.co_names) <= {"np", "math", *dir(np), *dir(np.linalg)}:
        return None
    try:
        source = Path(code.co_filename).read_text(encoding="utf-8")
    except OSError:  # minigrad without its sources
        return None
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    rest = code.co_varnames[count] if code.co_flags & inspect.CO_VARARGS else None
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and tuple(a.arg for a in (*node.args.args, *node.args.kwonlyargs)) == names
    ]
    return (names, rest, ast.unparse(found[0].body)) if len(found) == 1 else None


class _Replace(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Leave out what is the default anyway."""
        self.generic_visit(node)
        function: Any = np
        for name in ast.unparse(node.func).split(".")[1:]:
            function = getattr(function, name, None)
        defaults = defaults_of(function) if callable(function) else {}
        node.keywords = [
            k
            for k in node.keywords
            if not (isinstance(k.value, ast.Constant) and k.arg in defaults and defaults[k.arg] is k.value.value)
        ]
        return node


def _add_helper(function: Callable[..., Any], scope: Scope) -> bool:
    """Put a function of minigrad, and those it calls, above the emitted one, if they need NumPy only."""
    if not isinstance(function, FunctionType) or function.__code__.co_freevars:
        return False
    texts: dict[str, str] = {}
    todo: list[FunctionType] = [function]
    imports: set[str] = set()
    while todo:
        f = todo.pop()
        if f.__name__ in texts:
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(f))).body[0]
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for name in sorted(used & set(f.__globals__)):
            value = f.__globals__[name]
            if isinstance(value, ModuleType) and value in (np, math):
                imports.add("import math" if value is math else "import numpy as np")
            elif isinstance(value, FunctionType) and value.__module__.startswith("minigrad"):
                todo.append(value)
            elif isinstance(value, (int, float)):
                texts[name] = f"{name} = {value!r}\n"
            else:
                return False
        texts[f.__name__] = _without_annotations(tree) + "\n"
    scope.imports |= imports
    for name, text in reversed(texts.items()):
        scope.helper(name, text)
    return True


def _without_annotations(tree: ast.stmt) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    return ast.unparse(tree)
