"""Derivatives from values: the sweep over steps, the complex step, kinks, and edges of the domain."""

import numpy as np
import pytest

import minigrad
from minigrad.check import check_gradients
from minigrad.check.differences import Line, complex_step, inner, sweep
from minigrad.check.kinks import find_kinks
from minigrad.errors import AdjointMismatch, MinigradError

RNG = np.random.default_rng(3)


def slope_of_tanh(x):
    return 1 / np.cosh(x) ** 2


def line(f, x, t=None, g=None):
    """The line through x along t (random), with results weighted by g (random)."""
    t = RNG.normal(size=x.shape) if t is None else t
    g = RNG.normal(size=np.shape(f(x))) if g is None else g
    return Line(lambda leaves: [f(leaves[0])], [x], [t], [g]), t, g


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("f", "slope"),
    [(np.sin, np.cos), (np.exp, np.exp), (lambda x: x**3, lambda x: 3 * x**2), (np.tanh, slope_of_tanh)],
)
def test_the_sweep_is_good_to_eight_digits_at_every_scale(f, slope, scale):
    x = RNG.uniform(0.5, 1.5, size=(3, 4))
    path, t, g = line(lambda u: f(u / scale), scale * x)
    found = sweep(path)
    wanted = inner([g * t], [slope(x) / scale])
    size = np.sqrt(np.sum((g * slope(x) / scale) ** 2))
    assert abs(found.value - wanted) <= min(found.error, 1e-8 * size)
    assert found.jump == 0
    assert len(found.curve) >= 5


@pytest.mark.parametrize("f", [np.sin, np.exp, np.tanh, np.sqrt])
def test_the_estimated_error_is_not_too_small(f):
    """Of 40 derivatives each, none is further off than its estimate says."""
    slope = {np.sin: np.cos, np.exp: np.exp, np.tanh: slope_of_tanh, np.sqrt: lambda x: 0.5 / np.sqrt(x)}
    for _ in range(40):
        x = RNG.uniform(0.2, 3.0, size=5)
        path, t, g = line(f, x)
        found = sweep(path)
        assert abs(found.value - inner([g * t], [slope[f](x)])) <= found.error


def test_a_step_that_would_leave_the_domain_is_shortened():
    x = np.array([1e-7, 2.0, 1e-3])
    path, t, g = line(np.log, x)
    found = sweep(path)
    wanted = inner([g * t], [1 / x])
    assert abs(found.value - wanted) <= found.error <= 1e-4 * abs(wanted)
    assert found.step < 1e-7


def test_float32_inside_is_noticed():
    """The error that the sweep admits is that of float32, though float64 goes in and comes out."""
    path, t, g = line(lambda x: np.sin(x.astype(np.float32)).astype(np.float64), RNG.normal(size=50))
    found = sweep(path)
    wanted = inner([g * t], [np.cos(path.leaves[0])])
    assert abs(found.value - wanted) <= found.error
    assert found.error > 1e-6


def test_the_complex_step_is_exact():
    x = RNG.normal(size=(3, 4))
    path, t, g = line(lambda u: np.exp(np.sin(u)) / (1 + u * u), x)
    e = np.exp(np.sin(x))
    slope = e * np.cos(x) / (1 + x * x) - 2 * x * e / (1 + x * x) ** 2
    assert complex_step(path) == pytest.approx(inner([g * t], [slope]), rel=1e-13)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: np.array(x, dtype=np.float64), "does not take complex numbers"),
        (lambda x: np.floor(x), "does not take complex numbers"),
        (lambda x: np.real(x) ** 2, "loses the imaginary part"),
        (lambda x: 1j * x, "the function is complex already"),
    ],
)
def test_why_the_complex_step_cannot_be_used(f, why):
    path, _, _ = line(f, RNG.normal(size=3), g=np.ones(3))
    with pytest.raises(ValueError, match=why):
        complex_step(path)


def test_a_kink_is_found_with_its_left_and_right_slopes():
    x = np.array([[1.0, 0.0, -2.0], [0.0, 3.0, 0.5]])
    path, _, g = line(lambda u: np.maximum(u, 0.25 * u), x)
    assert sweep(path).jump != 0
    kinks, complete = find_kinks(path, 0, "x")
    assert complete
    assert [k.index for k in kinks] == [(0, 1), (1, 0)]
    for kink in kinks:
        assert (kink.left, kink.right) == pytest.approx((0.25 * g[kink.index], g[kink.index]))
        assert kink.allows(0.6 * g[kink.index], 0)
        assert not kink.allows(1.2 * g[kink.index], 0)


def test_a_smooth_function_has_no_kink():
    for f in (np.exp, np.sin, lambda u: u**2):
        path, _, _ = line(f, np.array([0.0, 0.5, -1.0]))
        assert sweep(path).jump == 0
        assert find_kinks(path, 0, "x") == ([], True)


# ---- check_gradients -----------------------------------------------------------------------------


def test_right_gradients():
    def layer(params, x):
        hidden = np.tanh(x @ params["w"] + params["b"])
        return {"out": hidden / np.sum(np.abs(hidden)), "norm": np.sum(hidden**2)}

    params = {"w": RNG.normal(size=(4, 3)), "b": RNG.normal(size=3)}
    report = check_gradients(layer, params, RNG.normal(size=(5, 4)))
    assert [e.name for e in report.evidence] == ["params.b", "params.w", "x"]
    assert all(e.agrees and e.decided and len(e.pairs) == 3 for e in report.evidence)
    assert max(e.chance(0.01) for e in report.evidence) < 1e-12


def test_the_method_is_named_with_the_reason():
    def why(f):
        (evidence,) = check_gradients(f, np.array([0.5, -1.5, 2.5])).evidence
        return f"{evidence.method}: {evidence.why}"

    assert why(np.sin) == "the complex step: differences confirm that the function is analytic"
    assert why(lambda x: x * np.abs(x)).startswith("central differences: the function is not analytic: abs, max")
    assert why(lambda x: np.where(x > 0, np.exp(x), minigrad.erf(x))).startswith("central differences: the func")


def wrong_by(factor):
    return minigrad.custom_adjoint(np.tanh, lambda g, x: factor * g / np.cosh(x) ** 2)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
def test_a_rule_that_is_off_by_a_part_in_two_thousand_is_caught(scale):
    x = RNG.normal(size=(3, 4))
    check_gradients(lambda u: scale * wrong_by(1.0)(u), x)
    with pytest.raises(AdjointMismatch, match="u: DISAGREES with the complex step"):
        check_gradients(lambda u: scale * wrong_by(1.0005)(u), x)


def test_one_wrong_gradient_among_larger_ones_is_caught():
    def f(a, b):
        return 1e6 * np.sum(a**2) + np.sum(1e-6 * wrong_by(1.01)(b))

    with pytest.raises(AdjointMismatch, match=r"a: agrees .*\n.*b: DISAGREES"):
        check_gradients(f, RNG.normal(size=4), RNG.normal(size=4))


def test_the_gradient_at_a_kink_may_be_anything_between_the_slopes():
    x = np.array([0.0, 1.0, -1.0])
    report = check_gradients(lambda u: np.maximum(u, 0), x)
    assert "kink at u[0]: left slope" in str(report)
    beyond = minigrad.custom_adjoint(lambda u: np.maximum(u, 0), lambda g, u: g * np.where(u == 0, 1.5, u > 0))
    with pytest.raises(AdjointMismatch, match="outside both slopes"):
        check_gradients(lambda u: beyond(u), x)


def test_the_edge_of_the_domain():
    report = check_gradients(np.sqrt, np.array([0.0, 1.0, 4.0]))
    assert "[0] is at the edge of the domain" in str(report)


def test_an_infinity_that_was_put_in_is_left_alone():
    mask = np.array([[0.0, -np.inf, 0.0], [0.0, 0.0, -np.inf]])

    def softmax(x):
        e = np.exp(x + mask)
        return e / np.sum(e, axis=-1, keepdims=True)

    check_gradients(softmax, RNG.normal(size=(2, 3)))
    check_gradients(lambda x: np.where(np.isinf(x), 0, np.exp(x)), np.array([1.0, -np.inf, 0.5]))


def test_float32_arguments_are_measured_in_float64():
    report = check_gradients(lambda x, w: np.tanh(x @ w), *(RNG.normal(size=(4, 4)).astype(np.float32) for _ in "xw"))
    assert max(e.tolerance / e.scale for e in report.evidence) < 1e-8


def test_complex_arguments():
    z = RNG.normal(size=5) + 1j * RNG.normal(size=5)
    check_gradients(lambda u: np.abs(u) ** 2 * np.exp(1j * u), z)


def test_what_cannot_be_differentiated():
    with pytest.raises(MinigradError):
        check_gradients(lambda x: np.array(x.tolist()), RNG.normal(size=3))
    with pytest.raises(AdjointMismatch, match="gives something else on every call"):
        check_gradients(lambda x: x * np.random.default_rng().normal(), RNG.normal(size=3))
