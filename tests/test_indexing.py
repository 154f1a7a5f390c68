"""Reading elements. The gradient adds up at the places that were read, which np.add.at on plain zeros shows."""

import numpy as np
import pytest

import minigrad
from samples import generator, real

X = real(3, 4, 2).draw(generator("indexing"))
ROWS, COLUMNS = np.array([2, 0, 2]), np.array([1, 1, 3])
MASK = X > 0

INDICES = {
    "integer": 1,
    "negative integer": -1,
    "numpy integer": np.int64(2),
    "integers for all axes": (0, -1, 1),
    "slice": slice(1, 3),
    "slice with a step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "backwards with bounds": (slice(2, 0, -1), slice(-1, None, -2)),
    "empty slice": slice(2, 1),
    "slice beyond the end": slice(1, 99),
    "ellipsis": ...,
    "ellipsis and integer": (..., 1),
    "empty tuple": (),
    "new axis": None,
    "new axes and slices": (slice(None), None, 2, ..., None),
    "ellipsis, new axis, integer": (..., None, 1),
    "integer array": ROWS,
    "integer array of two dimensions": np.array([[0, 1], [1, 1]]),
    "list": [0, 2, 0],
    "negative integers in an array": np.array([-1, 2, -3]),
    "0-d integer array": np.array(1),
    "empty integer array": np.array([], dtype=int),
    "empty list": [],
    "two arrays": (ROWS, COLUMNS),
    "three arrays": (ROWS, COLUMNS, np.array([0, 1, 0])),
    "arrays that broadcast": (np.array([[0], [1]]), np.array([2, 2, 3])),
    "array and integer": (ROWS, 1),
    "array and slice": (ROWS, slice(1, 3)),
    "slice and array": (slice(None), COLUMNS),
    "array between slices": (slice(1, None), [0, 0, 1], slice(None)),
    "arrays apart: their axes go first": ([0, 1], slice(None), [1, 1]),
    "integer and array apart": (0, slice(None), [1, 0, 1]),
    "array and new axis": (ROWS, None, COLUMNS),
    "array and ellipsis": (..., [1, 0]),
    "mask of all axes": MASK,
    "mask of the first axis": np.array([True, False, True]),
    "mask of the first axis as a list": [True, False, True],
    "mask of two axes": MASK[:, :, 0],
    "mask of a later axis": (slice(None), np.array([True, False, True, True])),
    "mask and array": (np.array([True, False, True]), [1, 1]),
    "mask and integer": (np.array([True, False, True]), 2),
    "mask of nothing": np.zeros((3, 4), bool),
    "mask of everything": np.ones(3, bool),
    "True": True,
    "False": False,
    "open mesh": np.ix_([0, 2], [1, 1, 0]),
    "unsigned integers": np.array([0, 1, 1], dtype=np.uint8),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_gradient_of_reading(index):
    taken = X[index]
    weights = generator("weights").normal(size=np.shape(taken)).round(2)
    wanted = np.zeros_like(X)
    np.add.at(wanted, index, weights)
    value, pull = minigrad.vjp(lambda x: x[index], X)
    assert np.shape(value) == np.shape(taken)
    np.testing.assert_array_equal(value, taken)
    np.testing.assert_allclose(pull(weights)[0], wanted, atol=1e-15)


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_reading_is_linear_twice(index):
    """The gradient of reading is adding; the gradient of adding is reading."""
    direction = generator("direction").normal(size=X.shape).round(2)
    _, tangent = minigrad.jvp(lambda x: x[index], (X,), (direction,))
    np.testing.assert_array_equal(tangent, direction[index])


def test_index_from_comparison_of_a_tensor():
    got = minigrad.grad(lambda x: np.sum(x[x > 0] ** 2), np.array([1.0, -2.0, 3.0]))
    assert got.tolist() == [2, 0, 6]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [(np.argmax, [0, 6, 0]), (np.argmin, [0, 0, 2]), (lambda x: int(np.argmax(x)), [0, 6, 0])],
)
def test_index_from_argmax_of_a_tensor(function, wanted):
    assert minigrad.grad(lambda x: x[function(x)] ** 2, np.array([2.0, 3.0, 1.0])).tolist() == wanted


def test_index_from_argsort_of_a_tensor():
    weights = np.array([1.0, 10.0, 100.0])
    got = minigrad.grad(lambda x: np.sum(weights * x[np.argsort(x)]), np.array([2.0, 3.0, 1.0]))
    assert got.tolist() == [10, 100, 1]


def test_same_element_read_twice():
    got = minigrad.grad(lambda x: x[0] * x[0] * x[1], np.array([3.0, 5.0]))
    assert got.tolist() == [30, 9]


def test_iteration_and_unpacking():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert minigrad.grad(lambda x: sum(r[0] * r[1] for r in x), x).tolist() == [[2, 1], [4, 3]]

    def unpacked(x):
        (p, q), (r, s) = x
        return p * s - q * r

    assert minigrad.grad(unpacked, x).tolist() == [[4, -3], [-2, 1]]


def test_embedding_of_many_rows():
    """Rows looked up often, from either end, are added in NumPy's order."""
    rng = np.random.default_rng(0)
    ids = rng.integers(-50, 50, (40, 30))
    g = rng.normal(size=(40, 30, 8))
    wanted = np.zeros((50, 8))
    np.add.at(wanted, ids, g)
    _, pull = minigrad.vjp(lambda table: table[ids], rng.normal(size=(50, 8)))
    np.testing.assert_array_equal(pull(g)[0], wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64])
def test_rows_by_numbers_of_a_small_type(dtype):
    """More rows than the type can count."""
    rows, g = np.array([3, 100, 3, 127], dtype), generator("rows").standard_normal((4, 2))
    wanted = np.zeros((300, 2))
    np.add.at(wanted, rows, g)
    _, pull = minigrad.vjp(lambda x: x[rows], np.zeros((300, 2)))
    np.testing.assert_array_equal(pull(g)[0], wanted)


def test_index_out_of_range_is_numpys_error():
    with pytest.raises(IndexError, match="out of bounds"):
        minigrad.grad(lambda x: x[3], np.ones(3))


def test_order_of_memory_in_ravel_and_reshape():
    """The orders A and K go by the memory of the array: the gradient must go the same way back."""
    for x in (X, np.asfortranarray(X), X.transpose(2, 0, 1), X[::-1, :, ::-1], X[:, ::2]):
        for order in "CFAK":
            g = np.arange(x.size, dtype=float)
            position = np.empty_like(x, dtype=int)
            position[...] = np.arange(x.size).reshape(x.shape)
            wanted = np.empty(x.size)
            wanted[np.ravel(position, order)] = g
            value, pull = minigrad.vjp(lambda x, order=order: np.ravel(x, order), x)
            np.testing.assert_array_equal(value, np.ravel(x, order))
            np.testing.assert_array_equal(pull(g)[0], wanted.reshape(x.shape))
            if order != "K":
                value, pull = minigrad.vjp(lambda x, order=order: np.reshape(x, (-1, 2), order), x)
                np.testing.assert_array_equal(value, np.reshape(x, (-1, 2), order))
                g = np.reshape(g, (-1, 2))
                wanted = np.zeros(x.size)
                np.add.at(wanted, np.reshape(position, (-1, 2), order), g)
                np.testing.assert_array_equal(pull(g)[0], wanted.reshape(x.shape))
