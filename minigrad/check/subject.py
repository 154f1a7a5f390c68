"""What is checked: a function, perhaps its adjoint, and an example of its arguments, seen as flat lists of arrays."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.finite import where_finite
from minigrad.check.naming import argument_names, is_float, kind_of, name_of
from minigrad.check.returned import by_leaf
from minigrad.custom import is_differentiable
from minigrad.errors import MinigradError, StructureError

__all__ = ["Subject", "fresh", "is_float", "name_of", "random_like", "replayed_randomness"]

Arrays = list[Any]


def fresh(structure: Any) -> Any:
    """Return a copy of arguments that a call may write to: arrays, and random generators in the state they are in."""

    def copied(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            return leaf.copy(order="K")
        return copy.deepcopy(leaf) if isinstance(leaf, (np.random.Generator, np.random.RandomState)) else leaf

    return tree.map(copied, structure)


@contextmanager
def replayed_randomness(seed: int = 0) -> Iterator[None]:
    """Within this context the global random generators start from a fixed seed; afterwards they are as before.

    Layers that draw their dropout mask from `np.random` are then the same function on every call.
    """
    states = np.random.get_state(), random.getstate()  # noqa: NPY002  (other people's code draws from it)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])


@dataclass
class Subject:
    """A function with an example of its arguments, and the adjoint that is to be checked.

    Its arguments and results are trees; what moves, and what has a cotangent, are their float leaves in order.

    Attributes
    ----------
    forward
        `forward(*args, **kwargs)` returns an array or a tree of arrays.
    adjoint
        `adjoint(g, *args, **kwargs)` returns one gradient per argument `argnums`: a tuple, or the gradient itself if
        there is one. None where there is nothing to check but the generated adjoint.
    names, results
        Of the leaves that move, and of the leaves of the result: "params.gain", "out[1]".
    out
        The float leaves of the result.
    shown
        The functions whose source the report shows: the forward, and the adjoint, whose frames are watched.
    """

    forward: Callable[..., Any]
    adjoint: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    argnums: tuple[int, ...] = ()
    arguments: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    whole: list[Any] = field(default_factory=list)  # every leaf of the result
    structure: Any = None
    shown: tuple[Any, Any] = (None, None)

    @classmethod
    def of(
        cls,
        forward: Callable[..., Any],
        adjoint: Callable[..., Any] | None,
        args: Sequence[Any],
        kwargs: dict[str, Any] | None = None,
        argnums: Sequence[int] | None = None,
        shown: tuple[Any, Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> Subject:
        """Return the subject with all that follows from the functions and their arguments.

        Raises
        ------
        MinigradError
            If no argument is a float array, or no result.
        """
        args = tuple(args)
        chosen = [i for i, a in enumerate(args) if is_differentiable(a)] if argnums is None else list(argnums)
        chosen = [n % len(args) for n in chosen] if args else []
        arguments = tuple(argument_names(forward, len(args)))
        names = [path for i in chosen for path in _float_paths(args[i], arguments[i])] if names is None else names
        if not names:
            raise MinigradError(
                f"{name_of(forward)}: nothing to differentiate; wanted a float array among the positional arguments, "
                f"got {', '.join(map(kind_of, args)) or 'none'}"
            )
        subject = cls(
            forward,
            adjoint,
            args,
            kwargs or {},
            tuple(chosen),
            arguments,
            tuple(names),
            shown=shown or (forward, adjoint),
        )
        out = subject.call(subject.leaves)
        subject.whole, subject.structure = tree.flatten(out)
        paths = zip(subject.whole, tree.paths(out, "out"), strict=True)
        subject.results = tuple(path for x, path in paths if _is_result(x))
        if not subject.results:
            raise MinigradError(f"{name_of(forward)} returned no float array, so there is no gradient to check")
        return subject

    @property
    def leaves(self) -> Arrays:
        """The float leaves of the arguments that move."""
        return [leaf for i in self.argnums for leaf in tree.leaves(self.args[i]) if is_float(leaf)]

    @property
    def out(self) -> Arrays:
        """The float leaves of the result."""
        return [np.asarray(x) for x in self.whole if _is_result(x)]

    def place(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments with other leaves in place of those that move."""
        rest = iter(leaves)
        args = list(self.args)
        for i in self.argnums:
            args[i] = tree.map(lambda leaf: next(rest) if is_float(leaf) else leaf, args[i])
        return tuple(args)

    def call(self, leaves: Sequence[Any]) -> Any:
        """Return the whole result of the forward function."""
        with replayed_randomness():
            return self.forward(*fresh(self.place(leaves)), **fresh(self.kwargs))

    def run(self, leaves: Sequence[Any]) -> Arrays:
        """Return the float leaves of the result."""
        out = tree.leaves(self.call(leaves))
        if len(out) != len(self.whole):
            raise StructureError(f"{name_of(self.forward)} returned {len(self.whole)} leaves first and {len(out)} then")
        return [x for x, like in zip(out, self.whole, strict=True) if _is_result(like)]

    def cotangent(self, gs: Sequence[Any]) -> Any:
        """Return cotangents of the float leaves of the result as a tree of its structure, zeros elsewhere."""
        rest = iter(gs)
        return tree.unflatten(
            self.structure, [next(rest) if _is_result(x) else np.zeros(np.shape(x)) for x in self.whole]
        )

    def gradients(self, gs: Sequence[Any]) -> Any:
        """Return what the adjoint returns, whole, for these cotangents, of which it gets copies."""
        return self.pull(self.cotangent([np.array(g) for g in gs]), fresh(self.args))

    def pull(self, g: Any, args: Sequence[Any]) -> Any:
        """Return what the adjoint returns for a cotangent and arguments that it may keep or write to."""
        assert self.adjoint is not None
        with replayed_randomness():
            return self.adjoint(g, *args, **fresh(self.kwargs))

    def by_leaf(self, result: Any) -> list[Any]:
        """Return the gradient of each moving leaf out of what the adjoint returned; None where it says None.

        It is 0 where a leaf is infinite.

        Raises
        ------
        StructureError
            If what came has not the structure of the arguments, or is no array of numbers.
        """
        return where_finite(by_leaf(self, result), self.leaves)

    def random_cotangents(self, rng: np.random.Generator) -> Arrays:
        """Return random numbers in the shapes and dtypes of the results, 0 where those are not finite."""
        return [np.where(np.isfinite(x), random_like(x, rng), 0).astype(x.dtype) for x in self.out]

    def in_dtype(self, dtype: Any) -> Subject:
        """Return the subject with its float arguments in another precision."""
        wide = np.dtype(dtype)

        def cast(leaf: Any) -> Any:
            if not is_float(leaf):
                return leaf
            return leaf.astype(np.result_type(wide, np.complex64) if leaf.dtype.kind == "c" else wide)

        other = replace(self, args=tree.map(cast, self.args), kwargs=tree.map(cast, self.kwargs))
        other.whole = tree.leaves(other.call(other.leaves))
        return other


def _is_result(x: Any) -> bool:
    return is_float(x) or isinstance(x, (float, complex))


def _float_paths(argument: Any, name: str) -> list[str]:
    leaves = zip(tree.leaves(argument), tree.paths(argument, name), strict=True)
    return [path for leaf, path in leaves if is_float(leaf)]


def random_like(x: Any, rng: np.random.Generator) -> Any:
    """Return normal numbers of two decimals, pushed away from zero, in the shape and dtype of x; complex where x is."""
    x = np.asarray(x)
    values = rng.normal(size=x.shape).round(2)
    values = values + np.copysign(0.05, values)  # no element is so small that an error of its gradient is hidden
    if x.dtype.kind == "c":
        values = values + 1j * rng.normal(size=x.shape).round(2)
    return np.asarray(values).astype(x.dtype)
