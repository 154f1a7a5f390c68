"""Differentiation inside differentiation: levels are never confused, and threads do not meet."""

import functools
import threading
import time

import numpy as np
import pytest

import minigrad
from minigrad import tape
from minigrad.errors import LeakedTensorError

X = np.array([0.5, -1.2, 0.8])


def reverse(f):
    """Return the derivative of a function of one number, by reverse mode."""
    return minigrad.grad(f, unused="zero")


def forward(f):
    """Return the derivative of a function of one number, by forward mode."""
    return lambda x: minigrad.jvp(f, (x,), (1.0,))[1]


MODES = {"reverse": reverse, "forward": forward}
both_modes = [pytest.param(a, b, id=f"{i} over {j}") for i, a in MODES.items() for j, b in MODES.items()]


# --- perturbation confusion: Siskind & Pearlmutter 2005, "Perturbation confusion and referential transparency"


@pytest.mark.parametrize(("outer", "inner"), both_modes)
def test_no_perturbation_confusion(outer, inner):
    assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0
    assert outer(lambda x: x * inner(lambda y: x * y)(2.0))(3.0) == 6.0
    assert outer(lambda x: x * inner(lambda y: x)(2.0))(3.0) == 0.0
    assert outer(lambda x: inner(lambda y: x * y * y)(x))(3.0) == 12.0
    assert outer(lambda x: inner(lambda y: x)(x) + x)(3.0) == 1.0
    assert outer(lambda x: inner(lambda y: x * x)(x * 2))(3.0) == 0.0


@pytest.mark.parametrize(("outer", "inner"), both_modes)
def test_three_levels(outer, inner):
    def f(x):
        return x * inner(lambda y: y * outer(lambda z: x * y * z)(y))(x * x)

    # d/dz xyz = xy; d/dy xy^2 = 2xy at y = x^2: 2x^3; times x: 2x^4
    assert outer(f)(1.5) == pytest.approx(8 * 1.5**3, rel=1e-14)


def test_the_inner_variable_is_the_outer_tensor_itself():
    """Differentiating at x with respect to a copy of x: the copy moves alone."""
    f = lambda x: np.sum(x * minigrad.grad(lambda y: np.sum(x * y * y), x))
    np.testing.assert_allclose(minigrad.grad(f, X), 6 * X * X, rtol=1e-14)  # 2 x^3


def test_a_function_that_closes_over_an_outer_tensor():
    def f(x):
        w = x * 2

        def inner(y):
            return np.sum(w * y * y) + np.sum(w)

        value, slope = minigrad.value_and_grad(inner, np.ones(3))
        return value + np.sum(slope * slope)

    # sum(2x) + sum(2x) + sum(16 x^2)
    np.testing.assert_allclose(minigrad.grad(f, X), 4 + 32 * X, rtol=1e-14)


def test_a_closed_over_tensor_that_the_inner_result_does_not_depend_on():
    f = lambda x: np.sum(x) * minigrad.grad(lambda y: np.sum(y) + 0 * np.sum(x), X)[0]
    np.testing.assert_array_equal(minigrad.grad(f, X), np.ones(3))


def test_an_outer_tensor_as_the_cotangent():
    def f(x):
        _, pull = minigrad.vjp(lambda y: y * y, np.ones(3))
        return np.sum(pull(x * x)[0])

    np.testing.assert_allclose(minigrad.grad(f, X), 4 * X, rtol=1e-14)


def test_a_pull_used_in_another_differentiation():
    """The pullback is a linear function of its cotangent, whoever differentiates it."""
    _, pull = minigrad.vjp(lambda x: np.sin(x) * x[0], X)
    np.testing.assert_allclose(
        minigrad.grad(lambda g: np.sum(pull(g)[0] * np.array([1.0, 2.0, 3.0])), X),
        minigrad.jvp(lambda x: np.sin(x) * x[0], (X,), (np.array([1.0, 2.0, 3.0]),))[1],
        rtol=1e-14,
    )


def test_the_value_of_an_inner_differentiation_belongs_to_the_outer():
    def f(x):
        (value, aux), slope = minigrad.value_and_grad(lambda y: (np.sum(y * y), y * 3), x, has_aux=True)
        return value * np.sum(aux) + np.sum(slope)

    s = np.sum(X)
    np.testing.assert_allclose(minigrad.grad(f, X), 2 * X * 3 * s + 3 * np.sum(X * X) + 2, rtol=1e-13)


# --- higher derivatives


@pytest.mark.parametrize("mode", [reverse, forward])
def test_five_derivatives(mode):
    """Of exp(x) sin(x): the n-th is sqrt(2)**n exp(x) sin(x + n pi / 4)."""
    f = lambda x: np.exp(x) * np.sin(x)
    for n in range(1, 6):
        f = mode(f)
        wanted = 2 ** (n / 2) * np.exp(0.3) * np.sin(0.3 + n * np.pi / 4)
        assert f(0.3) == pytest.approx(wanted, rel=1e-12)


def test_four_derivatives_at_zero():
    for f in (lambda x: np.exp(-(x**2)), lambda x: np.exp(-(x * x))):
        found = []
        for _ in range(4):
            f = reverse(f)
            found.append(float(f(0.0)))
        assert found == [0.0, -2.0, 0.0, 12.0]


def test_mixed_modes_agree():
    f = lambda x: np.sum(np.tanh(x) ** 3 * x[::-1])
    v = np.array([1.0, -0.5, 2.0])
    forward_over_reverse = minigrad.jvp(minigrad.grad(f), (X,), (v,))[1]
    reverse_over_forward = minigrad.grad(lambda x: minigrad.jvp(f, (x,), (v,))[1], X)
    reverse_over_reverse = minigrad.grad(lambda x: np.sum(minigrad.grad(f, x) * v), X)
    forward_over_forward = [minigrad.jvp(lambda x: minigrad.jvp(f, (x,), (v,))[1], (X,), (e,))[1] for e in np.eye(3)]
    for other in (reverse_over_forward, reverse_over_reverse, forward_over_forward):
        np.testing.assert_allclose(other, forward_over_reverse, rtol=1e-12)


def test_a_training_step_can_be_differentiated():
    """The gradient of the loss after a step of gradient descent with respect to the step size."""
    target = np.array([1.0, 2.0, 3.0])
    quadratic = lambda x: np.sum((x - target) ** 2)

    def after(rate):
        x = X
        for _ in range(3):
            x = x - rate * minigrad.grad(quadratic, x)
        return quadratic(x)

    # (1 - 2 rate)**6 |x - target|**2
    wanted = -12 * (1 - 2 * 0.1) ** 5 * quadratic(X)
    assert minigrad.grad(after, 0.1) == pytest.approx(wanted, rel=1e-12)


def test_an_inner_tensor_used_outside_raises():
    def f(x):
        kept = []
        minigrad.grad(lambda y: kept.append(y) or np.sum(y), x)
        return np.sum(x * kept[0])

    with pytest.raises(LeakedTensorError):
        minigrad.grad(f, X)


def test_an_outer_tensor_is_usable_after_an_inner_exception():
    def f(x):
        try:
            minigrad.grad(lambda y: np.sum(y) + {}["missing"], x)
        except KeyError:
            pass
        return np.sum(x * x)

    np.testing.assert_array_equal(minigrad.grad(f, X), 2 * X)


def test_dtypes_of_levels():
    x = X.astype(np.float32)
    second = minigrad.grad(lambda x: np.sum(minigrad.grad(lambda y: np.sum(y**3), x)), x)
    assert second.dtype == np.float32
    mixed = minigrad.grad(lambda x: np.sum(minigrad.grad(lambda y: np.sum(y * y * x), X)), x)
    assert mixed.dtype == np.float32


# --- threads


def in_threads(*functions):
    """Run functions at the same time, and raise what they raise."""
    errors, start = [], threading.Barrier(len(functions))

    def run(f):
        try:
            start.wait()
            f()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_with_different_dtypes():
    def work(dtype):
        x = np.linspace(0.1, 1, 40).astype(dtype)

        def loss(x):
            y = x
            for _ in range(20):
                y = np.tanh(y * 1.5)
                y[::2] = y[1::2]
            return np.sum(y * y)

        wanted = minigrad.grad(loss, x)

        def repeat():
            for _ in range(20):
                got = minigrad.grad(loss, x)
                assert got.dtype == dtype
                np.testing.assert_array_equal(got, wanted)

        return repeat

    in_threads(work(np.float32), work(np.float64), work(np.longdouble))


def test_threads_with_different_floating_point_settings():
    x = np.array([0.0, 1.0])

    def quiet():
        with np.errstate(all="ignore"):
            for _ in range(100):
                np.testing.assert_array_equal(
                    minigrad.grad(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), x), [0.0, 1.0]
                )

    def strict():
        with np.errstate(all="raise"):
            for _ in range(100):
                with pytest.raises(FloatingPointError):
                    minigrad.grad(lambda x: np.sum(np.log(x)), x)

    in_threads(quiet, strict)


def test_one_pull_in_several_threads():
    scale = minigrad.custom_adjoint(lambda x, y: x * y, lambda g, x, y: (g * y, g * x))
    _, pull = minigrad.vjp(lambda x: scale(np.sin(x), x) + minigrad.checkpoint(np.cos)(x), X)
    g, h = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.5, 0.0])
    wanted = {id(c): pull(c)[0] for c in (g, h)}

    def repeat(c):
        def run():
            for _ in range(100):
                np.testing.assert_array_equal(pull(c)[0], wanted[id(c)])

        return run

    in_threads(repeat(g), repeat(h), repeat(g))


def test_debugging_one_thread_only():
    overflow = lambda x: np.sum(np.where(x > 0, x, np.log(x * 0)))

    def debugged():
        with minigrad.debug(), np.errstate(all="ignore"):
            for _ in range(50):
                with pytest.raises(minigrad.errors.NonFiniteError):
                    minigrad.grad(overflow, X)

    def not_debugged():
        with np.errstate(all="ignore"):
            for _ in range(50):
                minigrad.grad(overflow, X)

    in_threads(debugged, not_debugged)


def test_one_differentiation_that_works_in_several_threads(monkeypatch):
    """Each result has a slot of its own, also if the threads change places while one is being recorded."""
    shape_of = tape.shape_of

    def slow_shape_of(x):
        time.sleep(0)
        return shape_of(x)

    monkeypatch.setattr(tape, "shape_of", slow_shape_of)
    x = np.arange(1.0, 7.0)

    def head(v, k):
        for _ in range(30):
            v = v * 1.0 + 0.0
            whole, part = np.modf(v)
            v = whole + part
        return v * k

    def loss(x):
        parts = [None] * 6

        def work(i):
            parts[i] = head(x[i], i + 1)

        in_threads(*(functools.partial(work, i) for i in range(6)))
        return sum(parts)

    np.testing.assert_array_equal(minigrad.grad(loss, x), np.arange(1.0, 7.0))
