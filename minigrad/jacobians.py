"""Whole derivatives, built from vjp and jvp: jacobian, hessian, and the hessian-vector product."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import DtypeError, check_function, here
from minigrad.shapes import shape_of
from minigrad.tensor import dtype_of, plain
from minigrad.transforms import check_shapes, value_and_grad, vjp

__all__ = ["hessian", "hvp", "jacobian"]

numpy: Any = np  # NumPy's stubs do not know that its functions answer for Tensors


def jacobian(f: Callable[..., Any], *args: Any, argnums: int = 0) -> Any:
    """Return the derivative of every element of the result by every element of an argument.

    `jacobian(f, x, *args)` evaluates; `jacobian(f)` returns the function that does. It pulls back one unit cotangent
    per element of the result or, where the argument is smaller, pushes forward one unit tangent per element of it.

    Parameters
    ----------
    f
        A function of arrays or trees that returns an array or a tree of arrays.
    *args
        Its arguments.
    argnums
        The position of the one that is differentiated: a float or complex array, or a tree of them.

    Returns
    -------
    array or tree
        Of shape `result.shape + x.shape` and the dtype of x; complex if the result or x is. Where the result is a
        tree, the tree of the results' jacobians; where the argument is a tree, each of these is a tree like the
        argument. Results in integers have jacobian 0.

    Raises
    ------
    DtypeError
        If a complex result is not a holomorphic function of a complex argument: it then has no complex derivative.
    """
    check_function(f, "jacobian")
    if not args:
        return _deferred(jacobian, f, argnums=argnums)
    x = args[_position("jacobian", argnums, args)]
    value, pull = vjp(lambda x: f(*_replaced([*args], [argnums], [x])), x)
    xs, x_structure = tree.flatten(x)
    outs, out_structure = tree.flatten(value)

    def pull_leaves(*cotangents: Any) -> tuple[Any, ...]:
        return tuple(tree.leaves(pull(tree.unflatten(out_structure, cotangents))))

    moving = [i for i, out in enumerate(outs) if dtype_of(out).kind in "fc"]
    if sum(map(_size, xs)) < sum(_size(outs[i]) for i in moving):
        at = [np.ones(shape_of(out), dtype_of(out)) if i in moving else _zeros(out) for i, out in enumerate(outs)]
        _, push = vjp(lambda *gs: pull_leaves(*_replaced(at, moving, gs)), *(at[i] for i in moving))
        columns = _responses(lambda *tangents: push(tangents), xs, [outs[i] for i in moving])
        blocks = {(moving[i], j): _stacked(c, -1, outs[moving[i]], xs[j]) for (j, i), c in columns.items()}
    else:
        rows = _responses(pull_leaves, outs, xs)
        blocks = {(i, j): _stacked(r, 0, outs[i], xs[j]) for (i, j), r in rows.items()}
    whole = [[blocks.get((i, j), _stacked([], 0, out, x)) for j, x in enumerate(xs)] for i, out in enumerate(outs)]
    return tree.unflatten(out_structure, [tree.unflatten(x_structure, row) for row in whole])


def _position(who: str, argnums: Any, args: tuple[Any, ...]) -> int:
    if not isinstance(argnums, int) or isinstance(argnums, bool) or not 0 <= argnums < len(args):
        raise TypeError(f"{who}: argnums should be the position of one of {len(args)} arguments, got {argnums!r}")
    return argnums


def _replaced(items: Sequence[Any], places: Sequence[int], new: Iterable[Any]) -> list[Any]:
    changed = dict(zip(places, new, strict=True))
    return [changed.get(i, item) for i, item in enumerate(items)]


def _responses(linear: Callable[..., Any], inputs: list[Any], outputs: list[Any]) -> dict[tuple[int, int], list[Any]]:
    """Return what a linear function of several arrays answers to each unit array: by (input, output), in order.

    `linear` is a pullback or a push-forward. Of a complex input it is asked for 1 and for the imaginary unit, because
    it need not be linear over the complex numbers: it ends in the real part where an output is real.
    """
    found: dict[tuple[int, int], list[Any]] = {}
    for i, x in enumerate(inputs):
        if dtype_of(x).kind not in "fc":
            continue
        found |= {(i, j): [] for j in range(len(outputs))}
        for unit in _units(x):
            zeros = [_zeros(y) for y in inputs]
            answers = linear(*_replaced(zeros, [i], [unit]))
            turned = linear(*_replaced(zeros, [i], [1j * unit])) if unit.dtype.kind == "c" else None
            for j, y in enumerate(outputs):
                answer = answers[j]
                if turned is not None and dtype_of(y).kind != "c":
                    answer = answer - 1j * turned[j]
                elif turned is not None and not np.allclose(plain(turned[j]), 1j * plain(answer)):
                    raise DtypeError(
                        "jacobian: this complex function of a complex argument is not holomorphic, and has no complex "
                        f"derivative.\n  at   {here()}\n  fix  take the real and imaginary parts as separate arrays"
                    )
                found[i, j].append(answer)
    return found


def _size(x: Any) -> int:
    return int(np.prod(shape_of(x)))


def _units(like: Any) -> Any:
    """Yield the unit arrays of a shape."""
    for i in range(_size(like)):
        unit = _zeros(like)
        unit.reshape(-1)[i] = 1
        yield unit


def _zeros(like: Any) -> np.ndarray:
    return np.zeros(shape_of(like), dtype_of(like))


def _stacked(parts: list[Any], axis: int, out: Any, x: Any) -> Any:
    """Join rows (axis 0) or columns (axis -1) to a block of shape out.shape + x.shape."""
    shape = (*shape_of(out), *shape_of(x))
    dtype = dtype_of(x) if dtype_of(out).kind != "c" else np.result_type(dtype_of(x), np.complex64)
    if not parts:
        return np.zeros(shape, dtype)
    return numpy.reshape(numpy.stack(parts, axis=axis), shape).astype(dtype, copy=False)


def hessian(f: Callable[..., Any], *args: Any, argnums: int = 0) -> Any:
    """Return the second derivatives: the jacobian of the jacobian.

    `hessian(f, x, *args)` evaluates; `hessian(f)` returns the function that does.

    Parameters
    ----------
    f
        A function of arrays or trees that returns an array (a scalar, usually) or a tree of arrays.
    *args
        Its arguments.
    argnums
        The position of the one that is differentiated.

    Returns
    -------
    array or tree
        Of shape `result.shape + x.shape + x.shape`; for a tree, a tree of trees like the argument.
    """
    check_function(f, "hessian")
    if not args:
        return _deferred(hessian, f, argnums=argnums)
    _position("hessian", argnums, args)
    return jacobian(lambda *args: jacobian(f, *args, argnums=argnums), *args, argnums=argnums)


def hvp(f: Callable[..., Any], *args: Any) -> Any:
    """Return the product of the hessian of a scalar function with a vector, without forming the hessian.

    `hvp(f, x, v, *rest)` evaluates, for the hessian of `f(x, *rest)`; `hvp(f)` returns the function that does.

    Parameters
    ----------
    f
        A function of arrays or trees that returns a real scalar.
    *args
        x, where: a float array or a tree of them; v, the vector, of the structure and shapes of x; and what else `f`
        takes, which is not differentiated.

    Returns
    -------
    array or tree
        Like x. It costs about four evaluations of `f` (Pearlmutter 1994, doi:10.1162/neco.1994.6.1.147).
    """
    check_function(f, "hvp")
    if not args:
        return _deferred(hvp, f)
    if len(args) < 2:
        raise TypeError(f"hvp({getattr(f, '__name__', 'f')}, x, v, ...) needs the vector v")
    x, v, *rest = args
    xs, structure = tree.flatten(x)
    vs, came = tree.flatten(v)
    tree.check_same(structure, came, "hvp: the argument and the vector")
    check_shapes("hvp: the vector", vs, "the argument", [shape_of(leaf) for leaf in xs], tree.paths(x))

    def slope(x: Any) -> Any:
        gradient = value_and_grad(f, x, *rest, unused="zero")[1]
        return sum(tree.leaves(tree.map(lambda g, u: numpy.sum(g * u), gradient, v)))

    return value_and_grad(slope, x, unused="zero")[1]


def _deferred(transform: Callable[..., Any], f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    @functools.wraps(f)
    def transformed(*args: Any) -> Any:
        if not args:
            raise TypeError(f"{transform.__name__}({getattr(f, '__name__', 'f')}) needs the argument to differentiate")
        return transform(f, *args, **options)

    return transformed
