"""The matrix products of compiled kernels: every shape, order in memory and batch, next to NumPy's in float64."""

import numpy as np
import pytest

import minigrad

pytest.importorskip("llvmlite")

TOLERANCE = {"float32": 2e-6, "float64": 4e-15}

# Around the edges of tiles, panels and blocks: 1, a part of a tile, whole tiles and one more, more than a block deep.
SIZES = [(1, 1, 1), (1, 65, 64), (5, 7, 3), (6, 16, 8), (13, 33, 300), (97, 31, 257), (200, 530, 40), (30, 300, 513)]


def numbers(seed, *shape, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product(f, *arrays):
    compiled = minigrad.compile(f, backend="llvm")
    result = compiled(*arrays)
    assert np.array_equal(result, compiled(*arrays), equal_nan=True)
    return result


def check(f, *arrays):
    """Compare with float64, in units of what rounding of every term could make."""
    result = product(f, *arrays)
    wide = [a.astype(np.longdouble if a.dtype == np.float64 else np.float64) for a in arrays]
    largest = f(*map(np.abs, wide))
    assert result.dtype == arrays[0].dtype and result.shape == largest.shape
    assert np.all(np.abs(result - f(*wide)) <= TOLERANCE[result.dtype.name] * largest)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_orders_in_memory(sizes, dtype):
    m, n, k = sizes
    a, b = numbers(0, m, k, dtype=dtype), numbers(1, k, n, dtype=dtype)
    a_across, b_across = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    check(lambda a, b: a @ b, a, b)
    check(lambda a, b: a.T @ b, a_across, b)
    check(lambda a, b: a @ b.T, a, b_across)
    check(lambda a, b: a.T @ b.T, a_across, b_across)
    check(lambda a, b: (a @ b).T.copy(), a, b)


def test_rows_and_columns_that_are_not_neighbours():
    a, b = numbers(0, 40, 62), numbers(1, 31, 50)
    check(lambda a, b: a[::2, ::2] @ b[:, ::-3], a, b)
    check(lambda a, b: a[3:9, 31:] @ b[:, 1:2], a, b)
    check(lambda a, b: np.broadcast_to(a[:1], (7, 62))[:, :31] @ b, a, b)


@pytest.mark.parametrize("shapes", [
    ((6, 20, 8), (6, 8, 9)), ((3, 2, 20, 8), (2, 8, 9)), ((20, 8), (5, 8, 9)), ((4, 1, 20, 8), (3, 8, 9)),
    ((8,), (8, 9)), ((20, 8), (8,)), ((8,), (8,)), ((5, 20, 8), (8,)), ((8,), (5, 8, 9)), ((40, 30, 40), (40, 40)),
], ids=str)  # fmt: skip
def test_batches_and_vectors(shapes):
    check(lambda a, b: a @ b, *(numbers(i, *shape) for i, shape in enumerate(shapes)))


@pytest.mark.parametrize("shapes", [((100, 50), (50, 40)), ((40, 50), (50, 170)), ((9, 30, 40), (9, 40, 30))], ids=str)
def test_products_are_shared_among_threads(shapes, monkeypatch):
    monkeypatch.setenv("MINIGRAD_NUM_THREADS", "3")
    check(lambda a, b: a @ b, *(numbers(i, *shape) for i, shape in enumerate(shapes)))


def test_what_is_beside_a_result_stays():
    """A tile wider or higher than the result must not write over its neighbours in memory."""

    def f(a, b):
        parts = [a[:, :5] @ b[:5], a @ b[:, :3], a[:7] @ b]
        return np.concatenate([p.reshape(-1) for p in parts])

    check(f, numbers(0, 33, 40), numbers(1, 40, 17))


def test_nan_and_infinity_stay_in_their_rows_and_columns():
    a, b = numbers(0, 17, 20), numbers(1, 20, 18)
    a[3, 5], a[9, 0], b[7, 2] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        result, expected = product(lambda a, b: a @ b, a, b), a @ b
    assert np.array_equal(np.isfinite(result), np.isfinite(expected))
    assert np.array_equal(np.isnan(result), np.isnan(expected))


def test_whole_numbers_are_multiplied_by_numpy():
    a = np.arange(12).reshape(3, 4)
    assert np.array_equal(product(lambda a: a @ a.T, a), a @ a.T)
