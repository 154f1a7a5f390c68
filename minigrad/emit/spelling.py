"""How each op is written: operators, NumPy functions, indexing; and ops of minigrad's own in terms of NumPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.emit.literals import (
    ADD,
    AND,
    ATOM,
    COMPARE,
    MULTIPLY,
    OR,
    POWER,
    UNARY,
    XOR,
    Text,
    dtype_text,
    index_text,
)
from minigrad.emit.own import call_text, defaults_of, is_numpys, spell_own
from minigrad.emit.scope import Scope
from minigrad.emit.stacking import stack
from minigrad.op import OPS, Op
from minigrad.program import Const, Equation, Var
from minigrad.rules.index import cast, gather, getitem
from minigrad.rules.layout import ravel
from minigrad.shapes import normal_axes
from minigrad.simplify import permutation
from minigrad.special import erf
from minigrad.zero import zero_stays_zero

__all__ = ["shorter", "spell"]

INFIX: dict[Op, tuple[str, int]] = {
    OPS[f]: spelt
    for f, spelt in {
        np.add: ("+", ADD),
        np.subtract: ("-", ADD),
        np.multiply: ("*", MULTIPLY),
        np.divide: ("/", MULTIPLY),
        np.matmul: ("@", MULTIPLY),
        np.bitwise_and: ("&", AND),
        np.bitwise_or: ("|", OR),
        np.bitwise_xor: ("^", XOR),
        np.equal: ("==", COMPARE),
        np.not_equal: ("!=", COMPARE),
        np.less: ("<", COMPARE),
        np.less_equal: ("<=", COMPARE),
        np.greater: (">", COMPARE),
        np.greater_equal: (">=", COMPARE),
    }.items()
}
FLIPPED = {
    OPS[f]: OPS[g]
    for f, g in (
        (np.equal, np.equal),
        (np.not_equal, np.not_equal),
        (np.less, np.greater),
        (np.less_equal, np.greater_equal),
        (np.greater, np.less),
        (np.greater_equal, np.less_equal),
    )
}
PREFIX = {OPS[np.negative]: "-", OPS[np.invert]: "~"}
POWER_OP, TRANSPOSE, RESHAPE, CONCATENATE, COPY, EINSUM, MULTI_DOT = (
    OPS[f] for f in (np.power, np.transpose, np.reshape, np.concatenate, np.copy, np.einsum, np.linalg.multi_dot)
)
# parameters written without their names
BY_PLACE = {"shape", "shift", "window_shape", "axis1", "axis2", "source", "destination", "axes"}

ERF = """def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype)
"""


def spell(eq: Equation, operands: list[Text], scope: Scope) -> Text:
    """Return the source of what an equation computes, given that of its inputs."""
    op, params = eq.op, {k: v for k, v in eq.params.items() if v is not np._NoValue}
    if op in FLIPPED and isinstance(eq.inputs[0], Const) and isinstance(eq.inputs[1], Var):  # x == 0, not 0 == x
        return _infix(FLIPPED[op], operands[::-1], regroup=False)
    if op in INFIX:
        return _infix(op, operands, regroup=eq.of is not None and not scope.exact)
    if eq.of is not None and permutation(eq) == (1, 0):
        return Text(f"{operands[0].at_least(ATOM)}.T")
    if op in PREFIX:
        return Text(PREFIX[op] + operands[0].at_least(UNARY), UNARY)
    if op in SPECIAL:
        return SPECIAL[op](eq, operands, params, scope)
    if op.inputs[1:2] == ["where"]:
        return _reduction(eq, operands, params, scope)
    if op.name.startswith("scipy."):
        scope.imports.add(f"import {op.name.rsplit('.', 1)[0]}")
    elif not is_numpys(op.function):
        return spell_own(eq, operands, params, scope)
    return call_text(op.name, operands, _keywords(op.function, params, scope, len(operands)))


def _infix(op: Op, operands: list[Text], regroup: bool) -> Text:
    symbol, level = INFIX[op]
    left, right = operands
    tighter = 0 if regroup and symbol == "+" else 1  # a + (b - c) without the brackets rounds differently
    return Text(f"{left.at_least(level + (level == COMPARE))} {symbol} {right.at_least(level + tighter)}", level)


def _keywords(function: Callable[..., Any], params: dict[str, Any], scope: Scope, before: int = 1) -> list[str]:
    """Return the parameters as they are written in a call, behind `before` arrays: those that are not the default."""
    defaults = defaults_of(function)
    places = list(defaults)
    texts: list[str] = []
    if set(params) <= set(places):
        params = {name: params[name] for name in places if name in params}
    for name, value in params.items():
        value = value.item() if isinstance(value, np.integer) else value
        default = defaults.get(name, inspect.Parameter.empty)
        if value is default or (type(value) is type(default) and value == default):
            continue
        if (value is None or value is False) and default is np._NoValue:
            continue
        text = scope.literal(value).code
        in_place = name in BY_PLACE and places[before + len(texts) :][:1] == [name]
        texts.append(text if in_place else f"{name}={text}")
    return texts


# --- what is not written as it is called


def _reduction(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    """Write np.sum(x, axis=-1, where=mask)."""
    x, where, *mean = operands
    ndim = len(eq.inputs[0].shape)
    if params.get("axis") is not None:
        axes = normal_axes(params["axis"], ndim)
        if axes == tuple(range(ndim)) and not params.get("keepdims"):
            params = {k: v for k, v in params.items() if k != "axis"}
        elif len(axes) == 1 and isinstance(params["axis"], tuple):
            params = params | {"axis": -1 if axes[0] == ndim - 1 else axes[0]}
    keywords = _keywords(getattr(np, eq.op.name.removeprefix("np.")), params, scope)
    more = [] if where.code == "True" else [f"where={where.code}"]
    more += [f"mean={m.code}" for m in mean if m.code != "None"]
    return call_text(eq.op.name, [x], keywords + more)


def _index(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    x, *arrays = operands
    index = params["index"] if eq.of is None else shorter(params["index"], eq.inputs[0].shape)
    return Text(f"{x.at_least(ATOM)}[{index_text(index, [a.code for a in arrays])}]")


def shorter(index: Any, shape: tuple[int, ...]) -> Any:
    """Return an index in fewer words: x[:, :, 0:2] as x[..., :2]."""
    if not isinstance(index, tuple) or len(index) != len(shape) or not all(isinstance(i, (slice, int)) for i in index):
        return index
    if len(index) <= 3 and all(isinstance(i, int) or i == slice(None) for i in index):
        return index  # x[:, :, 0] is how people write it
    items: list[Any] = []
    for item, n in zip(index, shape, strict=True):
        if isinstance(item, int):
            items.append(item)
            continue
        start, stop, step = item.indices(n)
        item = slice(start or None, None if stop >= n else stop, None if step == 1 else step) if step > 0 else item
        items.append(item)
    whole = [item == slice(None) for item in items]
    if len(items) > 2 and all(whole[:-1]):
        return (Ellipsis, items[-1])
    while len(items) > 1 and whole.pop():
        items.pop()
    return tuple(items)


def _cast(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    return Text(f"{operands[0].at_least(ATOM)}.astype({dtype_text(params['dtype'])})")


def _transpose(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    if permutation(eq) == (1, 0):
        return Text(f"{operands[0].at_least(ATOM)}.T")
    return call_text("np.transpose", operands, _keywords(np.transpose, params, scope))


def _reshape(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    """Write a reshape; where it only adds axes of length 1, index with None."""
    before, after = eq.inputs[0].shape, eq.outs[0].shape
    x = operands[0]
    if before and 1 not in before and tuple(n for n in after if n != 1) == before:
        items = ["None" if n == 1 else ":" for n in after]
        if items[: len(before)] == [":"] * len(before):
            items = ["...", *items[len(before) :]]
        while items[-1] == ":":
            items.pop()
        return Text(f"{x.at_least(ATOM)}[{', '.join(items)}]")
    owner = _owner(eq, scope)
    if owner is not None:
        shape = f"{owner}.shape"
    elif len(after) == 2 and len(before) > 2 and before[-1] == after[-1] and 0 not in before:
        shape = f"(-1, {after[-1]})"
    else:
        shape = str(after[0]) if len(after) == 1 else str(after)
    order = params.get("order", "C")
    return call_text("np.reshape", [x], [shape] + ([] if order == "C" else [f"order={order!r}"]))


def _owner(eq: Equation, scope: Scope) -> str | None:
    """Return what an equation computes the gradient of, if that has its shape."""
    (out,) = eq.outs
    found = (name for v, name in scope.names.items() if v.shape == out.shape and out.name == f"d{v.name}")
    return None if scope.exact else next(found, None)


def _broadcast(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    owner = _owner(eq, scope)
    shape = scope.literal(params["shape"]).code if owner is None else f"{owner}.shape"
    return call_text("np.broadcast_to", operands, [shape])


def _expand_dims(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    if eq.of is None:
        return call_text("np.expand_dims", operands, _keywords(np.expand_dims, params, scope))
    return _reshape(eq, operands, {}, scope)


def _joined(name: str, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    parts = Text(f"[{', '.join(o.code for o in operands)}]")
    return call_text(name, [parts], _keywords(np.concatenate, {"axis": 0, **params}, scope))


def _multi_dot(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    return call_text(eq.op.name, [Text(f"[{', '.join(o.code for o in operands)}]")], [])


def _copy(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    return call_text("np.copy", operands, _keywords(np.copy, params, scope) if scope.exact else [])  # the layout


def _einsum(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    params = {k: v for k, v in params.items() if k != "subscripts" and v is not False}
    return call_text(
        "np.einsum", [scope.literal(eq.params["subscripts"]), *operands], _keywords(np.einsum, params, scope)
    )


def _power(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    if scope.exact:  # an array ** 2 is computed as a square
        return call_text("np.power", operands, [])
    base, exponent = operands
    return Text(f"{base.at_least(ATOM)} ** {exponent.at_least(UNARY)}", POWER)


def _zero_stays_zero(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    came, gradient = operands
    return Text(f"np.where(np.isnan({gradient.code}) & ({came.code} == 0), 0, {gradient.code})")


def _erf(eq: Equation, operands: list[Text], params: dict[str, Any], scope: Scope) -> Text:
    if scope.exact:
        scope.imports.add("from minigrad import erf")
    else:
        scope.imports.add("import math")
        scope.helper("erf", ERF)
    return call_text("erf", operands, [])


Speller = Callable[[Equation, list[Text], dict[str, Any], Scope], Text]
SPECIAL: dict[Op, Speller] = {
    getitem: _index,
    gather: _index,
    cast: _cast,
    TRANSPOSE: _transpose,
    RESHAPE: _reshape,
    OPS[np.broadcast_to]: _broadcast,
    OPS[np.expand_dims]: _expand_dims,
    ravel: lambda eq, operands, params, scope: call_text("np.ravel", operands, _keywords(np.ravel, params, scope)),
    CONCATENATE: lambda eq, operands, params, scope: _joined("np.concatenate", operands, params, scope),
    MULTI_DOT: _multi_dot,
    EINSUM: _einsum,
    COPY: _copy,
    stack: lambda eq, operands, params, scope: _joined("np.stack", operands, params, scope),
    POWER_OP: _power,
    zero_stays_zero: _zero_stays_zero,
    erf: _erf,
}
