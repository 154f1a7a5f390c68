"""Structures of arrays (pytrees): dicts, lists, tuples, named tuples, dataclasses and None, and registered types.

Everything else is a leaf.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.errors import StructureError

__all__ = ["Structure", "flatten", "leaves", "map", "paths", "register", "structure", "unflatten"]


@dataclass(frozen=True)
class Structure:
    """The shape of a tree without its leaves. Equal structures have the same types, keys and number of leaves."""

    kind: type | None  # None for a leaf
    children: tuple[Structure, ...] = ()
    keys: tuple[Any, ...] = ()
    # How to build the container, which makes no difference to whether two structures are equal: the keys of a dict in
    # the order they were put in, and what its constructor takes.
    order: tuple[Any, ...] = field(default=(), compare=False)
    given: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def steps(self) -> tuple[str, ...]:
        """The path steps of the children: "[0]", ".weight", "['a b']"."""
        if self.kind is None or self.kind is type(None):
            return ()
        return _steps(self.kind, self.keys, len(self.children))

    @functools.cached_property
    def n_leaves(self) -> int:
        """The number of leaves below."""
        return 1 if self.kind is None else sum(child.n_leaves for child in self.children)

    @functools.cached_property
    def orders(self) -> tuple[Any, ...]:
        """The order of the keys of every dict, in which equal structures may differ."""
        return (self.order, *(child.orders for child in self.children if child.kind is not None))

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        parts = [f"{s.removeprefix('.')}: {child}" for s, child in zip(self.steps, self.children, strict=True)]
        return f"{self.kind.__name__}({', '.join(parts)})"


LEAF = Structure(None)

_REGISTERED: dict[type, tuple[Callable[[Any], tuple[Iterable[Any], Any]], Callable[[Any, list[Any]], Any]]] = {}


def register(
    kind: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, list[Any]], Any],
) -> None:
    """Teach `minigrad` a new container.

    Parameters
    ----------
    kind
        The class. Subclasses are not included.
    flatten
        `flatten(x) -> (children, rest)`: the parts that hold arrays, and a hashable rest.
    unflatten
        `unflatten(rest, children) -> x`: the inverse.
    """
    _REGISTERED[kind] = (flatten, unflatten)


def _steps(kind: type, keys: tuple[Any, ...], n: int) -> tuple[str, ...]:
    if kind not in _REGISTERED:
        if issubclass(kind, dict):
            return tuple(f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in keys)
        names = getattr(kind, "_fields", ()) if issubclass(kind, tuple) else keys
        if names:
            return tuple(f".{name}" for name in names)
    return tuple(f"[{i}]" for i in range(n))


def _sorted_keys(node: dict[Any, Any]) -> tuple[Any, ...]:
    """Return the keys in an order that does not depend on insertion, so that equal dicts have equal structures."""
    try:
        return tuple(sorted(node))
    except TypeError:  # keys of several types
        return tuple(sorted(node, key=lambda key: (type(key).__name__, repr(key))))


def _children(node: Any) -> tuple[list[Any], tuple[Any, ...]] | None:
    """Return the children of a node and its keys; None for a leaf."""
    kind = type(node)
    if kind is np.ndarray:
        return None  # most leaves are
    if node is None:
        return [], ()
    if kind in _REGISTERED:
        children, rest = _REGISTERED[kind][0](node)
        return list(children), (rest,)
    if isinstance(node, dict):
        keys = _sorted_keys(node)
        return [node[key] for key in keys], keys
    if isinstance(node, (list, tuple)):
        return list(node), ()
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        names = tuple(f.name for f in dataclasses.fields(node))
        return [getattr(node, name) for name in names], names
    return None


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree, in order, and its structure."""
    found = _children(tree)
    if found is None:
        return [tree], LEAF
    children, keys = found
    leaves_: list[Any] = []
    structures = []
    for child in children:
        if type(child) is np.ndarray:
            leaves_.append(child)
            structures.append(LEAF)
        else:
            below, structure_ = flatten(child)
            leaves_ += below
            structures.append(structure_)
    order = tuple(tree) if isinstance(tree, dict) else ()
    given = (tree.default_factory,) if isinstance(tree, defaultdict) else ()
    return leaves_, Structure(type(tree), tuple(structures), keys, order, given)


def leaves_of(structure: Structure, tree: Any) -> list[Any] | None:
    """Return the leaves of a tree if it has this structure and its dicts this order of keys, otherwise None.

    It is `flatten` for a tree that is expected.
    """
    found: list[Any] = []
    return found if _collect(structure, tree, found) else None


def _collect(structure: Structure, node: Any, found: list[Any]) -> bool:
    kind: Any = structure.kind
    children: Iterable[Any]
    if type(node) is not kind:
        found.append(node)
        return kind is None and _children(node) is None
    if kind is dict:
        if tuple(node) != structure.order:
            return False
        children = [node[key] for key in structure.keys]
    elif kind is list or kind is tuple:
        children = node
    else:
        below, own = flatten(node)
        found += below
        return own == structure and own.orders == structure.orders
    if len(node) != len(structure.children):
        return False
    for expected, child in zip(structure.children, children, strict=True):
        if expected is LEAF and type(child) is np.ndarray:
            found.append(child)  # most are
        elif not _collect(expected, child, found):
            return False
    return True


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """Return the tree of this structure with these leaves.

    Raises
    ------
    StructureError
        If the number of leaves is not the structure's.
    """
    leaves_ = list(leaves)
    if len(leaves_) != structure.n_leaves:
        raise StructureError(f"a tree of structure {structure} has {structure.n_leaves} leaves, got {len(leaves_)}")
    return _build(structure, iter(leaves_))


def _build(structure: Structure, leaves_: Any) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves_)
    if kind is type(None):
        return None
    children = [next(leaves_) if child is LEAF else _build(child, leaves_) for child in structure.children]
    if kind is list:
        return children
    if kind is dict and structure.order == structure.keys:
        return dict(zip(structure.keys, children, strict=True))
    if kind in _REGISTERED:
        return _REGISTERED[kind][1](structure.keys[0], children)
    if issubclass(kind, dict):
        try:
            built = kind(*structure.given)
        except TypeError as error:
            raise StructureError(f"a {kind.__name__} cannot be made empty: see minigrad.tree.register") from error
        below = dict(zip(structure.keys, children, strict=True))
        for key in structure.order:
            built[key] = below[key]
        return built
    if hasattr(kind, "_make"):
        return kind._make(children)
    if issubclass(kind, (list, tuple)):
        return kind(children)
    # A dataclass is rebuilt field by field, without __init__: its invariants were checked when the original was
    # made, and they need not hold for gradients.
    node = object.__new__(kind)
    for name, child in zip(structure.keys, children, strict=True):
        object.__setattr__(node, name, child)
    return node


def structure(tree: Any) -> Structure:
    """Return the structure of a tree."""
    return flatten(tree)[1]


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree, in order."""
    return flatten(tree)[0]


def paths(tree: Any, name: str = "") -> list[str]:
    """Return the place of each leaf, such as `blocks[0].attention.q`, after the tree's name if it has one."""
    return [name + path if name else path.removeprefix(".") for path in _paths(tree)]


def _paths(tree: Any) -> list[str]:
    found = _children(tree)
    if found is None:
        return [""]
    children, keys = found
    steps = _steps(type(tree), keys, len(children))
    return [step + below for step, child in zip(steps, children, strict=True) for below in _paths(child)]


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Return the tree of `f(leaf, *leaves of the other trees)`.

    Raises
    ------
    StructureError
        If the trees differ in structure.
    """
    first, structure_ = flatten(tree)
    others = []
    for other in rest:
        below = leaves_of(structure_, other)
        if below is None:
            below, other_structure = flatten(other)
            check_same(structure_, other_structure, "tree.map")
        others.append(below)
    return unflatten(structure_, [f(*group) for group in zip(first, *others, strict=True)])


def check_same(wanted: Structure, came: Structure, who: str) -> None:
    """Raise a StructureError that names the first difference."""
    if wanted != came:
        place, a, b = _first_difference(wanted, came, "")
        raise StructureError(f"{who}: the trees differ at {place or 'the top'}: wanted {a}, got {b}")


def _first_difference(a: Structure, b: Structure, place: str) -> tuple[str, str, str]:
    if a.kind is not b.kind or a.keys != b.keys or len(a.children) != len(b.children):
        return place, str(a), str(b)
    for step, x, y in zip(a.steps, a.children, b.children, strict=True):
        if x != y:
            return _first_difference(x, y, place + step)
    return place, str(a), str(b)
