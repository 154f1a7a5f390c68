"""One evaluation of a function on a tape: what goes in as Tensors, and how gradients come out as arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import DtypeError, here, parameter_names
from minigrad.tape import NEW_TAPE
from minigrad.tensor import Tensor, dtype_of

__all__ = ["Run", "argument_paths", "owned"]


def _has_gradient(leaf: Any) -> bool:
    """Tell whether a gradient with respect to this leaf makes sense."""
    if isinstance(leaf, (np.ndarray, np.generic, Tensor)):
        return dtype_of(leaf).kind in "fc" and not isinstance(leaf, (np.ma.MaskedArray, np.matrix))
    return isinstance(leaf, (float, complex))


def _no_gradient(leaf: Any, path: str, who: str, alone: bool) -> DtypeError:
    if isinstance(leaf, (np.ma.MaskedArray, np.matrix)):
        return DtypeError(f"{who}: {path} is a {type(leaf).__name__}; pass a plain array ({here()})")
    kind = f"dtype {leaf.dtype}" if hasattr(leaf, "dtype") else f"type {type(leaf).__name__}"
    return DtypeError(
        f"{who}: {path} has {kind}, which has no gradient; wanted float or complex.\n"
        f"  at   {here()}\n"
        "  fix  convert it (x.astype(np.float64), 2.0 for 2), or pass it as another argument"
        + (f"; a position is given by name: {who}(f, argnums={leaf!r})" if alone and type(leaf) is int else "")
    )


class Run:
    """One evaluation of a function on a tape: its Tensors, its result, and the way back.

    Of the arguments of `f`, those numbered `chosen` are differentiated.
    """

    def __init__(self, who: str, f: Callable[..., Any], args: Sequence[Any], chosen: Sequence[int]) -> None:
        self.tape = NEW_TAPE.get()()
        self.leaves: list[Any] = []
        self.structures: list[tree.Structure] = []
        self.arguments: list[Any] = []
        for n in chosen:
            leaves, structure = tree.flatten(args[n])
            for i, leaf in enumerate(leaves):
                if not _has_gradient(leaf):
                    raise _no_gradient(leaf, argument_paths(f, args, [n])[i], who, alone=leaf is args[-1])
            self.leaves += leaves
            self.structures.append(structure)
            self.arguments.append(tree.unflatten(structure, [self.tape.leaf(leaf) for leaf in leaves]))

    def own(self, x: Any) -> bool:
        """Tell whether x is a Tensor of this tape that gradients reach."""
        return isinstance(x, Tensor) and x._tape is self.tape and x._slot >= 0

    def lower(self, x: Any) -> Any:
        """Return x without the recording of this tape. An array out of a Tensor is a copy: it may be the argument."""
        if isinstance(x, Tensor):
            x = x._snapshot()
            if x._tape is self.tape:
                x = np.array(x._value) if isinstance(x._value, np.ndarray) else x._value
        return x

    def back(self, seeds: dict[int, Any], release: bool) -> tuple[list[Any], list[bool]]:
        """Return the gradient of each leaf, and whether one arrived."""
        self.tape.open = False
        found = owned(self.tape.backward(seeds, release))
        arrived = [g is not None for g in found]
        return [_finished(g, leaf) for g, leaf in zip(found, self.leaves, strict=True)], arrived

    def structured(self, gradients: list[Any]) -> list[Any]:
        """Return one tree of gradients per argument."""
        rest = iter(gradients)
        return [tree.unflatten(s, [next(rest) for _ in range(s.n_leaves)]) for s in self.structures]


def argument_paths(f: Callable[..., Any], args: Sequence[Any], chosen: Sequence[int]) -> list[str]:
    """Return what the leaves of these arguments are called: params.blocks[0].q, where f calls its argument params."""
    names = parameter_names(f, len(args))
    return [path for n in chosen for path in tree.paths(args[n], names[n])]


def _references(x: Any) -> int:
    """Return how many references there are to an object, as seen from here."""
    return sys.getrefcount(x)


def _references_of_a_variable() -> int:
    x = np.empty(0)
    return _references(x)


_ALONE = _references_of_a_variable()  # Python versions differ in what they count


def owned(arrays: list[Any]) -> list[Any]:
    """Return the arrays of a list with copies of those that anybody else may reach; nothing else is touched.

    A rule may return its g, a saved array, or a view of one; a user's function its argument or a buffer.
    """
    for i in range(len(arrays)):
        x, arrays[i] = arrays[i], None
        if isinstance(x, np.ndarray) and not (_references(x) <= _ALONE and x.flags.owndata and x.flags.writeable):
            x = np.array(x)
        arrays[i] = x
    return arrays


def _finished(g: Any, leaf: Any) -> Any:
    """Return a gradient in the form of the leaf: zeros where none arrived, a scalar for a Python number."""
    if isinstance(g, Tensor):
        return g._snapshot()
    if g is None:
        g = np.zeros(np.shape(leaf), dtype_of(leaf))
    if not isinstance(leaf, (np.ndarray, Tensor)):
        return dtype_of(leaf).type(g)
    return np.asarray(g)
