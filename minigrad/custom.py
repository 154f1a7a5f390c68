"""Functions that bring their own backward pass: custom_adjoint, and checkpoint, which runs forward again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import CutGraphError, DtypeError, ShapeError, StructureError, here
from minigrad.op import Op, Recorded
from minigrad.shapes import shape_of
from minigrad.tensor import dtype_of
from minigrad.transforms import vjp

__all__ = ["checkpoint", "custom_adjoint"]

Backward = Callable[[Any, list[Any]], list[Any]]  # (gradient of the result, leaves of the arguments) -> gradients


class _Call:
    """One call of a function with a backward pass of its own."""

    def __init__(self, f: Callable[..., Any], structure: tree.Structure, backward: Callable[..., list[Any]]) -> None:
        self.f = f
        self.structure = structure
        self.backward = backward
        self.results: tree.Structure | None = None
        self.last = -1
        self.gradients: list[Any] = []

    def forward(self, leaves: tuple[Any, ...]) -> Any:
        """Compute the value from the leaves of the arguments."""
        args, kwargs = tree.unflatten(self.structure, leaves)
        out, self.results = tree.flatten(self.f(*args, **kwargs))
        level = max((x._tape.level for x in leaves if isinstance(x, Recorded)), default=0)
        for x in out:
            if isinstance(x, Recorded) and x._tape.level > level:
                raise CutGraphError(
                    f"{_name(self.f)} uses a Tensor that is not among its arguments, so that its gradient would be "
                    f"lost.\n  at   {here()}\n  fix  pass the Tensor as an argument"
                )
        return out[0] if len(out) == 1 else tuple(out)

    def gradient(self, g: Any, position: int, leaves: tuple[Any, ...]) -> Any:
        """Return the gradient of one leaf. The backward pass runs once for all: when the first of them asks."""
        if position <= self.last or self.last < 0:
            assert self.results is not None
            whole = tree.unflatten(self.results, g if isinstance(g, tuple) else [g])
            self.gradients = self.backward(whole, list(leaves))
        self.last = position
        gradient, self.gradients[position] = self.gradients[position], None
        return gradient


def _op(name: str) -> Op:
    def gradient(g: Any, leaves: tuple[Any, ...], position: int, call: _Call) -> Any:
        return call.gradient(g, position, leaves)

    return Op(lambda *leaves, call: call.forward(leaves), "*leaves", (gradient,), name)


def _apply(op: Op, f: Callable[..., Any], backward: Callable[..., list[Any]], args: Any, kwargs: Any) -> Any:
    leaves, structure = tree.flatten((args, kwargs))
    call = _Call(f, structure, backward)
    out = op(*leaves, call=call)
    assert call.results is not None
    return tree.unflatten(call.results, out if isinstance(out, tuple) else [out])


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", type(f).__name__)


def custom_adjoint(forward: Callable[..., Any], adjoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes `forward` and is differentiated by `adjoint`.

    Parameters
    ----------
    forward
        `forward(*args, **kwargs)` returns an array or a tree of arrays. Its arguments are plain arrays, also where
        the code around it is differentiated, so it may do what NumPy cannot record.
    adjoint
        `adjoint(g, *args, **kwargs)` returns one gradient per positional argument that is a float array or a tree of
        them: a tuple, or the gradient itself if there is one such argument. None stands for zero. `g` has the
        structure of the result. Second derivatives differentiate the adjoint, which must then be plain NumPy.

    Raises
    ------
    StructureError, ShapeError, DtypeError
        In the backward pass, if the adjoint returns something else than its arguments' structures, shapes and dtypes.
    CutGraphError
        If a Tensor is given by keyword, or `forward` uses one that is not among its arguments.
    """
    op = _op(_name(forward))
    names = _parameter_names(forward)

    @functools.wraps(forward)
    def function(*args: Any, **kwargs: Any) -> Any:
        for key, value in kwargs.items():
            if any(isinstance(leaf, Recorded) for leaf in tree.leaves(value)):
                raise CutGraphError(
                    f"{op.name}({key}=Tensor): keyword arguments have no gradient.\n"
                    f"  at   {here()}\n  fix  pass it by position"
                )

        def backward(g: Any, leaves: list[Any]) -> list[Any]:
            args_, kwargs_ = tree.unflatten(structure, leaves)
            return _by_leaf(adjoint(g, *args_, **kwargs_), args_, leaves, names, _name(adjoint))

        structure = tree.structure((args, kwargs))
        return _apply(op, forward, backward, args, kwargs)

    return function


def _parameter_names(f: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return []


def is_differentiable(x: Any) -> bool:
    """Tell whether an argument is a float or complex array, a Tensor, or a tree that has one."""
    return any(
        isinstance(leaf, Recorded) or (isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "fc")
        for leaf in tree.leaves(x)
    )


def _by_leaf(result: Any, args: tuple[Any, ...], leaves: list[Any], names: list[str], who: str) -> list[Any]:
    """Check what an adjoint returned and spread it over the leaves of all arguments."""
    wanted = [i for i, a in enumerate(args) if is_differentiable(a)]
    lone_tuple = len(wanted) == 1 and isinstance(args[wanted[0]], tuple)
    given = result if isinstance(result, tuple) and not lone_tuple else (result,)
    named = [names[i] if i < len(names) else f"argument {i}" for i in range(len(args))]
    # Trailing arguments that happen to be float arrays but are no Tensors, such as an additive mask, need no gradient.
    must = [i for i in wanted if any(isinstance(leaf, Recorded) for leaf in tree.leaves(args[i]))]
    if len(given) > len(wanted) or any(i in must for i in wanted[len(given) :]):
        raise StructureError(
            f"{who} should return {len(wanted)} gradients, for {', '.join(named[i] for i in wanted)}; got {len(given)}"
        )
    gradients: list[Any] = []
    by_argument = dict(zip(wanted, given, strict=False))
    for i, argument in enumerate(args):
        below, structure = tree.flatten(argument)
        gradient = by_argument.get(i)
        if gradient is None:
            gradients += [None] * len(below)
            continue
        parts, came = tree.flatten(gradient)
        if structure != came:
            tree.check_same(structure, came, f"{who}: the gradient of {named[i]}")
        for x, part, path in zip(below, parts, tree.paths(argument), strict=True):
            where = named[i] + (f".{path}" if path else "")
            if part is not None and is_differentiable(x):
                _check_gradient(x, part, where, who)
            gradients.append(part if is_differentiable(x) else None)
    return gradients + [None] * (len(leaves) - len(gradients))


def _check_gradient(x: Any, gradient: Any, where: str, who: str) -> None:
    if shape_of(gradient) != shape_of(x):
        raise ShapeError(f"{who} returned a gradient of shape {shape_of(gradient)} for {where} of shape {shape_of(x)}")
    if dtype_of(gradient) != dtype_of(x):
        raise DtypeError(f"{who} returned a {dtype_of(gradient)} gradient for {where}, which is {dtype_of(x)}")


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with the value of `f` that keeps none of its intermediate values for the backward pass.

    The backward pass runs `f` again. So a deep model keeps the inputs of its blocks only, for the price of a second
    forward pass (Chen et al. 2016, arXiv:1604.06174).

    Parameters
    ----------
    f
        A function of arrays and trees. What it needs of Tensors must come in as arguments. A `numpy.random.Generator`
        among the arguments is replayed: the second run draws the numbers of the first.
    """
    op = _op(f"checkpoint({_name(f)})")

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        structure = tree.structure((args, kwargs))
        states = [_generator_state(leaf) for leaf in tree.leaves((args, kwargs))]

        def backward(g: Any, leaves: list[Any]) -> list[Any]:
            wanted = [i for i, leaf in enumerate(leaves) if is_differentiable(leaf)]

            def again(*values: Any) -> Any:
                replayed = [_replay(leaf, state) for leaf, state in zip(leaves, states, strict=True)]
                for i, value in zip(wanted, values, strict=True):
                    replayed[i] = value
                args_, kwargs_ = tree.unflatten(structure, replayed)
                return f(*args_, **kwargs_)

            gradients: list[Any] = [None] * len(leaves)
            _, pull = vjp(again, *(leaves[i] for i in wanted))
            for i, gradient in zip(wanted, pull(g), strict=True):
                gradients[i] = gradient
            return gradients

        return _apply(op, f, backward, args, kwargs)

    return function


def _generator_state(leaf: Any) -> Any:
    return leaf.bit_generator.state if isinstance(leaf, np.random.Generator) else None


def _replay(leaf: Any, state: Any) -> Any:
    """Return the leaf; a random generator as it was before the first run."""
    if state is None:
        return leaf
    bits = type(leaf.bit_generator)()
    bits.state = state
    return np.random.Generator(bits)
