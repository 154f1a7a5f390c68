"""How a call of NumPy with a Tensor among its arguments finds its op: keywords, `out=`, and the methods of ufuncs."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np

from minigrad.errors import CutGraphError, here, unsupported
from minigrad.op import COMPOSITES, OPS, REFUSED, Recorded, parameters, public_name
from minigrad.rules import apply, special
from minigrad.rules import index as indexing
from minigrad.rules import unsupported as refusals

__all__ = ["call_function", "call_ufunc", "unsupported"]


def call_function(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer `__array_function__`: find the op or the composite of a NumPy function and call it."""
    op = OPS.get(function)
    if op is not None:
        out = kwargs.pop("out", None)
        inputs, params = op.bind(*args, **kwargs)
        out = params.pop("out", out)
        for name, value in params.items():
            if isinstance(value, Recorded) and not value._may_be_read():  # type: ignore[attr-defined]
                if value._tape.symbolic:
                    raise value._refused(f"to the parameter {name} of {op.name}")  # type: ignore[attr-defined]
                raise unsupported(f"{op.name}(..., {name}=Tensor)", f"{name} is not differentiated")
            if isinstance(value, (list, np.ndarray)):
                params[name] = copy.deepcopy(value)  # so that later changes do not matter
        result = op.apply(inputs, params)
    elif function in COMPOSITES:
        args, out = _without_out(function, args, kwargs)
        result = COMPOSITES[function](*args, **kwargs)
    elif (plain := _read(args)) is not None:
        return function(*plain, **kwargs)
    else:
        raise unsupported(public_name(function), refusals.reason(function))
    return result if out is None else _write(out, result, function)


def _read(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the arguments as plain data, if the only Tensors are those of a trace that Python code may look at."""
    tensors = [x for x in args if isinstance(x, Recorded)]
    if not tensors or not all(x._may_be_read() for x in tensors):  # type: ignore[attr-defined]
        return None
    return tuple(x._tape.read(x) if isinstance(x, Recorded) else x for x in args)


def _without_out(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """Take `out` from the arguments, given by name or by place; what stands behind it is then given by name."""
    if len(args) > 2 and not isinstance(function, np.ufunc):
        names = list(parameters(function))
        if "out" in names and names.index("out") < len(args):
            place = names.index("out")
            kwargs.update(zip(names[place:], args[place:], strict=False))
            args = args[:place]
    return args, kwargs.pop("out", None)


def _write(out: Any, result: Any, function: Any) -> Any:
    """Put a result into `out=`, which must be a Tensor to carry the gradient."""
    if isinstance(out, tuple):
        if len(out) > 1:
            return tuple(r if o is None else _write(o, r, function) for o, r in zip(out, result, strict=True))
        out = out[0]
    if out is None:
        return result
    if not isinstance(out, Recorded):
        if not isinstance(result, Recorded):
            out[...] = result  # nothing to lose: the result is a constant
            return out
        raise CutGraphError(
            f"{public_name(function)} was asked to write a Tensor into a plain array (out= or an augmented "
            "assignment), which cannot carry its gradient.\n"
            f"  at   {here()}\n"
            "  fix  make the array from a Tensor (np.zeros_like(t), np.empty_like(t)), or write y = y + t for y += t"
        )
    if not np.can_cast(getattr(result, "dtype", type(result)), out.dtype, "same_kind"):  # type: ignore[attr-defined]
        raise TypeError(f"{public_name(function)}: cannot cast {result.dtype} to {out.dtype} for out= ({here()})")  # type: ignore[attr-defined]
    out[...] = result  # type: ignore[index]
    return out


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer `__array_ufunc__`: a call with keywords, or one of the methods of the ufunc."""
    out = kwargs.pop("out", None)
    known = ufunc in OPS or ufunc in COMPOSITES or special.lookup(ufunc)
    if not known or ufunc in REFUSED:
        raise unsupported(public_name(ufunc), refusals.reason(ufunc))
    if method == "__call__":
        return _call(ufunc, inputs, out, kwargs)
    if method == "at":
        return _at(ufunc, *inputs)
    if method == "outer":
        a, b = inputs
        result = ufunc(np.reshape(a, (*np.shape(a), *(1,) * np.ndim(b))), b, **kwargs)
    else:
        result = _by_method(ufunc, method, inputs, kwargs)
    return result if out is None else _write(out, result, ufunc)


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any, kwargs: dict[str, Any]) -> Any:
    where = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    for ignored, usual in (("casting", "same_kind"), ("order", "K"), ("subok", True)):
        if kwargs.get(ignored) == usual:
            kwargs.pop(ignored)
    if dtype is not None:
        inputs = tuple(x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype) for x in inputs)
    function = OPS.get(ufunc) or COMPOSITES[ufunc]
    if kwargs and ufunc in OPS:
        raise unsupported(f"{public_name(ufunc)}(..., {', '.join(kwargs)}=)", "this keyword is not differentiated")
    result = function(*inputs, **kwargs)
    if where is not True:
        present = out[0] if isinstance(out, tuple) else out
        if present is None:
            raise unsupported(f"{public_name(ufunc)}(..., where=)", "without out= the rest of the result is undefined")
        result = np.where(where, result, present)
    return result if out is None else _write(out, result, ufunc)


def _by_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do `ufunc.reduce`, accumulate or reduceat: with a function such as np.sum, or by calling the ufunc repeatedly."""
    generic, names = _GENERIC[method]
    array, *rest = inputs
    kwargs = {"axis": 0, **dict(zip(names, rest, strict=False)), **kwargs}
    usual = {"dtype": None, "where": True, "keepdims": False}
    kwargs = {k: v for k, v in kwargs.items() if v is not np._NoValue and v is not usual.get(k, np._NoValue)}
    function = apply.METHODS.get((ufunc, method))
    if function is None or set(kwargs) - set(parameters(function)):
        function = functools.partial(generic, ufunc)
    return function(array, **kwargs)


_GENERIC: dict[str, tuple[Any, tuple[str, ...]]] = {  # what calls the ufunc repeatedly, and its arguments by place
    "reduce": (apply.reduced, ("axis", "dtype", "out", "keepdims", "initial", "where")),
    "accumulate": (apply.accumulated, ("axis", "dtype")),
    "reduceat": (apply.reduced_at, ("indices", "axis", "dtype")),
}


def _at(ufunc: np.ufunc, target: Any, index: Any, *values: Any) -> None:
    """Do `ufunc.at(target, index, value)` on a Tensor: unbuffered, so that repeated indices accumulate."""
    if not isinstance(target, Recorded):
        raise CutGraphError(
            f"{public_name(ufunc)}.at was asked to write a Tensor into a plain array, which cannot carry its gradient."
            "\n"
            f"  at   {here()}\n"
            "  fix  make the array from a Tensor: np.zeros_like(t)"
        )
    if ufunc is np.add or ufunc is np.subtract:
        template, arrays = indexing.split_index(index)
        value = values[0] if ufunc is np.add else np.negative(values[0])
        target[...] = indexing.add_at(target, value, *arrays, index=template)  # type: ignore[index]
        return
    places = np.arange(target.size).reshape(target.shape)[index]  # type: ignore[attr-defined]
    flat = np.ravel(places)
    if np.unique(flat).size == flat.size:
        target[index] = ufunc(target[index], *values)  # type: ignore[index]
        return
    wide = [np.ravel(np.broadcast_to(value, places.shape)) for value in values]
    turn = _times_before(flat)
    for k in range(np.max(turn) + 1):  # what comes k times before must be in place already
        now = np.flatnonzero(turn == k)
        where = np.unravel_index(flat[now], target.shape)  # type: ignore[attr-defined]
        target[where] = ufunc(target[where], *(value[now] for value in wide))  # type: ignore[index]


def _times_before(places: np.ndarray) -> np.ndarray:
    """Return for each place how often it stands further to the left."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    times = np.empty_like(order)
    times[order] = np.arange(order.size) - np.searchsorted(ordered, ordered)
    return times
