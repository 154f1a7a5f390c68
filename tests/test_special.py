"""minigrad.erf to the last digits, and SciPy's functions: found when SciPy is there, explained when they cannot be."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.special as sp

import minigrad
from minigrad.errors import CutGraphError, DtypeError, MissingAdjoint, UnsupportedError


def ulps(got, wanted):
    """Return the largest error in units of the last place of `got`'s dtype."""
    wanted = np.asarray(wanted)
    return float(np.max(np.abs(got - wanted) / np.spacing(np.abs(wanted).astype(got.dtype))))


SPREAD = np.concatenate([np.linspace(-6.5, 6.5, 20_001), 10.0 ** np.linspace(-30, 0, 3_001), [0.5, -0.5]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_erf_is_right_to_a_few_units_in_the_last_place(dtype):
    x = SPREAD.astype(dtype)
    x = x[np.abs(x) >= np.finfo(dtype).tiny]
    got = minigrad.erf(x)
    assert got.dtype == dtype
    assert ulps(got, [math.erf(v) for v in x]) <= 4


def test_erf_at_the_special_points():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e300, -1e-320])
    np.testing.assert_array_equal(minigrad.erf(x), [math.erf(v) for v in x])
    assert np.signbit(minigrad.erf(-0.0))
    assert minigrad.erf(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_erf_of_numbers_and_integers():
    assert isinstance(minigrad.erf(0.5), np.float64)
    assert minigrad.erf(0.5) == math.erf(0.5)
    assert minigrad.erf(np.array([1, 2])).dtype == np.float64
    assert isinstance(minigrad.erf(np.float32(1)), np.float32)


def test_erf_of_more_than_a_block():
    x = np.random.default_rng(0).normal(size=(3, 20_011)).round(3)
    np.testing.assert_array_equal(minigrad.erf(x)[::2, ::97], minigrad.erf(np.ascontiguousarray(x[::2, ::97])))


def test_erf_refuses_complex_numbers():
    with pytest.raises(DtypeError, match="real numbers, got complex128"):
        minigrad.erf(np.array([1j]))


def test_scipy_is_imported_by_its_user_only():
    code = "import sys, minigrad; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_function_of_scipy_without_a_rule_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"scipy\.special\.agm of a Tensor is not supported"):
        minigrad.grad(lambda x: sp.agm(x, 1.0), 2.0)


def test_a_parameter_without_a_closed_form_is_refused_by_name():
    with pytest.raises(MissingAdjoint, match=r"scipy\.special\.gammainc has no adjoint with respect to 'a'"):
        minigrad.grad(lambda a: sp.gammainc(a, 1.0), 2.0)


X = np.array([0.3, -1.2, 2.0])
N_UFUNCS = {
    "logsumexp": (lambda x: sp.logsumexp(x), lambda x: np.logaddexp.reduce(x)),
    "softmax": (lambda x: sp.softmax(x), lambda x: np.exp(x - np.logaddexp.reduce(x, 0, keepdims=True))),
    "log_softmax": (lambda x: sp.log_softmax(x), lambda x: x - np.logaddexp.reduce(x, 0, keepdims=True)),
    "polygamma": (lambda x: sp.polygamma(2, x * x), lambda x: -2 * sp.zeta(3, x * x)),
}


@pytest.mark.parametrize("name", N_UFUNCS)
def test_what_is_no_ufunc_names_another_way_that_works(name):
    refused, instead = N_UFUNCS[name]
    np.testing.assert_allclose(instead(X), refused(X), rtol=1e-14)
    message = rf"scipy\.special\.{name} .*\n.*test_special\.py.*\n.*\n.*(logaddexp|zeta)"
    with pytest.raises(CutGraphError, match=message):
        minigrad.grad(lambda x: np.sum(refused(x)), X)
    assert np.all(np.isfinite(minigrad.grad(lambda x: np.sum(instead(x) * X), X)))


def test_zero_times_infinity_is_zero():
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(sp.xlogy(0.0, x)), np.array([0.0, 2.0])), 0)
    np.testing.assert_allclose(minigrad.grad(lambda x: np.sum(sp.sici(x)[0]), np.array([0.0])), 1)


@pytest.mark.parametrize(("x", "first", "second"), [(0.0, 1, 2 * np.euler_gamma), (-1.0, -1, 2 - 2 * np.euler_gamma)])
def test_reciprocal_gamma_is_smooth_where_gamma_has_its_poles(x, first, second):
    slope = minigrad.grad(sp.rgamma)
    assert slope(x) == pytest.approx(first, rel=1e-13)
    assert minigrad.grad(slope)(x) == pytest.approx(second, rel=1e-12)


def test_powers_less_one_of_zero():
    x, y = np.zeros(3), np.array([0.0, 1.0, 2.0])
    dx, dy = minigrad.grad(lambda x, y: np.sum(sp.powm1(x, y)), x, y, argnums=(0, 1))
    assert dx.tolist() == [0, 1, 0]
    assert dy.tolist() == [0, 0, 0]
