"""minigrad.array: nested lists with Tensors in them, which NumPy would turn into plain data."""

import numpy as np
import pytest

import minigrad
from against_numpy import agrees

V = np.array([0.5, 1.5, 2.5])
array = minigrad.array


@pytest.mark.parametrize(
    "make",
    [
        lambda v, array: array([v[0], v[1] * 2, 3.0]),
        lambda v, array: array([[v[0], 1.0], [v[1] * v[2], v[2]]]),
        lambda v, array: array(((v, v * 2), [[1, 2, 3], v])),
        lambda v, array: array([[[v[0]], [v[1]]], [[1], [2]]]),
        lambda v, array: array([v, V]),
        lambda v, array: array(v) * v,
        lambda v, array: array([v[0], np.int64(3), True]),
        lambda v, array: array([v[:0], []]),
        lambda v, array: array([np.sum(v)]),
        lambda v, array: array([row * 2 for row in array([v, v])]),
    ],
)
def test_as_numpy(make):
    agrees(lambda v: make(v, np.array if isinstance(v, np.ndarray) else array), V)


def test_dtypes():
    small = V.astype(np.float32)
    for parts in ([0, 1], [0, 1.0], [np.float32(1), np.int8(2)]):
        got, _ = minigrad.vjp(lambda v, p=parts: array([v[0], *p]), small)
        assert got.dtype == np.array([small[0], *parts]).dtype
    got, pull = minigrad.vjp(lambda v: array([v[0], 1], dtype=np.float32), V)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(pull(np.array([2, 3], np.float32))[0], [2, 0, 0])


def test_without_tensors_it_is_numpys():
    for data in ([[1, 2], [3, 4]], 3.0, [], V, [V, V], (1, 2.5)):
        got = array(data)
        assert type(got) is np.ndarray
        np.testing.assert_array_equal(got, np.array(data))
        assert got.dtype == np.array(data).dtype
    assert not np.shares_memory(array(V), V)
    assert array([1, 2], dtype=np.float32).dtype == np.float32


def test_a_tensor_is_copied():
    def f(v):
        copied = array(v)
        copied[0] = 7
        return v * copied

    agrees(lambda v: f(v) if not isinstance(v, np.ndarray) else v * np.array([7, v[1], v[2]]), V)


def test_ragged_lists_raise():
    for ragged in (lambda v: array([v, v[0]]), lambda v: array([v, v[:2]]), lambda v: array([[v[0]], []])):
        with pytest.raises(ValueError, match="must"):
            minigrad.vjp(ragged, V)
