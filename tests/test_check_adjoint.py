"""check_adjoint: wrong adjoints of every kind are caught and described, right ones are not flagged."""

import re
from functools import partial

import numpy as np
import pytest

import minigrad.testing
import wrong_adjoints as wrong
from adjoint_rows import ROWS, Sample
from minigrad.check import check_adjoint, check_gradients, compare_adjoints
from minigrad.errors import AdjointMismatch, MinigradError


@pytest.mark.parametrize(("forward", "adjoint", "args", "says"), wrong.WRONG.values(), ids=wrong.WRONG)
def test_a_wrong_adjoint_is_caught_and_described(forward, adjoint, args, says):
    with pytest.raises(AdjointMismatch, match=says) as caught:
        check_adjoint(forward, adjoint, *args)
    assert not caught.value.report.right
    assert str(caught.value) == str(caught.value.report)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["rms_norm", "softmax", "swiglu", "matmul, a row", "embedding", "cross_entropy"])
def test_a_right_adjoint_is_not_flagged(name, dtype):
    moving, fixed = ROWS[name].make(Sample(dtype=dtype))
    report = check_adjoint(ROWS[name].forward, ROWS[name].adjoint, *moving, **fixed)
    assert report.right
    assert all(c.right for c in report.comparisons)
    assert all(c.holds for c in report.conditions)
    assert len(report.variations) > 5


def test_a_right_gradient_of_size_1e_8_is_not_flagged():
    check_adjoint(wrong.tiny, lambda g, x: 1e-8 * g * np.cos(x), wrong.FLAT)
    check_adjoint(wrong.tiny, lambda g, x: np.float32(1e-8) * g * np.cos(x), wrong.FLAT.astype(np.float32))


def test_a_gradient_that_is_zero_but_for_rounding_is_not_flagged():
    """Softmax of one column is 1: whatever the formula leaves is rounding."""

    def softmax(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def adjoint(g, x):
        p = softmax(x)
        return p * g - p * (3 * p * g / 3).sum(-1, keepdims=True)

    check_adjoint(softmax, adjoint, np.random.default_rng(0).normal(size=(50, 1)))


def test_one_wrong_element_of_many_is_caught_whatever_their_number():
    def one_off(g, x):
        dx = g * np.cos(x)
        dx[123, 45] *= 1.001
        return dx

    with pytest.raises(AdjointMismatch, match=r"element \(123, 45\).*ratio 1\.001 \(1 of 100000 elements"):
        check_adjoint(wrong.sine, one_off, np.random.default_rng(0).uniform(-1, 1, (500, 200)))


def test_arguments_keep_their_values_and_may_be_read_only():
    x = np.random.default_rng(0).normal(size=(3, 4))
    x.flags.writeable = False
    before = x.copy()
    check_adjoint(wrong.sine, lambda g, x: g * np.cos(x), x)
    with pytest.raises(AdjointMismatch):
        check_adjoint(wrong.sine, wrong.writes_to_its_input, x.copy())
    assert np.array_equal(x, before)


def test_a_function_that_draws_its_own_numbers_cannot_be_checked():
    def noisy(x):
        return x + np.random.default_rng().normal(size=x.shape)

    with pytest.raises(AdjointMismatch, match="gives something else on every call: pass the seed"):
        check_adjoint(noisy, lambda g, x: g.copy(), wrong.FLAT)


def test_the_global_generators_are_as_they_were():
    import random

    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    wanted = np.random.rand(), random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    check_adjoint(wrong.sine, lambda g, x: g * np.cos(x), wrong.FLAT)
    assert (np.random.rand(), random.random()) == wanted  # noqa: NPY002


def test_trees_keywords_and_chosen_arguments():
    def forward(params, x, power, scale=1.0):
        return {"y": params["w"] * x**power * scale}

    def adjoint(g, params, x, power, scale=1.0):
        return {"w": g["y"] * x**power * scale, "name": None}

    params = {"w": np.array([1.0, 2.0, 3.0]), "name": None}
    report = check_adjoint(forward, adjoint, params, np.array([0.5, 1.5, 2.5]), 2, argnums=[0], scale=0.7)
    assert [c.name for c in report.comparisons] == ["params.w"]


def test_several_results_are_compared_one_by_one():
    def adjoint(g, x):
        by_column, by_row = g
        return by_column + by_row[:, None]

    report = check_adjoint(wrong.rows_and_columns, adjoint, wrong.FLAT)
    assert [(c.result, c.name) for c in report.comparisons] == [("out[0]", "x"), ("out[1]", "x")]


def test_complex_functions():
    def forward(z, w):
        return z * np.exp(w)

    z, w = np.array([1 + 2j, 0.5 - 1j, 2j]), np.array([0.3, -0.2j, 1 + 1j])
    check_adjoint(forward, lambda g, z, w: (g * np.exp(w), g * z * np.exp(w)), z, w)
    with pytest.raises(AdjointMismatch):
        check_adjoint(forward, lambda g, z, w: (np.conj(g) * np.exp(w), g * z * np.exp(w)), z, w)


def test_nothing_to_differentiate():
    with pytest.raises(MinigradError, match="nothing to differentiate; wanted a float array"):
        check_adjoint(wrong.sine, wrong.all_zeros, np.arange(3))
    with pytest.raises(MinigradError, match="returned no float array"):
        check_adjoint(lambda x: np.argmax(x), wrong.all_zeros, wrong.FLAT)


# ---- gradients from elsewhere: functions that cannot be traced ---------------------------------


def opaque(x, w):
    """As a call of a C library, or of another framework: plain arrays only."""
    return np.tanh(np.array(x.tolist()) @ np.array(w.tolist()))


def opaque_adjoint(g, x, w, factor=1.0):
    back = g * (1 - opaque(x, w) ** 2)
    return factor * back @ w.T, x.T @ back


def test_a_function_that_cannot_be_traced_is_held_to_measured_derivatives():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    report = check_adjoint(opaque, opaque_adjoint, x, w)
    assert "it cannot be traced (CutGraphError" in report.reference
    with pytest.raises(AdjointMismatch, match=r"right gradient times 1\.0005"):
        check_adjoint(opaque, partial(opaque_adjoint, factor=1.0005), x, w)


def test_many_elements_that_cannot_be_traced_are_measured_along_directions():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(30, 20)), rng.normal(size=(20, 10)) / 5
    report = check_adjoint(opaque, opaque_adjoint, x, w)
    assert max(e.chance(0.01) for e in report.evidence) < 1e-10
    with pytest.raises(AdjointMismatch, match="x: DISAGREES"):
        check_adjoint(opaque, partial(opaque_adjoint, factor=1.0005), x, w)


def test_an_adjoint_of_a_c_library():
    import ctypes

    def cosine(x):
        libm = ctypes.CDLL(None)
        libm.cos.restype, libm.cos.argtypes = ctypes.c_double, [ctypes.c_double]
        return np.array([libm.cos(v) for v in x.ravel()]).reshape(x.shape)

    check_adjoint(wrong.sine, lambda g, x: g * cosine(x), wrong.FLAT)


def test_a_stop_gradient_is_not_believed():
    """The generated adjoint is right about what it was told; the measurement knows better."""

    def forward(x):
        return x * minigrad.stop_gradient(np.exp(x))

    with pytest.raises(AdjointMismatch, match="is a stop_gradient in the function"):
        check_adjoint(forward, lambda g, x: g * np.exp(x), wrong.FLAT)
    report = check_adjoint(forward, lambda g, x: g * np.exp(x) * (1 + x), wrong.FLAT)
    assert "disagrees with what was measured" in report.reference


# ---- in test suites ----------------------------------------------------------------------------


def test_assertions():
    assert minigrad.testing.assert_adjoint(np.sin, lambda g, x: g * np.cos(x), wrong.FLAT) is None
    assert minigrad.testing.assert_gradients(np.sin, wrong.FLAT) is None
    with pytest.raises(AssertionError, match="all zeros"):
        minigrad.testing.assert_adjoint(np.sin, wrong.all_zeros, wrong.FLAT)


def test_the_report_says_what_was_used_and_how_sure_it_is():
    text = str(check_adjoint(wrong.rms_norm, wrong.rms_norm_adjoint, wrong.X, wrong.GAIN))
    assert "the generated adjoint, confirmed by measurements along 6 random directions" in text
    assert "with the complex step" in text
    assert re.search(r"an error of 1 % passes with probability \de-\d\d", text)


# ---- how an adjoint is called, and what it may return --------------------------------------------


def product(x, w):
    return x @ w


def gradient_last(x, w, g):
    return g @ w.T, x.T @ g


def without_gradient(x, w):
    return x @ w.T, x.T @ w


@pytest.mark.parametrize("check", [check_adjoint, compare_adjoints])
def test_an_adjoint_takes_the_incoming_gradient_first(check):
    rng = np.random.default_rng(0)
    for shapes in (((2, 3), (3, 4)), ((3, 3), (3, 3))):  # nothing raises where all is square
        with pytest.raises(MinigradError, match=r"gradient_last\(x, w, g\) should take the incoming") as caught:
            check(product, gradient_last, *(rng.normal(size=s) for s in shapes))
        assert "then the arguments of product(x, w)\n  wanted  gradient_last(g, x, w)" in str(caught.value)
        assert "fix     lambda g, x, w: gradient_last(x, w, g)" in str(caught.value)
    with pytest.raises(MinigradError, match=r"without_gradient\(x, w\) should take the incoming gradient first"):
        check(product, without_gradient, rng.normal(size=(3, 3)), rng.normal(size=(3, 3)))


def test_functions_with_a_cache_are_sent_to_check_layer():
    def forward(x, w):
        return x @ w, (x, w)

    def backward(dout, cache):
        x, w = cache
        return dout @ w.T, x.T @ dout

    with pytest.raises(MinigradError, match=r"check_layer\(\(forward, backward\), \.\.\.\)"):
        check_adjoint(forward, backward, np.ones((2, 3)), np.ones((3, 4)))


def lookup(ids, table):
    return table[ids]


def lookup_adjoint(g, ids, table):
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, g)
    return dtable


@pytest.mark.parametrize("kind", [tuple, list])
def test_an_integer_has_no_gradient(kind):
    ids, table = np.array([0, 2, 2]), np.random.default_rng(0).normal(size=(3, 4))
    assert check_adjoint(lookup, lambda g, *args: kind([None, lookup_adjoint(g, *args)]), ids, table).right
    with pytest.raises(AdjointMismatch, match=r"returned a gradient of ids, but ids is an array of int64: leave"):
        check_adjoint(lookup, lambda g, *args: kind([np.zeros(3), lookup_adjoint(g, *args)]), ids, table)


def test_what_is_no_array_of_numbers_is_reported():
    for returned in (np.array([[1.0, None]] * 3), "dx", [np.zeros(3), np.zeros((2, 2))]):
        with pytest.raises(AdjointMismatch, match=r"should be an array of numbers, it is|should return 1 gradient"):
            check_adjoint(wrong.sine, lambda g, x, r=returned: r, np.ones((3, 2)))


def test_a_forgotten_key_is_named():
    def forward(params, x):
        return x * params["w"] + params["b"]

    def adjoint(g, params, x):
        return {"w": np.sum(g * x, axis=0)}, g * params["w"]

    params = {"w": np.array([1.0, 2.0]), "b": np.array([0.5, 0.1])}
    with pytest.raises(AdjointMismatch, match="the gradient of params has no 'b'") as caught:
        check_adjoint(forward, adjoint, params, np.ones((3, 2)))
    assert caught.value.report.culprit.why == "returns that"


# ---- an adjoint that forgets a gradient, a check without an example --------------------------------


def affine(x, w, b):
    return x @ w + b


def all_three(g, x, w, b):
    return g @ w.T, x.T @ g, np.sum(g, axis=0)


def sliced_at_the_end(g, x, w, b):
    r = all_three(g, x, w, b)
    return r[:2]


def sliced_at_once(g, x, w, b):
    r = all_three(g, x, w, b)[:2]
    return r


def on_one_line(g, x, w, b):
    r = all_three(g, x, w, b); return r[:2]  # noqa: E702


def left_out(g, x, w, b):
    gw = g @ w.T
    return gw, x.T @ g


FORGETFUL = {
    sliced_at_the_end: "return r[:2]\n      it is not what it should be\n      everything is right with `3`",
    sliced_at_once: "[:2]\n      `r` is not what it should be\n      everything is right with `3`",
    on_one_line: "# noqa: E702\n      it is not what it should be\n      everything is right with `3`",
    left_out: "return gw, x.T @ g\n      it returns that\n",
}


@pytest.mark.parametrize(("adjoint", "says"), FORGETFUL.items(), ids=lambda x: getattr(x, "__name__", ""))
@pytest.mark.parametrize("check", [check_adjoint, compare_adjoints])
def test_of_a_forgotten_gradient_no_right_variable_is_blamed(check, adjoint, says):
    rng = np.random.default_rng(0)
    with pytest.raises(AdjointMismatch, match="should return 3 gradients, for x, w, b; it returned 2 values") as caught:
        check(affine, adjoint, rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=5))
    assert says in str(caught.value)


def test_without_an_example_the_call_that_was_wanted_is_said():
    def total(*terms):
        return sum(terms)

    wanted = {
        "check_adjoint(affine, all_three, x, w, b)": lambda: check_adjoint(affine, all_three),
        "compare_adjoints(affine, all_three, x, w, b)": lambda: compare_adjoints(affine, all_three),
        "check_gradients(affine, x, w, b)": lambda: check_gradients(affine),
        "check_gradients(total, ...)": lambda: check_gradients(total),
    }
    for call, check in wanted.items():
        with pytest.raises(MinigradError, match=r"^no example arguments of (affine|total) were given\n") as caught:
            check()
        assert str(caught.value).endswith(f"wanted  {call}, with arrays")
