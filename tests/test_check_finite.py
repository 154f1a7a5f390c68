"""Example data that is not finite: NaN is refused by name and place, infinite elements are left out."""

import numpy as np
import pytest

from minigrad.check import check_adjoint, check_gradients, check_layer, compare_adjoints
from minigrad.errors import AdjointMismatch, MinigradError

WITH_NAN = np.array([[1.0, 2.0], [np.nan, 3.0]])
WITH_INFINITY = np.array([[1.0, 2.0], [np.inf, 3.0]])


def squares(x):
    return np.sum(x * x, axis=-1)


def squares_adjoint(g, x):
    return 2 * g[..., None] * x


def softmax(x, mask):
    e = np.exp(x + mask - np.max(x + mask, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def softmax_adjoint(g, x, mask):
    p = softmax(x, mask)
    dx = p * (g - np.sum(g * p, axis=-1, keepdims=True))
    return dx, np.sum(dx, axis=0)


class Scale:
    def __init__(self, *w):
        self.w = np.array(w)

    def forward(self, x):
        self.x = x
        return x * self.w

    def backward(self, g):
        self.dw = np.sum(g * self.x, axis=0)
        return g * self.w


REFUSED = {
    "check_adjoint": (lambda: check_adjoint(squares, squares_adjoint, WITH_NAN), "x is NaN at (1, 0)"),
    "compare_adjoints": (lambda: compare_adjoints(squares, squares_adjoint, WITH_NAN), "x is NaN at (1, 0)"),
    "check_gradients": (lambda: check_gradients(squares, WITH_NAN), "x is NaN at (1, 0)"),
    "an input of a layer": (lambda: check_layer(Scale(1.0, 2.0), WITH_NAN), "x is NaN at (1, 0)"),
    "a parameter": (lambda: check_layer(Scale(1.0, np.nan), np.ones((2, 2))), "w is NaN at (1,)"),
    "a number": (lambda: check_gradients(lambda x: x * x, np.array(np.nan)), "x is NaN"),
    "in a tree": (lambda: check_gradients(lambda p: p["w"][0], {"w": [np.full(3, np.nan)]}), "p.w[0] is NaN at (0,)"),
    "a keyword": (lambda: check_gradients(softmax, np.ones(3), mask=np.array([0, np.nan, 0])), "mask is NaN at (1,)"),
}  # fmt: skip


@pytest.mark.parametrize(("check", "says"), REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_is_refused_with_its_name_and_place(check, says):
    with pytest.raises(MinigradError) as caught:
        check()
    assert not isinstance(caught.value, AdjointMismatch)
    assert str(caught.value).startswith(says) and str(caught.value).endswith(": give finite example data")


def test_nan_that_does_not_reach_the_result_is_no_matter():
    target = np.array([1.0, np.nan, 2.0])
    check_gradients(lambda x, y: np.where(np.isnan(y), 0, x - y) ** 2, np.ones(3), target, argnums=[0])


def test_minus_infinity_in_a_mask_is_left_out_and_said():
    x, mask = np.random.default_rng(0).normal(size=(2, 3)), np.array([0.0, -np.inf, 0.0])
    report = check_adjoint(softmax, softmax_adjoint, x, mask)
    assert report.notes == [
        "mask is infinite at (1,): that cannot be moved, so the gradient there is not checked"
    ]
    assert check_adjoint(softmax, lambda *a, mask: softmax_adjoint(*a, mask)[0], x, mask=mask).notes == []
    with pytest.raises(AdjointMismatch, match=r"respect to mask: WRONG, element \(\d,\).*ratio 2 \(2 of 3"):
        check_adjoint(softmax, lambda *a: (softmax_adjoint(*a)[0], 2 * softmax_adjoint(*a)[1]), x, mask)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 0 * inf in the adjoint
def test_a_right_adjoint_is_right_beside_an_infinite_element():
    report = check_adjoint(squares, squares_adjoint, WITH_INFINITY)
    assert report.notes[1] == "out is not finite at (1,): its gradient there is not checked"
    assert check_gradients(squares, WITH_INFINITY).notes == report.notes
    with pytest.raises(AdjointMismatch, match=r"\(2 of 4 elements are wrong\)\n +it is the right gradient times 1\.5"):
        check_adjoint(squares, lambda g, x: 1.5 * squares_adjoint(g, x), WITH_INFINITY)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_zero_times_infinity_is_not_called_wrong():
    with pytest.raises(MinigradError, match=r"^out is not finite at \(0,\) and 1 more, and the gradient of x is NaN"):
        check_adjoint(np.log, lambda g, x: g / x, np.array([0.0, 1.0, 0.0]))
    with pytest.raises(MinigradError, match=r"of w is NaN at \(0,\): give example data with a finite result$"):
        check_layer(Scale(1.0, 2.0), WITH_INFINITY)


def test_no_kink_is_seen_at_an_infinite_element():
    report = check_gradients(lambda x: np.where(np.isinf(x), 0, np.abs(x)), np.array([1.0, -np.inf, 0.0]))
    assert "kink at x[2]" in str(report) and "edge" not in str(report)


def test_one_element_is_not_several():
    def nan_at_zero(g, x):
        with np.errstate(all="ignore"):
            return 2 * g * x * x / x

    with pytest.raises(AdjointMismatch, match=r"an element is not finite, that at \(1,\)"):
        check_adjoint(lambda x: x * x, nan_at_zero, np.array([1.0, 0.0]))
    with pytest.raises(AdjointMismatch, match=r"2 elements are not finite, the first at \(1,\)"):
        check_adjoint(lambda x: x * x, nan_at_zero, np.array([1.0, 0.0, 0.0]))
