"""Functions that bring their own backward pass: custom_adjoint, and checkpoint, which runs forward again."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import CutGraphError, DtypeError, OverwrittenError, ShapeError, StructureError, here, user_code
from minigrad.fingerprint import check_again
from minigrad.op import Op, Recorded
from minigrad.run import owned
from minigrad.shapes import shape_of
from minigrad.tensor import Tensor, dtype_of, plain
from minigrad.transforms import vjp

__all__ = ["checkpoint", "custom_adjoint"]

Backward = Callable[[Any, list[Any]], list[Any]]  # (gradient of the result, leaves of the arguments) -> gradients


class _Call:
    """One call of a function with a backward pass of its own."""

    def __init__(self, name: str, f: Callable[..., Any], structure: tree.Structure, backward: Backward) -> None:
        self.name = name
        self.f = f
        self.structure = structure
        self.backward = backward
        self.results: tree.Structure | None = None
        self.latest: tuple[Any, tuple[Any, ...], dict[int, Any]] | None = None

    def forward(self, leaves: tuple[Any, ...]) -> Any:
        """Compute the value from the leaves of the arguments."""
        args, kwargs = tree.unflatten(self.structure, map(_unchangeable, leaves))
        out, self.results = tree.flatten(self.f(*args, **kwargs))
        level = max((x._tape.level for x in leaves if isinstance(x, Recorded)), default=0)
        for x in out:
            if isinstance(x, Recorded) and x._tape.level > level:
                raise CutGraphError(
                    f"{self.name} uses a Tensor that is not among its arguments, so that its gradient would be "
                    f"lost.\n  at   {here()}\n  fix  pass the Tensor as an argument"
                )
        out = [x._snapshot() if isinstance(x, Tensor) else x for x in owned(out)]  # no longer views of each other
        return out[0] if len(out) == 1 else tuple(out)

    def gradient(self, g: Any, position: int, leaves: tuple[Any, ...]) -> Any:
        """Return the gradient of one leaf. The backward pass runs once for all: when the first of them asks."""
        if self.latest is not None:
            of_g, of_leaves, waiting = self.latest
            same = of_g is g and all(a is b for a, b in zip(of_leaves, leaves, strict=True))
            if same and position in waiting:
                if len(waiting) == 1:
                    self.latest = None
                return waiting.pop(position)
        assert self.results is not None
        gs = map(_unchangeable, g if isinstance(g, tuple) else (g,))
        gradients = self.backward(tree.unflatten(self.results, gs), list(map(_unchangeable, leaves)))
        check_again()  # the user's code might have written anywhere
        waiting = {i: x for i, x in enumerate(gradients) if i > position}
        self.latest = (g, leaves, waiting) if waiting else None
        return gradients[position]


def _unchangeable(x: Any) -> Any:
    """Return what a user's function may read but not write: the tape relies on it."""
    if isinstance(x, Tensor):
        return x._snapshot()
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


def _op(name: str, kind: str | None = None) -> Op:
    def gradient(g: Any, leaves: tuple[Any, ...], position: int, call: _Call) -> Any:
        return call.gradient(g, position, leaves)

    return Op(lambda *leaves, call: call.forward(leaves), "*leaves", (gradient,), name, kind)


def _apply(op: Op, f: Callable[..., Any], backward: Backward, args: Any, kwargs: Any) -> Any:
    leaves, structure = tree.flatten((args, kwargs))
    call = _Call(op.name, f, structure, backward)
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
            with user_code():
                result = adjoint(g, *args_, **kwargs_)
            return _by_leaf(result, args_, wanted, must, names, _name(adjoint)) + [None] * len(tree.leaves(kwargs_))

        structure = tree.structure((args, kwargs))
        wanted = [i for i, a in enumerate(args) if is_differentiable(a)]
        # Trailing arguments that happen to be float arrays but are no Tensors, such as an additive mask, need none.
        must = [i for i in wanted if any(isinstance(leaf, Recorded) for leaf in tree.leaves(args[i]))]
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


def _by_leaf(
    result: Any, args: tuple[Any, ...], wanted: list[int], must: list[int], names: list[str], who: str
) -> list[Any]:
    """Check what an adjoint returned and spread it over the leaves of the positional arguments."""
    lone_tuple = len(wanted) == 1 and isinstance(args[wanted[0]], tuple)
    given = result if isinstance(result, tuple) and not lone_tuple else (result,)
    named = [names[i] if i < len(names) else f"argument {i}" for i in range(len(args))]
    if len(given) > len(wanted):  # an adjoint may have gradients for Python numbers too, which would be dropped
        numbers = [i for i, a in enumerate(args) if i in wanted or isinstance(a, (float, complex))]
        wanted = numbers if len(numbers) == len(given) else wanted
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
        tree.check_same(structure, came, f"{who}: the gradient of {named[i]}")
        for x, part, where in zip(below, parts, tree.paths(argument, named[i]), strict=True):
            gradients.append(_checked(x, part, where, who) if dtype_of(x).kind in "fc" else None)
    return gradients


def _checked(x: Any, gradient: Any, where: str, who: str) -> Any:
    """Return the gradient of a leaf as an array, or raise."""
    if not hasattr(gradient, "dtype"):
        gradient = np.asarray(gradient, dtype_of(x) if isinstance(gradient, (int, float, complex)) else None)[()]
    if shape_of(gradient) != shape_of(x):
        raise ShapeError(f"{who} returned a gradient of shape {shape_of(gradient)} for {where} of shape {shape_of(x)}")
    if dtype_of(gradient) != dtype_of(x):
        raise DtypeError(f"{who} returned a {dtype_of(gradient)} gradient for {where}, which is {dtype_of(x)}")
    return gradient


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
    op = _op(f"checkpoint({_name(f)})", kind="call")

    @functools.wraps(f)
    def function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        generators = copy.deepcopy({i: x for i, x in enumerate(leaves) if isinstance(x, GENERATORS)})
        wanted = [i for i, x in enumerate(leaves) if isinstance(x, Recorded) and dtype_of(x).kind in "fc"]
        seen: list[Any] = []
        recorded: list[Any] = []  # its results, where they are recorded in a program

        def first(*args: Any, **kwargs: Any) -> Any:
            out = f(*args, **kwargs)
            seen[:] = _sketch(out)
            recorded[:] = [x._snapshot() if _is_in_a_program(x) else None for x in tree.leaves(out)]
            return out

        def backward(g: Any, leaves: list[Any]) -> list[Any]:
            def again(*values: Any) -> Any:
                changed = dict(zip(wanted, values, strict=True)) | copy.deepcopy(generators)
                args_, kwargs_ = tree.unflatten(structure, [changed.get(i, x) for i, x in enumerate(leaves)])
                return f(*args_, **kwargs_)

            number = next(_RUNS)
            leaves = [once_more(x, run=number) if isinstance(x, Recorded) else x for x in leaves]
            out, pull = vjp(again, *(leaves[i] for i in wanted))
            same = all(map(_close, _sketch(out), seen))
            for x, before in zip(tree.leaves(out), recorded, strict=True):
                if before is not None and _is_in_a_program(x):  # then it need not be computed again
                    x._tape.identify(x, before)
            del out
            if not same:
                raise OverwrittenError(
                    f"{op.name} gave another value in the backward pass than in the forward pass, so that its gradient "
                    "would be wrong: something it uses besides its arguments was changed, or is random.\n"
                    "  fix  pass it as an argument (a numpy.random.Generator among the arguments is replayed)"
                )
            gradients = dict(zip(wanted, pull(g), strict=True))
            return [gradients.get(i) for i in range(len(leaves))]

        return _apply(op, first, backward, args, kwargs)

    return function


def _is_in_a_program(x: Any) -> bool:
    return isinstance(x, Tensor) and x._tape.symbolic


_RUNS = itertools.count(1)

once_more = Op(lambda x, *, run: x, "x", (lambda g: g,), "once_more", kind="linear")
"""What a second run of a checkpoint reads its arguments through: a number of its own for each run tells the compiler,
which computes equal things once, that this is not equal to the first run, whose values would have to be kept."""

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def _sketch(out: Any) -> list[Any]:
    """Return sums over at most 64 parts of each array: enough to notice that a result is another one."""
    sketches = []
    for x in map(plain, tree.leaves(out)):
        flat = np.ravel(x) if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc" else np.zeros(0)
        starts = np.arange(min(flat.size, 64)) * flat.size // 64 if flat.size > 64 else np.arange(flat.size)
        sketches.append(np.add.reduceat(flat, starts) if flat.size else flat)
    return sketches


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether two sketches are equal but for the order in which a multithreaded product may add."""
    tolerance = float(np.sqrt(np.finfo(a.dtype).eps)) * float(np.max(np.abs(a[np.isfinite(a)]), initial=0))
    return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True)
