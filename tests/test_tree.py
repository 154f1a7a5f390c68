"""Trees of arrays: taken apart, named, and put together again as they were."""

import random
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad
from minigrad import tree
from minigrad.errors import StructureError


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any = None

    def __post_init__(self):
        if isinstance(self.weight, str):
            raise TypeError("a weight is no text")


@dataclass(slots=True)
class Slotted:
    a: Any
    b: Any = field(default=3, kw_only=True)


Point = namedtuple("Point", "x y")
NESTED = {"b": [1, (2, None)], "a": Pair(3, {"k": Layer(4, [5])}), "c": Slotted(6, b=7)}


def test_leaves_in_order_of_the_keys():
    assert tree.leaves(NESTED) == [3, 4, 5, 1, 2, 6, 7]
    assert tree.leaves({"z": 1, "a": 2}) == tree.leaves({"a": 2, "z": 1}) == [2, 1]


def test_paths_name_the_leaves():
    assert tree.paths(NESTED) == [
        "a.first", "a.second.k.weight", "a.second.k.bias[0]", "b[0]", "b[1][0]", "c.a", "c.b",
    ]  # fmt: skip
    assert tree.paths(5) == [""]
    assert tree.paths([5, {"a b": 6, 7: 8, ("x", 1): 9}]) == ["[0]", "[1][7]", "[1]['a b']", "[1][('x', 1)]"]
    assert tree.paths({"blocks": [{"attention": {"q": 1}}]}) == ["blocks[0].attention.q"]
    assert tree.paths(None) == tree.paths([]) == []


def test_flatten_and_unflatten_are_inverse():
    leaves, structure = tree.flatten(NESTED)
    assert structure.n_leaves == len(leaves) == 7
    assert tree.unflatten(structure, iter(leaves)) == NESTED
    assert tree.structure(NESTED) == structure
    assert hash(structure) == hash(tree.structure(NESTED))


@pytest.mark.parametrize(
    "container",
    [
        [1, 2],
        (1, 2),
        (),
        {},
        None,
        {"b": 1, "a": 2},
        OrderedDict(b=1, a=2),
        defaultdict(list, b=1, a=2),
        Counter(b=3, a=2),
        Pair(1, 2),
        Point(1, [2]),
        Layer(1),
        Slotted(1, b=2),
        {1: 2, "a": 3, None: 4, (5, 6): 7, 2.5: 8},
    ],
)
def test_containers_keep_their_type_and_order(container):
    copied = tree.map(lambda x: x, container)
    assert type(copied) is type(container)
    assert copied == container
    if isinstance(container, dict):
        assert list(copied) == list(container)
        assert copied is not container
    assert getattr(copied, "default_factory", None) is getattr(container, "default_factory", None)


def test_gradients_can_be_zipped_with_parameters():
    """The order of a dict is that of its making, in the gradient as in the parameters."""
    params = {"w": np.ones(2), "b": np.ones(3), "a": np.ones(1)}
    gradient = minigrad.grad(lambda p: sum(np.sum(v) for v in p.values()), params)
    for p, g in zip(params.values(), gradient.values(), strict=True):
        assert p.shape == g.shape


def test_the_order_of_a_dict_does_not_matter_to_structures():
    one, other = {"b": 1, "a": [2]}, {"a": [3], "b": 4}
    assert tree.structure(one) == tree.structure(other)
    assert hash(tree.structure(one)) == hash(tree.structure(other))
    assert tree.map(lambda x, y: (x, y), one, other) == {"a": [(2, 3)], "b": (1, 4)}


def test_subclasses():
    class Names(list):
        pass

    class Table(dict):
        pass

    class Fixed(dict):
        def __init__(self, items):
            super().__init__(items)

    assert type(tree.map(lambda x: x + 1, Names([1]))) is Names
    assert type(tree.map(lambda x: x + 1, Table(a=1))) is Table
    assert tree.leaves(Fixed({"a": 1})) == [1]
    with pytest.raises(StructureError, match=r"a Fixed cannot be made empty: see minigrad\.tree\.register"):
        tree.map(lambda x: x, Fixed({"a": 1}))


def test_everything_else_is_a_leaf():
    for leaf in (5, "text", np.zeros(3), range(3), {1, 2}, object(), Layer, len, np.array([1, None])):
        assert tree.leaves(leaf)[0] is leaf
        assert str(tree.structure(leaf)) == "*"


def test_invariants_of_a_dataclass_need_not_hold_for_what_is_derived_from_it():
    assert tree.map(str, Layer(1, 2)).weight == "1"


def test_registered_types():
    class Box:
        def __init__(self, content, label):
            self.content, self.label = content, label

    assert tree.leaves(Box([1, 2], "l"))[0].label == "l"
    tree.register(Box, lambda b: (b.content, b.label), lambda label, parts: Box(list(parts), label))
    box = tree.map(lambda x: x * 2, Box([1, {"a": 2}], "l"))
    assert (box.content, box.label) == ([2, {"a": 4}], "l")
    assert tree.paths(Box([1, {"a": 2}], "l")) == ["[0]", "[1].a"]
    assert tree.structure(Box([1], "l")) == tree.structure(Box([2], "l")) != tree.structure(Box([1], "m"))
    tree.register(SimpleNamespace, lambda n: ([n.w], None), lambda _, parts: SimpleNamespace(w=parts[0]))
    gradient = minigrad.grad(lambda n: np.sum(n.w * n.w), SimpleNamespace(w=np.ones(2)))
    np.testing.assert_array_equal(gradient.w, [2, 2])


def test_map_over_several_trees():
    assert tree.map(lambda a, b, c: a + b * c, [1, {"x": 2}], [3, {"x": 4}], [5, {"x": 6}]) == [16, {"x": 26}]
    assert tree.map(lambda x: x + 1, 1) == 2
    assert tree.map(lambda x: x + 1, None) is None


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"a": 1}, {"b": 1}, r"differ at the top: wanted dict\(a: \*\), got dict\(b: \*\)"),
        ({"a": [1, 2]}, {"a": [1]}, r"differ at \.a: wanted list\(\[0\]: \*, \[1\]: \*\), got list\(\[0\]: \*\)"),
        ([None], [1], r"differ at \[0\]: wanted None, got \*"),
        ([1], (1,), r"differ at the top: wanted list\(\[0\]: \*\), got tuple\(\[0\]: \*\)"),
        (Pair(1, [2]), Pair(1, [Pair(2, 3)]), r"differ at \.second\[0\]: wanted \*, got Pair\(first: \*, second: \*\)"),
        ({"a b": [1]}, {"a b": 1}, r"differ at \['a b'\]: wanted list\(\[0\]: \*\), got \*"),
        (Layer(1, 2), Layer(1), r"differ at \.bias: wanted \*, got None"),
    ],
)
def test_the_first_difference_is_named(one, other, message):
    with pytest.raises(StructureError, match=f"tree.map: the trees {message}"):
        tree.map(lambda x, y: x, one, other)


def test_wrong_number_of_leaves():
    structure = tree.structure({"a": [1, 2]})
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(StructureError, match=rf"dict\(a: list.* has 2 leaves, got {len(leaves)}"):
            tree.unflatten(structure, leaves)


TREES = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text("abc d", max_size=3), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Layer, inner, inner)
    ),
    max_leaves=12,
)


@given(TREES, TREES)
def test_leaves_of_an_expected_structure(expected, other):
    shape = tree.structure(expected)
    assert tree.leaves_of(shape, expected) == tree.leaves(expected)
    leaves, found = tree.flatten(other)
    same = found == shape and found.orders == shape.orders
    assert tree.leaves_of(shape, other) == (leaves if same else None)


def test_leaves_of_a_dict_are_in_the_order_of_the_leaves():
    a, b = np.zeros(2), np.ones(2)
    shape = tree.structure({"b": [b], "a": a})
    found = tree.leaves_of(shape, {"b": [b], "a": a})
    assert found is not None and found[0] is a and found[1] is b
    for other in ({"a": a, "b": [b]}, {"b": [b]}, {"b": [b], "c": a}, {"b": [b], "a": a, "c": a}):
        assert tree.leaves_of(shape, other) is None


@given(TREES)
def test_any_tree_comes_back(structure):
    leaves, shape = tree.flatten(structure)
    paths = tree.paths(structure)
    assert len(paths) == len(leaves) == shape.n_leaves
    assert len(set(paths)) == len(paths)
    assert tree.unflatten(shape, leaves) == structure
    scrambled = list(enumerate(leaves))
    random.Random(0).shuffle(scrambled)
    assert tree.leaves(tree.unflatten(shape, [x for _, x in sorted(scrambled)])) == leaves


def test_paths_after_a_name():
    assert tree.paths({"a": [1, {"b c": 2}], "d": 3}, "params") == ["params.a[0]", "params.a[1]['b c']", "params.d"]
    assert tree.paths((1, 2), "out") == ["out[0]", "out[1]"]
    assert tree.paths(5, "x") == ["x"]
