"""What users call: value_and_grad, grad, vjp, jvp, stop_gradient."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import (
    DtypeError,
    MinigradError,
    ShapeError,
    UnusedParameterWarning,
    check_function,
    here,
    user_code,
    warn,
)
from minigrad.gradients import as_dtype
from minigrad.run import Run, argument_paths
from minigrad.tensor import Tensor, dtype_of

__all__ = ["grad", "jvp", "stop_gradient", "value_and_grad", "vjp"]


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Evaluate a function and return the map from a gradient of its result to gradients of its arguments.

    Parameters
    ----------
    f
        A function of arrays, or trees of arrays, that returns an array or a tree of arrays.
    *primals
        Its arguments: float or complex arrays, or trees of them.
    has_aux
        `f` returns `(result, aux)`; aux is passed through.

    Returns
    -------
    out
        The result of `f`.
    pull : callable
        `pull(cotangent)` returns a tuple with one gradient per argument, of its structure, shapes and dtypes. The
        cotangent has the structure and shapes of `out`. It can be called any number of times.
    aux
        Only with `has_aux=True`.

    Raises
    ------
    DtypeError
        If an argument is not floating point.
    ShapeError
        If a cotangent has not the shape of the result.
    """
    return _vjp("vjp", f, primals, has_aux)


def _vjp(who: str, f: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool = False) -> Any:
    check_function(f, who)
    run = Run(who, f, primals, range(len(primals)))
    try:
        with user_code():
            out = f(*run.arguments)
        out, aux = _with_aux(out, f) if has_aux else (out, None)
        aux = tree.map(run.lower, aux)
        results, structure = tree.flatten(out)
        results = [r._snapshot() if isinstance(r, Tensor) else r for r in results]
    finally:
        run.tape.open = False
    # The values themselves are not kept: a result may be large, and the rules say what they need.
    shapes = [np.shape(r) for r in results]
    slots = [(r._slot, r.dtype) if run.own(r) else None for r in results]

    def pull(cotangent: Any) -> tuple[Any, ...]:
        cotangents, came = tree.flatten(cotangent)
        tree.check_same(structure, came, "vjp: the cotangent and the result")
        seeds: dict[int, Any] = {}
        check_shapes("vjp: the cotangent", cotangents, "the result", shapes, tree.paths(cotangent))
        for c, result in zip(cotangents, slots, strict=True):
            if result is not None:
                slot, dtype = result
                c = as_dtype(c if hasattr(c, "dtype") else np.asarray(c)[()], dtype)
                seeds[slot] = seeds[slot] + c if slot in seeds else c
        return tuple(run.structured(run.back(seeds, release=False)[0]))

    value = tree.unflatten(structure, [run.lower(r) for r in results])
    return (value, pull, aux) if has_aux else (value, pull)


def value_and_grad(
    f: Callable[..., Any],
    *args: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    unused: str = "warn",
    **kwargs: Any,
) -> Any:
    """Return the value of a scalar function and its gradient.

    `value_and_grad(loss, params, *args)` evaluates; `value_and_grad(loss)` returns the function that does.

    Parameters
    ----------
    f
        A function of arrays that returns a real scalar: written in plain NumPy.
    *args, **kwargs
        Its arguments. Those named by `argnums` (the first by default) are arrays or trees of arrays.
    argnums
        Which positional arguments to differentiate: a number, or several.
    has_aux
        `f` returns `(loss, aux)`; the value is then `(loss, aux)`.
    unused : {"warn", "raise", "zero"}
        What to do with a parameter that the loss does not depend on; its gradient is zero.

    Returns
    -------
    value
        What `f` returns.
    gradient
        The structure, shapes and dtypes of the argument; a tuple of them if `argnums` is a sequence. The arrays are
        new and writable.

    Raises
    ------
    DtypeError
        If a parameter is not floating point, or the loss is complex.
    ShapeError
        If the loss is not a scalar.
    """
    _check(f, unused, "value_and_grad")
    if not args and not kwargs:
        return _transform(value_and_grad, f, argnums=argnums, has_aux=has_aux, unused=unused)
    return _value_and_grad("value_and_grad", f, args, kwargs, argnums, has_aux, unused)


def _value_and_grad(
    who: str,
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    unused: str,
) -> Any:
    chosen, several = _chosen(argnums, len(args))
    run = Run(who, f, args, chosen)
    try:
        arguments = list(args)
        for n, tensors in zip(chosen, run.arguments, strict=True):
            arguments[n] = tensors
        with user_code():
            loss = f(*arguments, **kwargs)
        loss, aux = _with_aux(loss, f) if has_aux else (loss, None)
        aux = tree.map(run.lower, aux)
        _check_scalar(loss)
        loss = loss._snapshot() if isinstance(loss, Tensor) else loss
        seeds = {loss._slot: np.ones((), loss.dtype)[()]} if run.own(loss) else {}
        value = run.lower(loss)
        del arguments, loss
        gradients, arrived = run.back(seeds, release=True)
    finally:
        run.tape.open = False
        run.tape.nodes.clear()  # not only for the memory: a traceback may keep the tape alive
    if unused != "zero" and not all(arrived):
        _report_unused([p for p, a in zip(argument_paths(f, args, chosen), arrived, strict=True) if not a], unused)
    trees = run.structured(gradients)
    return (value, aux) if has_aux else value, tuple(trees) if several else trees[0]


def grad(
    f: Callable[..., Any],
    *args: Any,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    unused: str = "warn",
    **kwargs: Any,
) -> Any:
    """Return the gradient of a scalar function; `grad(f)` returns the function that does.

    As `value_and_grad` without the value; with `has_aux=True`, returns `(gradient, aux)`.
    """
    _check(f, unused, "grad")
    if not args and not kwargs:
        return _transform(grad, f, argnums=argnums, has_aux=has_aux, unused=unused)
    value, gradient = _value_and_grad("grad", f, args, kwargs, argnums, has_aux, unused)
    return (gradient, value[1]) if has_aux else gradient


def _check(f: Any, unused: str, who: str) -> None:
    check_function(f, who)
    if unused not in ("warn", "raise", "zero"):
        raise ValueError(f"{who}: unused should be 'warn', 'raise' or 'zero', got {unused!r}")


def _chosen(argnums: int | Sequence[int], n_args: int) -> tuple[list[int], bool]:
    """Return the numbers of the arguments to differentiate, and whether they were given as a sequence."""
    several = hasattr(argnums, "__iter__")
    given = [operator.index(n) for n in argnums] if several else [operator.index(argnums)]  # type: ignore[arg-type, union-attr]
    chosen = [n + n_args if n < 0 else n for n in given]
    if len(set(chosen)) < len(chosen) or not all(0 <= n < n_args for n in chosen):
        raise TypeError(
            f"argnums should be different numbers of positional arguments, of which there are {n_args}; "
            f"got {argnums} ({here()})"
        )
    return chosen, several


def _with_aux(result: Any, f: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the two parts of what a function returned with `has_aux=True`."""
    if not isinstance(result, tuple) or len(result) != 2:
        kind = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise MinigradError(
            f"with has_aux=True, {getattr(f, '__name__', 'f')} should return (result, aux), got {kind} ({here()})"
        )
    return result


def _transform(transform: Callable[..., Any], f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    @functools.wraps(f)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise TypeError(f"{transform.__name__}({getattr(f, '__name__', 'f')}) needs the argument to differentiate")
        return transform(f, *args, **options, **kwargs)

    return transformed


def _check_scalar(loss: Any) -> None:
    if not isinstance(loss, (Tensor, np.ndarray, np.generic, int, float, complex)):
        raise MinigradError(
            f"the loss should be a real scalar, got {type(loss).__name__} ({here()})\n"
            "  fix  return (loss, aux) with has_aux=True to return more than the loss"
        )
    if np.shape(loss) != ():
        raise ShapeError(
            f"the loss should be a scalar, got shape {np.shape(loss)} ({here()})\n"
            "  fix  reduce it (np.sum, np.mean), or use minigrad.vjp or minigrad.jacobian"
        )
    if dtype_of(loss).kind == "c":
        raise DtypeError(f"the loss should be real, got {dtype_of(loss)}; take np.real or np.abs of it ({here()})")


def _report_unused(paths: list[str], unused: str) -> None:
    message = (
        f"the loss does not depend on {', '.join(paths)}; the gradient is zero ({here()})\n"
        "  fix  use the parameter, leave it out, or say unused='zero'"
    )
    if unused == "raise":
        raise MinigradError(message)
    warn(message, UnusedParameterWarning)


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return the value of a function and its derivative in a direction (forward mode).

    The pullback of `f` is linear; its own pullback is the push-forward. It costs about three evaluations of `f`.

    Parameters
    ----------
    f
        A function of arrays that returns an array or a tree of arrays.
    primals, tangents
        The arguments, and the direction: sequences of the same structure and shapes.

    Returns
    -------
    out, tangent
        The value and its derivative, of the same structure.
    """
    tangents = tuple(tangents)
    tree.check_same(tree.structure(tuple(primals)), tree.structure(tangents), "jvp: the primals and the tangents")
    paths = tree.paths(tangents)
    shapes = [np.shape(x) for x in tree.leaves(tuple(primals))]
    check_shapes("jvp: the tangent", tree.leaves(tangents), "the primal", shapes, paths)
    value, pull = _vjp("jvp", f, tuple(primals))
    leaves, structure = tree.flatten(value)
    moving = [i for i, x in enumerate(leaves) if dtype_of(x).kind in "fc"]

    def pull_moving(*cotangents: Any) -> tuple[Any, ...]:
        whole = [np.zeros(np.shape(x)) for x in leaves]
        for i, c in zip(moving, cotangents, strict=True):
            whole[i] = c
        return pull(tree.unflatten(structure, whole))  # type: ignore[no-any-return]

    # Any point will do, as the pullback is linear; zeros would meet the 0 * inf = 0 convention.
    _, push = vjp(pull_moving, *(np.ones(np.shape(leaves[i]), dtype_of(leaves[i]))[()] for i in moving))
    pushed = dict(zip(moving, push(tangents), strict=True))
    derivatives = [pushed[i] if i in pushed else np.zeros(np.shape(x), dtype_of(x))[()] for i, x in enumerate(leaves)]
    return value, tree.unflatten(structure, derivatives)


def check_shapes(what: str, given: list[Any], of: str, wanted: list[tuple[int, ...]], paths: list[str]) -> None:
    """Raise a ShapeError that names the first array with another shape than wanted."""
    for x, shape, path in zip(given, wanted, paths, strict=True):
        if np.shape(x) != shape:
            place = f" {path}" if path else ""
            raise ShapeError(f"{what}{place} has shape {np.shape(x)}, {of} has {shape} ({here()})")


def stop_gradient(x: Any) -> Any:
    """Return plain data, cut off from the recording: no gradient flows through it.

    Parameters
    ----------
    x
        A Tensor, or a tree with Tensors in it.

    Returns
    -------
    array or tree
        Read-only arrays (copy them to write).
    """

    def cut(leaf: Any) -> Any:
        data = leaf
        while isinstance(data, Tensor) and not data._tape.symbolic:  # a trace must go on recording
            data = data._snapshot()._value
        if isinstance(data, np.ndarray):
            data = data.view()
            data.flags.writeable = False
        return data

    return tree.map(cut, x)
