"""Where a derivative does not exist or hides behind 0 * inf: a line for each convention of docs/conventions.md."""

from pathlib import Path

import numpy as np
import pytest

import minigrad
from benchmarks.kinks import KINKS
from minigrad.errors import ControlFlowError, CutGraphError, DtypeError, UnsupportedError

PAGE = Path(__file__).resolve().parents[1] / "docs" / "conventions.md"

W3 = np.array([1.0, 10.0, 100.0])
W4 = np.array([1.0, 10.0, 100.0, 1000.0])
nan, inf = np.nan, np.inf


def a(*numbers):
    return np.array(numbers, dtype=float)


def gradients(f, *args):
    """The gradients of all arguments, without a floating-point warning from the backward pass."""
    return minigrad.grad(f, *args, argnums=tuple(range(len(args))), unused="zero")


ONE = {
    # ties
    "max shares equally": (lambda x: np.max(x), a(2, 3, 3, 1), a(0, 0.5, 0.5, 0)),
    "max of three ties": (lambda x: 6 * np.max(x), a(1, 1, 1), a(2, 2, 2)),
    "min shares equally along an axis": (
        lambda x: np.sum(a(1, 10) * np.min(x, axis=1)),
        a(1, 1, 2, 5, 4, 4).reshape(2, 3),
        a(0.5, 0.5, 0, 0, 5, 5).reshape(2, 3),
    ),
    "max of an array with itself": (lambda x: np.sum(W3 * np.maximum(x, x)), a(1, 2, 3), W3),
    "max when the initial value wins": (lambda x: np.max(x, initial=9.0), a(1, 2, 3), a(0, 0, 0)),
    "max skips what is masked": (
        lambda x: np.max(x, where=np.array([True, True, False]), initial=-inf),
        a(2, 2, 9),
        a(0.5, 0.5, 0),
    ),
    "ptp of a constant": (lambda x: np.ptp(x), a(2, 2), a(0, 0)),
    "sort keeps the order of equal elements": (lambda x: np.sum(W3 * np.sort(x)), a(2, 1, 1), a(100, 1, 10)),
    "median of an even number": (lambda x: np.median(x), a(4, 1, 3, 2), a(0, 0, 0.5, 0.5)),
    "median of equal elements": (lambda x: np.median(x), a(1, 1, 1), a(0, 1, 0)),
    "quantile at an element": (lambda x: np.quantile(x, 0.5), a(3, 1, 2), a(0, 0, 1)),
    "partition keeps the order of equal elements": (
        lambda x: np.sum(W4 * np.partition(x, 1)),
        a(2, 2, 1, 1),
        a(100, 1000, 1, 10),
    ),
    "unique: the first of equal elements": (
        lambda x: np.sum(a(1, 10) * np.unique(x)),
        a(2, 1, 2),
        a(10, 1, 0),
    ),
    "running maximum: the first of equal elements": (
        lambda x: np.sum(W4 * np.maximum.accumulate(x)),
        a(1, 3, 3, 2),
        a(1, 1110, 0, 0),
    ),
    "maximum with zero at zero": (lambda x: np.sum(W3 * np.maximum(x, 0)), a(-1, 0, 2), a(0, 5, 100)),
    # kinks
    "abs at zero": (lambda x: np.sum(W3 * np.abs(x)), a(0, -2, 3), a(0, -10, 100)),
    "fabs at zero": (lambda x: np.sum(W3 * np.fabs(x)), a(0, -2, 3), a(0, -10, 100)),
    "clip at its bounds": (lambda x: np.sum(W4 * np.clip(x, 0, 1)), a(0, 0.5, 1, 2), a(1, 10, 100, 0)),
    "steps are flat": (
        lambda x: (
            np.sum(W3 * (np.floor(x) + np.ceil(x) + np.sign(x) + np.round(x) + np.heaviside(x, 0.5))) + 0 * np.sum(x)
        ),
        a(0, 1, 2.5),
        a(0, 0, 0),
    ),
    "remainder where it jumps": (lambda x: np.sum(W3 * np.remainder(x, 1.0)), a(0, 1, -2), W3),
    "interpolation at a point moves to the right": (
        lambda x: np.sum(W3 * np.interp(x, a(0, 1, 2), a(0, 1, 3))),
        a(0, 1, 2),
        a(1, 20, 200),
    ),
    "interpolation outside is constant": (
        lambda x: np.sum(np.interp(x, a(0, 1), a(0, 1))),
        a(-1, 2),
        a(0, 0),
    ),
    "nan_to_num": (lambda x: np.sum(W3 * np.nan_to_num(x)), a(nan, inf, 2), a(0, 0, 100)),
    # derivatives that are infinite or undefined, times zero
    "norm at zero": (lambda x: np.linalg.norm(x), a(0, 0, 0), a(0, 0, 0)),
    "norm of a zero row": (
        lambda x: np.sum(np.linalg.norm(x, axis=-1)),
        a(3, 4, 0, 0).reshape(2, 2),
        a(0.6, 0.8, 0, 0).reshape(2, 2),
    ),
    "squared norm at zero": (lambda x: np.linalg.norm(x) ** 2, a(0, 0), a(0, 0)),
    "std of a constant": (lambda x: np.std(x), a(2, 2, 2), a(0, 0, 0)),
    "std of a constant row": (
        lambda x: np.sum(np.std(x, axis=1)),
        a(2, 2, 1, 3).reshape(2, 2),
        a(0, 0, -0.5, 0.5).reshape(2, 2),
    ),
    "var of a constant": (lambda x: np.var(x), a(2, 2, 2), a(0, 0, 0)),
    "x**0": (lambda x: np.sum(W3 * x**0), a(0, -2, 3), a(0, 0, 0)),
    "x**0.0 and arrays of exponents": (lambda x: np.sum(W3 * x ** a(0, 1, 2)), a(0, 0, -3), a(0, 10, -600)),
    "x**integers": (lambda x: np.sum(W3 * x ** np.array([0, 1, 2])), a(0, 0, -3), a(0, 10, -600)),
    "0**y is flat": (lambda y: np.sum(a(0, 2, 0) ** y), a(1, 1, 2), a(0, 2 * np.log(2), 0)),
    "sqrt(0) in the untaken branch": (
        lambda x: np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0)),
        a(4, 0, 9),
        a(0.25, 0, 1 / 6),
    ),
    "log(0) at an element that is not used": (
        lambda x: np.log(x)[-1],
        a(0, 1, 4),
        a(0, 0, 0.25),
    ),
    "1/0 in the untaken branch": (
        lambda x: np.sum(np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1.0, x))),
        a(0, np.pi),
        a(0, -1 / np.pi),
    ),
    "division by zero in the untaken branch": (
        lambda x: np.sum(np.where(x == 0, 0.0, 1 / x)),
        a(0, 2),
        a(0, -0.25),
    ),
    "softplus, overflowing in the untaken branch": (
        lambda x: np.sum(np.where(x < 20, np.log1p(np.exp(x)), x)),
        a(1, 1000),
        a(1 / (1 + np.exp(-1)), 1),
    ),
    "hypot at zero": (lambda x: np.sum(np.hypot(x, 0)), a(0, 3), a(0, 1)),
    "arctan2 at the origin": (lambda x: np.sum(W3 * np.arctan2(x, x)), a(0, 0, 0), a(0, 0, 0)),
    "arctan2 on the axes": (
        lambda y: np.sum(W3 * np.arctan2(y, a(0, 0, -3))),
        a(1, -1, 2),
        a(0, 0, -300 / 13),
    ),
    "sinc at zero": (lambda x: np.sum(W3 * np.sinc(x)), a(0, 0.5, -1), W3 * a(0, -4 / np.pi, 1)),
    "logaddexp of -inf": (
        lambda x: np.sum(W3 * np.logaddexp(x, a(0, -inf, -inf))),
        a(-inf, 1, -inf),
        a(0, 10, 0),
    ),
    "logaddexp of huge numbers": (lambda x: np.sum(np.logaddexp(0, x)), a(-1000, 0, 1000), a(0, 0.5, 1)),
    "logaddexp.reduce of -inf": (lambda x: np.logaddexp.reduce(x), a(-inf, 0, 0), a(0, 0.5, 0.5)),
    # products with zeros
    "prod with one zero": (lambda x: np.prod(x), a(2, 0, 3, 4), a(0, 24, 0, 0)),
    "prod with two zeros": (lambda x: np.prod(x), a(2, 0, 0, 4), a(0, 0, 0, 0)),
    "prod, some rows with zeros": (
        lambda x: np.sum(W3 * np.prod(x, axis=1)),
        a(4, 0, 2, 3, 0, 0).reshape(3, 2),
        a(0, 4, 30, 20, 0, 0).reshape(3, 2),
    ),
    "cumprod with a zero": (lambda x: np.sum(np.cumprod(x)), a(2, 3, 0), a(4, 2, 6)),
    "cumprod with two zeros": (lambda x: np.sum(np.cumprod(x)), a(2, 0, 0, 3), a(1, 2, 0, 0)),
    # NaN
    "fmax passes over NaN": (lambda x: np.sum(np.fmax(x, a(nan, 5))), a(1, 2), a(1, 0)),
    "where of NaN": (lambda x: np.sum(W3 * np.where(np.isnan(x), 0, x)), a(1, nan, 2), a(1, 0, 100)),
    "nansum": (lambda x: np.nansum(W3 * x), a(1, nan, 2), a(1, 0, 100)),
    "nanmean": (lambda x: np.nanmean(x), a(1, nan, 2), a(0.5, 0, 0.5)),
    "nanmax with ties": (lambda x: np.nanmax(x), a(2, nan, 2), a(0.5, 0, 0.5)),
    "nanmedian": (lambda x: np.nanmedian(x), a(3, nan, 1, 2), a(0, 0, 0, 1)),
}


@pytest.mark.parametrize(("f", "x", "wanted"), ONE.values(), ids=ONE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the forward pass divides by zero on purpose
def test_convention(f, x, wanted):
    (got,) = gradients(f, x)
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


TWO = {
    "maximum of equal values": (np.maximum, a(1, 2, 3), a(1, 5, 0), a(0.5, 0, 100), a(0.5, 10, 0)),
    "minimum of equal values": (np.minimum, a(1, 2, 3), a(1, 5, 0), a(0.5, 10, 0), a(0.5, 0, 100)),
    "fmax of equal values and NaN": (np.fmax, a(1, nan, 3), a(1, 5, nan), a(0.5, 0, 100), a(0.5, 10, 0)),
    "fmin of equal values and NaN": (np.fmin, a(1, nan, 3), a(1, 5, nan), a(0.5, 0, 100), a(0.5, 10, 0)),
    "power at a base of zero": (np.power, a(0, 2, 0), a(2, 2, 0), a(0, 40, 0), a(0, 40 * np.log(2), 0)),
    "hypot at the origin": (np.hypot, a(0, 3, 0), a(0, 4, 2), a(0, 6, 0), a(0, 8, 100)),
    "logaddexp": (np.logaddexp, a(1000, 0, -inf), a(1000, -inf, 0), a(0.5, 10, 0), a(0.5, 0, 100)),
    "copysign": (np.copysign, a(2, -3, 4), a(-1, -1, 1), a(-1, 10, 100), a(0, 0, 0)),
    "clip: a lower bound that acts": (
        lambda x, low: np.clip(x, low, 2.0),
        a(0, 1.5, 3),
        a(1, 1, 1),
        a(0, 10, 0),
        a(1, 0, 0),
    ),
    "clip: an upper bound that acts": (
        lambda x, high: np.clip(x, 1.0, high),
        a(0, 1.5, 3),
        a(2, 2, 2),
        a(0, 10, 0),
        a(0, 0, 100),
    ),
    "clip at the bound: the inside slope": (
        lambda x, high: np.clip(x, None, high),
        a(1, 2, 3),
        a(1, 3, 2),
        a(1, 10, 0),
        a(0, 0, 100),
    ),
    "clip: the upper bound wins over the lower": (
        lambda low, high: np.clip(a(0, 0, 0), low, high),
        a(3, 1, 1),
        a(2, 2, 2),
        a(0, 10, 100),
        a(1, 0, 0),
    ),
}


@pytest.mark.parametrize(("f", "x", "y", "dx", "dy"), TWO.values(), ids=TWO)
def test_convention_of_two(f, x, y, dx, dy):
    got = gradients(lambda x, y: np.sum(W3 * f(x, y)) + 0 * np.sum(np.nan_to_num(x)), x, y)
    np.testing.assert_allclose(got[0], dx, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(got[1], dy, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ord", [1, 2, 3, np.inf, -np.inf])
def test_norms_at_zero(ord):
    (got,) = gradients(lambda x: np.linalg.norm(x, ord), a(0, 0))
    np.testing.assert_array_equal(got, 0)


def test_norm_inf_shares_ties():
    (got,) = gradients(lambda x: np.linalg.norm(x, np.inf), a(3, -3, 1))
    np.testing.assert_array_equal(got, [0.5, -0.5, 0])


def test_sinc_near_zero_keeps_its_digits():
    x = 1e-7
    assert minigrad.grad(np.sinc, x) == pytest.approx(-(np.pi**2) * x / 3, rel=1e-9)


def test_arctan2_of_tiny_and_huge_numbers():
    for size in (1e-200, 1e200):
        dy, dx = gradients(lambda y, x: np.arctan2(y, x), np.array(size), np.array(size))
        assert dy * size == pytest.approx(0.5, rel=1e-12)
        assert dx * size == pytest.approx(-0.5, rel=1e-12)


def test_absolute_value_of_complex_zero():
    z = np.array([0j, 3 + 4j])
    (got,) = gradients(lambda z: np.sum(np.abs(z)), z)
    np.testing.assert_allclose(got, [0, 0.6 - 0.8j])


def test_std_of_a_constant_has_a_zero_gradient_with_respect_to_a_given_mean_too():
    got = gradients(lambda x, m: np.std(x, mean=m), a(2, 2), a(2))
    np.testing.assert_array_equal(got[0], 0)
    np.testing.assert_array_equal(got[1], 0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_variance_without_degrees_of_freedom_has_no_number_for_a_gradient(dtype):
    for f in (np.var, np.std):
        for x, ddof, where, wanted in (
            (a(3), 1, True, [np.nan]),
            (a(3, 4, 5), 1, np.array([False, True, False]), [0, np.nan, 0]),
        ):
            got = minigrad.grad(lambda x, f=f, n=ddof, where=where: f(x, ddof=n, where=where), x.astype(dtype))
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.var(x, ddof=3), a(1, 3)), [-np.inf, np.inf])
    assert minigrad.grad(np.var, np.zeros(0)).shape == (0,)


def test_all_nan_slice_warns_as_numpy_does():
    x = np.full((2, 2), np.nan)
    x[1] = 1, 2
    for function in (np.nanmax, np.nanmin, np.nanmedian):
        with pytest.warns(RuntimeWarning, match="All-NaN slice"):
            (got,) = gradients(lambda x, f=function: f(x, axis=1)[1], x)
        assert got[0].tolist() == [0, 0]
        assert got[1].sum() == 1


# --- the page


def cell(text):
    """Return the numbers of a cell of the table."""
    return [float(number) for number in text.strip("*").split(", ")]


def test_the_table_of_the_page():
    """It has the kinks of the benchmarks, what minigrad answers, and in bold what differs from that."""
    table = PAGE.read_text(encoding="utf-8").split("\n| gradient of ")[1].split("\n\n")[0].splitlines()[2:]
    rows = {name: answers for name, *answers in (line.strip("| ").split(" | ") for line in table)}
    assert list(rows) == [kink.name for kink in KINKS]
    for kink in KINKS:
        ours, *peers = rows[kink.name]
        with np.errstate(all="ignore"):
            (got,) = gradients(lambda x, k=kink: k.function(np, x), a(*kink.at))
        np.testing.assert_allclose(got, cell(ours), rtol=1e-3, err_msg=kink.name)
        for peer in peers:
            assert (cell(peer) != cell(ours)) == peer.startswith("**"), f"{kink.name}: {peer}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_compiled_functions_follow_the_same_conventions():
    refused = []
    for name, (f, x, wanted) in ONE.items():
        compiled = minigrad.compile(lambda x, f=f: gradients(f, x)[0], backend="numpy")
        try:
            got = compiled(x)
        except (ControlFlowError, CutGraphError):  # those that look at values
            refused.append(name)
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12, err_msg=name)
    assert len(refused) < 10
    for name, (f, x, y, dx, dy) in TWO.items():
        loss = lambda x, y, f=f: np.sum(W3 * f(x, y))
        compiled = minigrad.compile(lambda x, y, loss=loss: gradients(loss, x, y), backend="numpy")
        for got, wanted in zip(compiled(x, y), (dx, dy), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12, err_msg=name)


# --- float32


def test_float32_meets_other_numbers_as_in_numpy():
    x, data = np.float32([0.5, 1.5]), a(1, 2)
    for f, dtype in (
        (lambda x: np.sum(2.0 * x**3 / 7 + True), np.float32),
        (lambda x: np.sum(x * np.float64(2)), np.float64),
        (lambda x: np.sum(x * data), np.float64),
        (lambda x: np.mean(x, dtype=np.float64), np.float64),
    ):
        value, gradient = minigrad.value_and_grad(f, x)
        assert value.dtype == f(x).dtype == dtype
        assert gradient.dtype == np.float32


# --- what is refused, beside tests/test_coverage.py (functions, methods) and tests/test_tensor.py (the graph is cut)


@pytest.mark.parametrize(
    ("f", "x", "error"),
    [
        (lambda x: np.asarray(x).sum(), a(1, 2), CutGraphError),
        (lambda x: np.zeros(1) * float(x[0]), a(1, 2), CutGraphError),
        (lambda x: np.add(x, 1, out=np.zeros(2)).sum(), a(1, 2), CutGraphError),
        (lambda x: np.full(1, x.item(0)), a(1, 2), CutGraphError),
        (lambda x: np.sum(x), np.array([1, 2]), DtypeError),
        (lambda x: np.sum(x), np.array([True, False]), DtypeError),
        (lambda x: np.sum(x * np.ma.masked_invalid(a(1, nan))), a(1, 2), DtypeError),
        (lambda x: np.quantile(a(1, 2, 3), x[0]), a(0.5), UnsupportedError),
    ],
)
def test_what_is_refused(f, x, error):
    with pytest.raises(error):
        minigrad.grad(f, x)
