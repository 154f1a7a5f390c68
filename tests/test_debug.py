"""minigrad.debug: the first non-finite value and the first unwanted float64, located."""

import re

import numpy as np
import pytest

import minigrad
from minigrad.errors import DtypeError, NonFiniteError

X = np.array([0.0, 1.0, 4.0])


def debugged(f, *args):
    """The gradient under debug, with NumPy's own warnings off."""
    with np.errstate(all="ignore"), minigrad.debug():
        return minigrad.grad(f, *args, unused="zero")


def located(text, source):
    """Check that a message has this file and this source line."""
    assert re.search(rf"\n  at +\S*test_debug\.py:\d+ +{re.escape(source)}\n", text), text


# --- forward


def test_an_infinity_in_the_forward_pass():
    def f(x):
        y = x + 1
        z = np.log(x)
        return np.sum(y * z)

    with pytest.raises(NonFiniteError) as caught:
        debugged(f, X)
    text = str(caught.value)
    assert text.startswith("np.log gave an infinity at index (0,), from inputs without one.\n")
    located(text, "z = np.log(x)")
    assert "  x      float64 (3,), from 0 to 4" in text


def test_a_nan_in_the_forward_pass():
    with pytest.raises(NonFiniteError, match=r"np\.sqrt gave a NaN at index \(0, 1\) and 2 more"):
        debugged(lambda x: np.sum(np.sqrt(x)), np.array([[1.0, -1.0], [-2.0, -3.0]]))
    with pytest.raises(NonFiniteError, match=r"np\.divide gave a NaN, from"):
        debugged(lambda x: x[0] / x[0], X)


def test_a_nan_that_came_in():
    def f(x, y):
        row = x[0]
        z = np.where(np.isnan(row), 0, row)
        return np.sum(z * y)

    bad = np.array([1.0, np.nan, 2.0])
    debugged(f, bad[None], X)
    with pytest.raises(NonFiniteError) as caught:
        debugged(f, X[None], bad)
    text = str(caught.value)
    assert text.startswith("np.multiply was given a NaN at index (1,), which no operation made: it was in the data")
    located(text, "return np.sum(z * y)")
    with pytest.raises(NonFiniteError, match=r"np\.exp was given a NaN at index \(1,\), which no operation made"):
        debugged(lambda x: np.sum(np.exp(x)), bad)
    debugged(lambda x: np.nansum(x * 1.0) if not np.any(np.isnan(x)) else np.nansum(x), bad)


def test_overflow_of_a_small_dtype():
    with pytest.raises(NonFiniteError, match=r"np\.exp gave an infinity"):
        debugged(lambda x: np.sum(np.exp(x * 30)), X.astype(np.float32))
    debugged(lambda x: np.sum(np.exp(x * 30)), X)


def test_results_without_gradient_are_looked_at_too():
    with pytest.raises(NonFiniteError, match=r"np\.divide gave an infinity"):
        debugged(lambda x: np.sum(x) + np.sum(np.floor(1 / np.zeros_like(x))), X)


def test_inside_an_inner_differentiation():
    with pytest.raises(NonFiniteError, match=r"np\.log gave an infinity") as caught:
        debugged(lambda x: np.sum(minigrad.grad(lambda y: np.sum(np.log(y)), x)), X)
    assert "test_debug.py" in str(caught.value)


def test_several_results():
    with pytest.raises(NonFiniteError, match=r"gave a NaN"):
        debugged(lambda x: np.sum(np.modf(x * np.inf)[0]), X)


# --- backward


def test_an_infinity_in_the_backward_pass():
    def f(x):
        y = np.sqrt(x)
        return np.sum(y)

    with pytest.raises(NonFiniteError) as caught:
        debugged(f, X)
    text = str(caught.value)
    assert text.startswith("the adjoint of np.sqrt gave an infinity at index (0,), from a gradient without one.\n")
    located(text, "y = np.sqrt(x)")
    assert text.endswith("  kept   float64 (3,)")


def test_a_nan_of_a_custom_adjoint():
    broken = minigrad.custom_adjoint(lambda x: x * 2, lambda g, x: g * np.nan)
    with pytest.raises(NonFiniteError, match=r"the adjoint of <lambda> gave a NaN at index \(0,\) and 2 more"):
        debugged(lambda x: np.sum(broken(x)), X)


def test_inside_a_checkpoint():
    with pytest.raises(NonFiniteError, match=r"the adjoint of np\.sqrt gave an infinity"):
        debugged(lambda x: np.sum(minigrad.checkpoint(lambda x: np.sqrt(x) * 2)(x)), X)


def test_zero_times_infinity_is_no_trouble():
    np.testing.assert_array_equal(debugged(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), X), [0.0, 0.5, 0.25])


# --- what was put in is not reported


def test_what_was_put_in_is_not_reported():
    mask = np.array([-np.inf, 0.0, 0.0])
    debugged(lambda x: np.sum(np.exp(x + mask)), X)
    debugged(lambda x: np.sum(np.where(mask < 0, 0.0, x)), np.array([np.nan, 1.0, 2.0]))
    debugged(lambda x: np.max(x + mask), X)


# --- float64 in a float32 computation


def test_float64_out_of_float32():
    small = X.astype(np.float32)

    def f(x):
        y = x * 2.0
        z = y / np.sqrt(2)
        return np.sum(z)

    with pytest.raises(DtypeError) as caught:
        debugged(f, small)
    text = str(caught.value)
    assert text.startswith("np.divide made float64 out of float32: a float32 computation grew wider.\n")
    located(text, "z = y / np.sqrt(2)")
    assert "y      float64 (), 1.4142" in text
    assert "fix    make the wide operand float32, or a Python float" in text
    with pytest.raises(DtypeError, match="made complex128 out of complex64"):
        debugged(lambda x: np.sum(np.abs(x * 1j * X)), small)
    with pytest.raises(DtypeError, match="made float64 out of float16"):
        debugged(lambda x: np.sum(x + np.arange(3)), X.astype(np.float16))


def test_what_is_asked_for_may_be_wide():
    small = X.astype(np.float32)
    debugged(lambda x: np.sum(x.astype(np.float64)), small)
    debugged(lambda x: np.sum(x, dtype=np.float64), small)
    debugged(lambda x: np.sum(x * 2 + 1.5) * 3, small)
    debugged(lambda x: np.sum(x * X), X)
    debugged(lambda p: np.sum(p[0]) * np.sum(p[1]), [small, X])


# --- the context


def test_results_are_the_same():
    x = np.array([0.5, 1.5])

    def f(x):
        y = np.tanh(x)
        y[0] *= 2
        return np.sum(y * np.modf(x * 3)[0])

    np.testing.assert_array_equal(debugged(f, x), minigrad.grad(f, x))
    with minigrad.debug():
        np.testing.assert_array_equal(minigrad.hessian(f, x), minigrad.hessian(f, x))


def test_only_within_the_context():
    f = lambda x: np.sum(np.sqrt(x))
    with pytest.raises(NonFiniteError):
        debugged(f, X)
    with np.errstate(all="ignore"):
        assert minigrad.grad(f, X)[0] == np.inf
        with pytest.raises(KeyError), minigrad.debug():
            raise KeyError
        assert minigrad.grad(f, X)[0] == np.inf
