"""Zero times infinity is zero: in every order, and where the rule ends (docs/conventions.md has a line for each)."""

import numpy as np
import pytest

import minigrad
from minigrad.emit import adjoint_function
from minigrad.zero import has_nan

nan, inf = np.nan, np.inf


def a(*numbers):
    return np.array(numbers, dtype=float)


W33 = np.array([[1.0, inf, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]])
DATA = a(1, nan, 3)
FIRST = np.array([True, False, False])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_untaken_branch_contributes_nothing_in_every_order():
    def first(f):
        return lambda x: minigrad.grad(lambda y: np.sum(a(2, 3) * f(y)), x)

    for root, second, third in (
        (lambda x: np.where(x > 0, np.sqrt(x), 0), -0.25 * 4**-1.5, 0.375 * 4**-2.5),
        (lambda x: np.where(x > 0, np.log(x), 0), -1 / 16, 2 / 64),
        (lambda x: np.where(x > 0, 1 / x, 0), 2 / 64, -6 / 256),
    ):
        np.testing.assert_allclose(first(first(root))(a(0, 4)), [0, 9 * second])
        np.testing.assert_allclose(first(first(first(root)))(a(0, 4)), [0, 27 * third])


LIMITS = {
    "a zero that underflowed": (lambda x: np.log(np.exp(x[0])), a(1000), a(0)),
    "a zero that no limit has": (lambda x: np.sqrt(x[0]) ** 2, a(0), a(0)),
    "infinity meets a derivative of 0": (lambda x: np.sqrt(np.sum(x * x)), a(0, 0), a(nan, nan)),
    "infinity is not multiplied by 0": (lambda x: np.sqrt(x[0]), a(0), a(inf)),
    "a sum of products": (lambda x: np.sum(np.where(FIRST, np.einsum("i,ij", x, W33), 0)), a(1, 2, 3), a(nan, 3, 6)),
    "prod": (lambda x: 0 * np.prod(x), a(2, inf), a(nan, 0)),
    "inf - inf on the way": (lambda x: np.sum(np.where(x < inf, np.exp(x - x), 0)), a(1, inf), a(0, nan)),
    "0 * inf on the way": (lambda x: np.sum(np.where(x > 0, np.exp(x * (1 / x)), 0)), a(1, 0), a(0, nan)),
    "sin(inf) on the way": (lambda x: np.sum(np.where(x < inf, np.exp(np.sin(x)), 0)), a(0, inf), a(1, nan)),
    "NaN in data that is subtracted": (
        lambda x: np.sum(np.where(np.isnan(DATA), 0, (x - DATA) * (x - DATA))),
        a(2, 2, 2),
        a(2, nan, -2),
    ),
    "abs of NaN": (lambda x: np.sum(np.where(np.isnan(x), 0, np.abs(x))), a(1, nan), a(1, nan)),
    "tanh of NaN": (lambda x: np.sum(np.where(np.isnan(x), 0, np.tanh(x))), a(0, nan), a(1, nan)),
    "arctan of NaN": (lambda x: np.sum(np.where(np.isnan(x), 0, np.arctan(x))), a(0, nan), a(1, nan)),
}


@pytest.mark.parametrize(("f", "x", "answer"), LIMITS.values(), ids=LIMITS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_the_rule_ends(f, x, answer):
    """As the page says. A test that fails because the answer is better now: change the page."""
    np.testing.assert_array_equal(minigrad.grad(f, x), answer)


def test_the_ways_out():
    ways = {
        "norm": (np.linalg.norm, a(0, 0), a(0, 0)),
        "a masked operand": (
            lambda x: np.sum(np.where(FIRST, x @ np.where(np.isinf(W33), 0, W33), 0)),
            a(1, 2, 3),
            a(1, 3, 6),
        ),
        "masked data": (
            lambda x: np.sum(np.where(np.isnan(DATA), 0, (x - np.where(np.isnan(DATA), 0, DATA)) ** 2)),
            a(2, 2, 2),
            a(2, 0, -2),
        ),
        "a masked argument": (
            lambda x: np.sum(np.where(np.isnan(x), 0, np.tanh(np.where(np.isnan(x), 1, x)))),
            a(0, nan),
            a(1, 0),
        ),
    }
    for name, (f, x, wanted) in ways.items():
        np.testing.assert_array_equal(minigrad.grad(f, x), wanted, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64])
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 5), (70, 90)])
def test_a_nan_is_found_wherever_it_lies(shape, dtype):
    rng = np.random.default_rng(0)
    x = np.array(rng.normal(size=shape).round(2), dtype)
    x.flat[0] = inf
    for view in (x, x.T, x[..., ::-1] if x.ndim else x):
        assert not has_nan(view)
    for bad in (nan, -nan, complex(1, nan)) if x.dtype.kind == "c" else (nan, -nan):
        y = x.copy()
        y.flat[rng.integers(y.size)] = bad
        for view in (y, y.T, y[..., ::-1] if y.ndim else y):
            assert has_nan(view)


def test_constants_without_and_with_a_nan_on_one_tape():
    def f(x):
        return np.sum(x * a(1, 2, 3)) + np.sum(np.where(np.isnan(DATA), 0, x * DATA)) + np.sum(x * a(1, 2, 3))

    np.testing.assert_array_equal(minigrad.grad(f, a(1, 1, 1)), a(3, 4, 9))


def test_a_nan_in_a_constant_is_seen_in_the_generated_source():
    """Where a trace lies below the tape, which then holds no arrays to look into."""
    weights, mask, x = np.array([np.nan, 1.0]), np.array([False, True]), np.array([0.0, 2.0])

    def f(x):
        return np.sum(np.where(mask, x * weights, 0))

    gradient = adjoint_function(f, x, tidy=False)(1.0, x)
    np.testing.assert_array_equal(gradient, minigrad.grad(f, x))
    np.testing.assert_array_equal(gradient, [0.0, 1.0])
