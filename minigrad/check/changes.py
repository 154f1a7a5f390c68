"""The small changes of an expression that are tried on a line that may be wrong.

Something is taken away or exchanged for something else; another number; a sign, a factor, a variable, a transposition
put in; a term put in, with a number to be found.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["CHANGES", "AtHand", "is_module", "other_writes"]


@dataclass(frozen=True)
class AtHand:
    """What can be put in: the variables that are bound before the line, strings, functions and slices that are used."""

    names: tuple[str, ...]
    words: tuple[str, ...]
    functions: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()  # "1:", as in x[1:]


_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult)
_COMPARISONS = (ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq, ast.NotEq)
_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "std", "var")


def _exchanges(node: ast.expr, at_hand: AtHand) -> Iterator[ast.expr]:
    """Yield what an expression becomes when something in it is taken away or exchanged for something else."""
    match node:
        case ast.BinOp(left, op, right):
            for other in _ARITHMETIC:
                if not isinstance(op, other):
                    yield ast.BinOp(left, other(), right)
            yield left
            yield right
            yield ast.BinOp(right, op, left)
            if isinstance(op, ast.MatMult):
                yield ast.BinOp(_turned(left), op, right)
                yield ast.BinOp(left, op, _turned(right))
            yield from _regrouped(node)
        case ast.UnaryOp(ast.USub(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Compare(left, [op], comparators):
            for comparison in _COMPARISONS:
                if not isinstance(op, comparison):
                    yield ast.Compare(left, [comparison()], comparators)
        case ast.Name(name, ast.Load()):
            for variable in at_hand.names:
                if variable != name:
                    yield _variable(variable)
            yield _turned(node)
        case ast.Attribute(value, "T"):
            yield value
        case ast.Attribute(_, _, ast.Load()) if ast.unparse(node) in at_hand.names:
            for variable in at_hand.names:
                if variable != ast.unparse(node):
                    yield _variable(variable)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Tuple(elts, ast.Load()) if len(elts) > 1:
            for i in range(len(elts)):
                for j in range(i):
                    swapped = list(elts)
                    swapped[i], swapped[j] = swapped[j], swapped[i]
                    yield ast.Tuple(swapped, ast.Load())
        case ast.Slice() if ast.unparse(node) in at_hand.slices:
            yield from (_slice(other) for other in at_hand.slices if other != ast.unparse(node))
        case ast.Constant(str() as word):
            yield from (ast.Constant(other) for other in at_hand.words if other != word)


def _regrouped(node: ast.BinOp) -> Iterator[ast.expr]:
    """Yield `(a + c) * b` and `a * (b + c)` for `a * b + c`: the same with the brackets elsewhere."""
    match node:
        case ast.BinOp(ast.BinOp(a, inner, b), outer, c) if type(inner) is not type(outer):
            yield ast.BinOp(ast.BinOp(a, outer, c), inner, b)
            yield ast.BinOp(a, inner, ast.BinOp(b, outer, c))


def _other_calls(node: ast.Call) -> Iterator[ast.expr]:
    method = isinstance(node.func, ast.Attribute)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    plain = [a for a in node.args if not isinstance(a, ast.Starred)]
    yield from plain[:1]
    if name == "range":
        yield _called(_variable("reversed"), node)
    if method and not is_module(node.func.value):  # type: ignore[attr-defined]
        yield node.func.value  # type: ignore[attr-defined]
    for i in range(len(plain)):
        for j in range(i):
            args = list(node.args)
            args[i], args[j] = args[j], args[i]
            yield ast.Call(node.func, args, node.keywords)
    for i, keyword in enumerate(node.keywords):
        rest = node.keywords[:i] + node.keywords[i + 1 :]
        yield ast.Call(node.func, node.args, rest)
        if keyword.arg == "axis":
            for axis in (-1, 0, 1, -2, None):
                yield ast.Call(node.func, node.args, [*rest, ast.keyword("axis", ast.Constant(axis))])
    if name in _REDUCTIONS and method:
        for other in _REDUCTIONS[:4]:
            if other != name:
                yield ast.Call(ast.Attribute(node.func.value, other, ast.Load()), node.args, node.keywords)  # type: ignore[attr-defined]
        if not any(k.arg == "keepdims" for k in node.keywords):
            yield ast.Call(node.func, node.args, [*node.keywords, ast.keyword("keepdims", ast.Constant(True))])


def _numbers(node: ast.expr, at_hand: AtHand) -> Iterator[ast.expr]:
    """Yield a number in place of another, some integers, or one to be found; a call with an option put in."""
    if isinstance(node, ast.Call):
        yield from _options(node, at_hand)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield _unknown()
        if type(node.value) is float:
            yield from (ast.Constant(2 * node.value), ast.Constant(node.value / 2))
            yield from (_variable(name) for name in at_hand.names)
        if type(node.value) is int:
            for number in (
                node.value + 1,
                node.value - 1,
                node.value + 2,
                node.value - 2,
                -node.value,
                0,
                1,
                -1,
            ):
                yield ast.Constant(number)


def _unknown() -> ast.Constant:
    constant = ast.Constant(1.0)
    constant.unknown = True  # type: ignore[attr-defined]
    return constant


def _takes_insertions(node: ast.expr) -> bool:
    return not isinstance(node, (ast.Constant, ast.Tuple, ast.Slice, ast.Starred)) and not is_module(node)


def _insertions(node: ast.expr, at_hand: AtHand) -> Iterator[ast.expr]:
    """Yield what an expression becomes when a sign, a factor, a term or a transposition is put in."""
    if not _takes_insertions(node):
        return
    yield ast.BinOp(_unknown(), ast.Mult(), node)
    yield ast.UnaryOp(ast.USub(), node)
    yield ast.BinOp(ast.Constant(0.5), ast.Mult(), node)
    yield ast.BinOp(ast.Constant(1), ast.Sub(), node)
    yield ast.BinOp(ast.Constant(1), ast.Add(), node)
    yield ast.BinOp(node, ast.Pow(), ast.Constant(2))
    for name in at_hand.names:
        for op in (ast.Mult, ast.Div, ast.Add, ast.Sub):
            yield ast.BinOp(node, op(), _variable(name))
        yield ast.Call(
            ast.Attribute(node, "reshape", ast.Load()),
            [ast.Attribute(_variable(name), "shape", ast.Load())],
            [],
        )
    if not isinstance(node, ast.Name):
        yield _turned(node)
    yield _called(ast.Attribute(node, "swapaxes", ast.Load()), ast.Constant(-1), ast.Constant(-2))
    for function in at_hand.functions:
        yield _called(_variable(function), node)
    yield from _turns_before(node, at_hand)


def _turns_before(node: ast.expr, at_hand: AtHand) -> Iterator[ast.expr]:
    """Yield `h[t - 1] if t else h0` for `h[t]` and `h[t - 1]`: what a loop had on its turn before, or began with."""
    match node:
        case ast.Subscript(array, ast.Name(i) | ast.BinOp(ast.Name(i), ast.Sub(), ast.Constant(1)), ast.Load()):
            before = ast.BinOp(_variable(i), ast.Sub(), ast.Constant(1))
            for name in at_hand.names:
                if name != i:
                    yield ast.IfExp(_variable(i), ast.Subscript(array, before, ast.Load()), _variable(name))


def _options(node: ast.Call, at_hand: AtHand) -> Iterator[ast.expr]:
    """Yield a call with an option put in: an axis, or what is at hand by the name of the option."""
    given = [k.arg for k in node.keywords]
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    axes = (0, -1, 1) if name in _REDUCTIONS else ()
    options = [ast.keyword("axis", ast.Constant(axis)) for axis in axes]
    options += [ast.keyword(n, ast.Name(n, ast.Load())) for n in at_hand.names if n.isidentifier()]
    for option in options:
        if option.arg not in given:
            yield ast.Call(node.func, node.args, [*node.keywords, option])


def _called(function: ast.expr, *args: ast.expr) -> ast.Call:
    return ast.Call(function, list(args), [])


def _terms(node: ast.expr, at_hand: AtHand) -> Iterator[ast.expr]:
    """Yield an expression with a term put in: a number to be found, times a variable or a product of two.

    In place of a number, any other.
    """
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield _unknown()
    if not _takes_insertions(node):
        return
    yield ast.BinOp(node, ast.Add(), _unknown())
    for name in at_hand.names:
        yield ast.BinOp(node, ast.Add(), ast.BinOp(_unknown(), ast.Mult(), _variable(name)))
    for i, a in enumerate(at_hand.names):
        for b in at_hand.names[i:]:
            both = ast.BinOp(_variable(a), ast.Mult(), _variable(b))
            yield ast.BinOp(node, ast.Add(), ast.BinOp(_unknown(), ast.Mult(), both))


def _variable(name: str) -> ast.expr:
    """Return `gain` or `self.gain` as an expression."""
    owner, dot, attribute = name.rpartition(".")
    name_of = ast.Name(owner or attribute, ast.Load())
    return ast.Attribute(name_of, attribute, ast.Load()) if dot else name_of


def _slice(text: str) -> ast.expr:
    """Return `1:` as an expression."""
    subscript = ast.parse(f"x[{text}]", mode="eval").body
    assert isinstance(subscript, ast.Subscript)
    return subscript.slice


def _turned(node: ast.expr) -> ast.expr:
    return ast.Attribute(node, "T", ast.Load())


def is_module(node: ast.expr) -> bool:
    """Tell whether an expression names a module of functions on arrays."""
    return isinstance(node, ast.Name) and node.id in ("np", "numpy", "math")


def other_writes(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield what a statement that writes to a part becomes when it adds instead, or the other way round."""
    match statement:
        case ast.Assign([ast.Subscript(array, index) as target], value):
            yield ast.AugAssign(target, ast.Add(), value)
            yield ast.Expr(_at("add", array, index, value))
        case ast.AugAssign(ast.Subscript(array, index) as target, op, value):
            if isinstance(op, (ast.Add, ast.Sub)):
                yield ast.AugAssign(target, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), value)
                yield ast.Expr(_at("add" if isinstance(op, ast.Add) else "subtract", array, index, value))
            yield ast.Assign([target], value)


def _at(ufunc: str, array: ast.expr, index: ast.expr, value: ast.expr) -> ast.expr:
    """Return np.add.at(array, index, value), which adds up where an index repeats."""
    return _called(ast.Attribute(_variable(f"np.{ufunc}"), "at", ast.Load()), array, index, value)


CHANGES: dict[int, Callable[[ast.expr, AtHand], Iterator[ast.expr]]] = {
    1: _exchanges,
    2: _numbers,
    3: _insertions,
    4: _terms,
}
"""By cost: what takes something away or exchanges it comes before what adds."""
