"""Functions that NumPy writes with decisions on values, compiled: the program holds for other values than it saw."""

import warnings

import numpy as np
import pytest

import minigrad
from minigrad.errors import CutGraphError, UnsupportedError
from samples import generator

POINTS = np.array([-1.0, 0.0, 0.5, 2.0])
QUANTILES = [0.2, 0.7]
SIGNS = np.sign(np.subtract.outer(range(3), range(3)))

FUNCTIONS = {
    "interp at points": lambda x: np.interp(x, POINTS, POINTS**2),
    "interp with a period": lambda x: np.interp(x, POINTS, POINTS**2, period=2.5),
    "interp of values": lambda x: np.interp(POINTS, np.arange(4.0), x[0]),
    "median": lambda x: np.median(x, axis=1),
    "nanmedian": lambda x: np.nanmedian(x, axis=1),
    "quantile": lambda x: np.quantile(x, QUANTILES, axis=0),
    "quantile, hazen": lambda x: np.quantile(x, 0.3, axis=1, method="hazen"),
    "percentile": lambda x: np.percentile(x, 30, keepdims=True),
    "nanquantile": lambda x: np.nanquantile(x, QUANTILES, axis=1),
    "nanpercentile, nearest": lambda x: np.nanpercentile(x, 40, axis=0, method="nearest"),
    "nanmax": lambda x: np.nanmax(x, axis=1),
    "nanmin": lambda x: np.nanmin(x, axis=0, initial=0.0),
    "average": lambda x: np.average(x, axis=1, weights=x[0] ** 2 + 1),
    "covariances with weights": lambda x: np.cov(x, aweights=x[0] ** 2 + 1),
    "geometric sequence": lambda x: np.geomspace(x[0] ** 2 + 1, x[1] ** 2 + 2, 4),
    "fitted polynomial": lambda x: np.polyfit(np.arange(4.0), x.T, 2),
    "complex eigenvectors": lambda x: np.abs(np.linalg.eigh((x[:, :3] + x[:, :3].T) * (1 + 1j * SIGNS))[1]),
    "complex singular vectors": lambda x: np.abs(np.linalg.svd(x + 1j * x**2, full_matrices=False)[0]),
    "full singular vectors": lambda x: np.abs(np.linalg.svd(x)[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_program_of_one_array_holds_for_others(name):
    f, rng = FUNCTIONS[name], generator("statistics")
    first, second = (rng.normal(size=(3, 4)).round(2) for _ in range(2))
    g = rng.normal(size=np.shape(f(first))).round(2)
    holes = second.copy()
    holes[0, 1] = holes[2, :3] = np.nan

    def run(x):
        value, pull = minigrad.vjp(f, x)
        return value, pull(g)[0]

    compiled = minigrad.compile(run, backend="numpy")
    compiled(first)
    for x in (first, second, holes) if "nan" in name else (first, second):
        for got, wanted in zip(compiled(x), run(x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(compiled(x)[0], f(x), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("function", [np.nanmax, np.nanmedian, np.nanquantile])
def test_a_warning_comes_when_the_values_ask_for_it(function):
    given = {"q": 0.5} if function is np.nanquantile else {}
    compiled = minigrad.compile(lambda x: function(x, axis=1, **given), backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(np.ones((2, 3)))
    with pytest.warns(RuntimeWarning, match="All-NaN slice encountered"):
        assert np.isnan(compiled(np.array([[np.nan] * 3, [1.0, 2.0, np.nan]]))).tolist() == [True, False]


def test_the_program_checks_the_values_of_every_run():
    average = minigrad.compile(lambda x, w: np.average(x, weights=w), backend="numpy")
    assert average(POINTS, POINTS**2) == np.average(POINTS, weights=POINTS**2)
    with pytest.raises(ZeroDivisionError, match="Weights sum to zero"):
        average(POINTS, 0 * POINTS)
    sequence = minigrad.compile(lambda x: np.geomspace(x[0], x[1], 3), backend="numpy")
    np.testing.assert_allclose(sequence(POINTS[2:]), [0.5, 1, 2], rtol=1e-15)
    with pytest.raises(ValueError, match="Geometric sequence cannot include zero"):
        sequence(POINTS[:2])
    fit = minigrad.compile(lambda x: np.polyfit(x, POINTS, 3), backend="numpy")
    np.testing.assert_allclose(fit(POINTS), [0, 0, 1, 0], atol=1e-14)
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned"):
        fit(np.ones(4))


def test_arbitrary_phases_are_refused_at_the_run_whose_loss_depends_on_them():
    a = np.array([[2, 1 + 1j], [1 - 1j, 3]])

    def slope(a, phase):
        return minigrad.grad(lambda a: np.real(phase * np.sum(np.linalg.eigh(a)[1] ** 2)), a)

    compiled = minigrad.compile(slope, backend="numpy")
    compiled(a, np.complex128(0))
    with pytest.raises(UnsupportedError, match=r"phases of the complex vectors of np\.linalg\.eigh"):
        compiled(a, np.complex128(1 + 2j))


def test_a_plain_array_cannot_be_indexed_with_what_is_compiled():
    table = np.arange(5.0)
    with pytest.raises(CutGraphError) as caught:
        minigrad.compile(lambda ids: table[ids] * 2)(np.array([1, 2]))
    text = str(caught.value)
    assert "a value of the compiled function was converted to a plain array: it would be frozen as it is now" in text
    assert "test_compiled_statistics.py" in text and "for a[t], make a an argument too" in text
