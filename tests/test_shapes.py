"""Arithmetic on shapes and axes, against NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad
from minigrad.errors import ShapeError
from minigrad.gradients import sum_to
from minigrad.shapes import broadcast_axes, inverse_permutation, kept_shape, normal_axes, reduced_count, shape_of

SHAPES = [(), (3,), (1,), (2, 3), (0, 2), (2, 1, 4), (1, 1), (3, 0, 1)]


VALUES = [np.zeros((2, 0, 3)), np.float32(1), 2.5, True, [], [1, 2], [[1, 2, 3]], ((1, 2), (3, 4)), [np.zeros(4)] * 2]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_shape_of(value):
    assert shape_of(value) == np.shape(value)


def test_shape_of_lists_of_tensors():
    minigrad.grad(lambda x: np.testing.assert_equal(shape_of([x, x]), (2, 3)) or np.sum(x), np.ones(3))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.median(x, axis=2),
        lambda x: np.quantile(x, 0.5, axis=(0, -3)),
        lambda x: np.diff(x, axis=2),
        lambda x: np.flip(x, axis=-3),
        lambda x: np.flip(x, axis=(0, -2)),
        lambda x: np.flipud(x[0, 0]),
        lambda x: np.fliplr(x[0]),
        lambda x: np.rot90(x, 2, axes=(0, 2)),
        lambda x: np.rot90(x[0]),
        lambda x: np.rollaxis(x, 0, -3),
        lambda x: np.rollaxis(x, 2),
        lambda x: np.gradient(x, axis=2),
        lambda x: np.gradient(x, axis=(1, -1)),
        lambda x: np.trapezoid(x, axis=2),
        lambda x: np.take(x, 0, axis=2),
        lambda x: np.trim_zeros(x, axis=2),
        lambda x: np.tensordot(x, x, axes=((2,), (0,))),
        lambda x: np.tensordot(x, x, axes=3),
        lambda x: np.linalg.norm(x, 1, axis=(0, 2)),
        lambda x: np.linalg.vector_norm(x, axis=2),
    ],
)
def test_an_axis_that_is_not_there_is_refused_as_numpy_refuses_it(f):
    x = np.ones((2, 2))
    with pytest.raises((ValueError, IndexError)):
        f(x)
    with pytest.raises((ValueError, IndexError)):
        minigrad.grad(lambda x: np.sum(f(x)), x)


@pytest.mark.parametrize("shape", SHAPES)
def test_axes_of_reductions(shape):
    n = len(shape)
    several = [c for k in range(n + 1) for c in itertools.combinations(range(n), k)]
    for axis in [None, *range(-n, n), *several, *(tuple(a - n for a in c) for c in several)]:
        kept = np.sum(np.ones(shape), axis=axis, keepdims=True)
        assert kept_shape(shape, axis) == kept.shape
        assert set(normal_axes(axis, n)) == {i for i in range(n) if kept_shape((7,) * n, axis)[i] == 1}
        assert all(count == reduced_count(shape, axis) for count in kept.reshape(-1))


def test_axes_of_nothing():
    assert normal_axes(0, 0) == normal_axes(-1, 0) == ()
    assert normal_axes([1, -1], 3) == (1, 2)
    assert normal_axes(np.int64(-1), 3) == (2,)


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_inverse_permutation(axes):
    x = np.zeros((2, 3, 4))
    assert np.transpose(np.transpose(x, axes), inverse_permutation(axes)).shape == x.shape
    negative = [a - 3 for a in axes]
    assert inverse_permutation(negative) == inverse_permutation(axes)


# --- undoing broadcasting


@given(st.lists(st.integers(0, 3), max_size=4).map(tuple), st.data())
def test_sum_to_is_the_adjoint_of_broadcasting(shape, data):
    """<g, broadcast(x)> = <sum_to(g), x>."""
    drop = data.draw(st.integers(0, len(shape)))
    small = tuple(1 if data.draw(st.booleans()) else n for n in shape[drop:])
    rng = np.random.default_rng(0)
    g, x = rng.normal(size=shape), rng.normal(size=small)
    summed = sum_to(g, small)
    assert summed.shape == small
    np.testing.assert_allclose(np.sum(g * np.broadcast_to(x, shape)), np.sum(summed * x), atol=1e-12)
    axes = broadcast_axes(shape, small)
    assert np.sum(g, axis=axes, keepdims=True).size == summed.size


def test_sum_to_of_a_value_with_more_axes():
    """Assignment takes a value with more axes than the place, if they have length 1."""
    g = np.arange(4.0)
    np.testing.assert_array_equal(sum_to(g, (1, 1, 4)), g.reshape(1, 1, 4))
    np.testing.assert_array_equal(sum_to(g, (1, 1)), [[6.0]])
    np.testing.assert_array_equal(sum_to(np.float64(2), (1, 1)), [[2.0]])


def test_sum_to_spreads_what_is_too_small():
    np.testing.assert_array_equal(sum_to(np.float64(2), (2, 3)), np.full((2, 3), 2.0))
    np.testing.assert_array_equal(sum_to(np.ones((2, 1)), (2, 3)), np.ones((2, 3)))


@pytest.mark.parametrize(("came", "wanted"), [((3,), (2,)), ((2, 3), (2,)), ((2, 3), (3, 2)), ((3, 1), (1, 2))])
def test_sum_to_refuses_what_does_not_fit(came, wanted):
    with pytest.raises(ShapeError, match=r"the adjoint of np\.f returned a gradient of shape"):
        sum_to(np.zeros(came), wanted, "np.f")


def test_sum_to_keeps_what_fits():
    g = np.ones((2, 3))
    assert sum_to(g, (2, 3)) is g


LAYOUTS = {
    "C": lambda g: g,
    "permuted": lambda g: np.ascontiguousarray(np.swapaxes(g, 0, -1)).swapaxes(0, -1),
    "broadcast": lambda g: np.broadcast_to(g[:1], g.shape),
    "reversed": np.flip,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize(
    ("came", "wanted"),
    [
        ((40, 30, 12), (12,)),
        ((40, 30, 12), (1, 12)),
        ((40, 30, 12), (40, 30, 1)),
        ((40, 30, 12), (40, 1, 12)),
        ((40, 30, 12), (30, 1)),
        ((40, 30, 12), ()),
        ((3, 5000), (3, 1)),
        ((5000,), ()),
        ((5000,), (1,)),
    ],
)
def test_sum_to_of_large_arrays(came, wanted, dtype, layout):
    g = LAYOUTS[layout](np.random.default_rng(0).normal(size=came).astype(dtype))
    summed = sum_to(g, wanted)
    assert (summed.shape, summed.dtype) == (wanted, dtype)
    axes = broadcast_axes(came, wanted)
    exact = np.sum(g, axis=axes, dtype=np.result_type(dtype, np.float64)).reshape(wanted)
    size = np.sum(np.abs(g), axis=axes, dtype=np.float64).reshape(wanted)
    assert np.all(np.abs(summed - exact) <= 16 * np.finfo(dtype).eps * size)


@pytest.mark.parametrize("wanted", [(100,), (80, 1)])
def test_sum_to_of_large_arrays_adds_what_is_not_finite(wanted):
    g = np.random.default_rng(0).normal(size=(80, 100))
    g[3, 4], g[5, 6], g[7, 6], g[7, 8] = np.nan, np.inf, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        summed, added = sum_to(g, wanted), np.sum(g, axis=broadcast_axes(g.shape, wanted)).reshape(wanted)
    np.testing.assert_allclose(summed, added, rtol=1e-12)
