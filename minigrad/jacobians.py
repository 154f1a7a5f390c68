"""Whole derivatives, built from vjp and jvp: jacobian, hessian, and the hessian-vector product."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.shapes import shape_of
from minigrad.tensor import dtype_of
from minigrad.transforms import value_and_grad, vjp

__all__ = ["hessian", "hvp", "jacobian"]

numpy: Any = np  # NumPy's stubs do not know that its functions answer for Tensors


def jacobian(f: Callable[..., Any], *args: Any) -> Any:
    """Return the derivative of every element of the result by every element of the first argument.

    `jacobian(f, x, *args)` evaluates; `jacobian(f)` returns the function that does. It pulls back one unit cotangent
    per element of the result or, where the argument is smaller, pushes forward one unit tangent per element of it.

    Parameters
    ----------
    f
        A function of arrays or trees that returns an array or a tree of arrays.
    *args
        The first is differentiated: a float or complex array, or a tree of them.

    Returns
    -------
    array or tree
        Of shape `result.shape + x.shape`. Where the result is a tree, the tree of the results' jacobians; where the
        argument is a tree, each of these is a tree like the argument.
    """
    if not args:
        return _deferred(jacobian, f)
    x, rest = args[0], args[1:]
    out, pull = vjp(lambda first: f(first, *rest), x)
    x_leaves, x_structure = tree.flatten(x)
    out_leaves, out_structure = tree.flatten(out)
    x_size = sum(int(np.prod(shape_of(leaf))) for leaf in x_leaves)
    if x_size < sum(int(np.prod(shape_of(leaf))) for leaf in out_leaves):
        blocks = _forward(pull, out_leaves, out_structure, x_leaves, x_structure)
    else:
        blocks = _reverse(pull, out_leaves, out_structure, x_leaves)
    return tree.unflatten(out_structure, [tree.unflatten(x_structure, row) for row in blocks])


def _reverse(pull: Any, out_leaves: list[Any], out_structure: tree.Structure, x_leaves: list[Any]) -> list[list[Any]]:
    """Return the blocks [result][argument], a row at a time."""
    blocks = []
    for i, out in enumerate(out_leaves):
        rows = []
        for unit in _units(out):
            cotangents = [unit if k == i else _zeros(o) for k, o in enumerate(out_leaves)]
            rows.append(tree.leaves(pull(tree.unflatten(out_structure, cotangents))))
        blocks.append([_stacked([row[j] for row in rows], 0, out, x) for j, x in enumerate(x_leaves)])
    return blocks


def _forward(
    pull: Any, out_leaves: list[Any], out_structure: tree.Structure, x_leaves: list[Any], x_structure: tree.Structure
) -> list[list[Any]]:
    """Return the blocks [result][argument], a column at a time: the pullback of the pullback pushes forward."""
    _, push = vjp(pull, tree.unflatten(out_structure, [np.ones(shape_of(o), dtype_of(o)) for o in out_leaves]))
    columns_by_x = []
    for j, x in enumerate(x_leaves):
        columns = []
        for unit in _units(x):
            tangents = [unit if k == j else _zeros(v) for k, v in enumerate(x_leaves)]
            columns.append(tree.leaves(push((tree.unflatten(x_structure, tangents),))))
        columns_by_x.append(columns)
    return [
        [_stacked([c[i] for c in columns_by_x[j]], -1, out, x) for j, x in enumerate(x_leaves)]
        for i, out in enumerate(out_leaves)
    ]


def _units(like: Any) -> Any:
    """Yield the unit arrays of a shape."""
    shape, dtype = shape_of(like), dtype_of(like)
    for i in range(int(np.prod(shape))):
        unit = np.zeros(shape, dtype)
        unit.reshape(-1)[i] = 1
        yield unit


def _zeros(like: Any) -> np.ndarray:
    return np.zeros(shape_of(like), dtype_of(like))


def _stacked(parts: list[Any], axis: int, out: Any, x: Any) -> Any:
    """Join rows (axis 0) or columns (axis -1) to a block of shape out.shape + x.shape."""
    shape = (*shape_of(out), *shape_of(x))
    if not parts:
        return np.zeros(shape, dtype_of(x))
    return numpy.reshape(numpy.stack(parts, axis=axis), shape)


def hessian(f: Callable[..., Any], *args: Any) -> Any:
    """Return the second derivatives: the jacobian of the jacobian.

    `hessian(f, x, *args)` evaluates; `hessian(f)` returns the function that does.

    Parameters
    ----------
    f
        A function of arrays or trees that returns an array (a scalar, usually) or a tree of arrays.
    *args
        The first is differentiated.

    Returns
    -------
    array or tree
        Of shape `result.shape + x.shape + x.shape`; for a tree, a tree of trees like the argument.
    """
    if not args:
        return _deferred(hessian, f)
    return jacobian(lambda x, *rest: jacobian(f, x, *rest), *args)


def hvp(f: Callable[..., Any], x: Any, v: Any) -> Any:
    """Return the product of the hessian of a scalar function with a vector, without forming the hessian.

    Parameters
    ----------
    f
        A function of an array or tree that returns a real scalar.
    x
        Where: a float array or a tree of them.
    v
        The vector, of the structure and shapes of x.

    Returns
    -------
    array or tree
        Like x. It costs about four evaluations of `f` (Pearlmutter 1994, doi:10.1162/neco.1994.6.1.147).
    """

    def slope(x: Any) -> Any:
        gradient = value_and_grad(f, x, unused="zero")[1]
        return sum(tree.leaves(tree.map(lambda g, u: numpy.sum(g * u), gradient, v)))

    return value_and_grad(slope, x, unused="zero")[1]


def _deferred(transform: Callable[..., Any], f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def transformed(*args: Any) -> Any:
        if not args:
            raise TypeError(f"{transform.__name__}({getattr(f, '__name__', 'f')}) needs the argument to differentiate")
        return transform(f, *args)

    return transformed
