"""custom_adjoint and checkpoint: functions that bring their own backward pass."""

import random
import re
import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest

import minigrad
from minigrad.errors import CutGraphError, DtypeError, LeakedTensorError, OverwrittenError, ShapeError, StructureError

X = np.array([0.5, -1.2, 0.8])
W = np.array([[0.3, 1.2, -0.7], [0.8, -0.4, 1.1]])


def product(x, y):
    return x * y


def product_adjoint(g, x, y):
    return g * y, g * x


scale = minigrad.custom_adjoint(product, product_adjoint)


# --- custom_adjoint: values and gradients


def test_values_and_gradients():
    np.testing.assert_array_equal(scale(X, W), X * W)
    y = X[::-1].copy()
    value, (gx, gy) = minigrad.value_and_grad(lambda x, y: np.sum(np.sin(scale(x, y))), X, y, argnums=(0, 1))
    assert value == np.sum(np.sin(X * y))
    np.testing.assert_array_equal(gx, np.cos(X * y) * y)
    np.testing.assert_array_equal(gy, np.cos(X * y) * X)


def test_an_adjoint_must_undo_broadcasting_itself():
    with pytest.raises(
        ShapeError, match=r"product_adjoint returned a gradient of shape \(2, 3\) for x of shape \(3,\)"
    ):
        minigrad.grad(lambda x: np.sum(scale(x, W)), X)


def test_the_function_looks_like_the_forward():
    assert scale.__name__ == "product"
    assert scale.__wrapped__ is product


def test_forward_may_do_what_numpy_cannot_record():
    def forward(x):
        return np.array([float(v) ** 2 for v in np.asarray(x)])

    square = minigrad.custom_adjoint(forward, lambda g, x: 2 * g * x)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(square(x) * X), X), 2 * X * X)


def test_one_argument_returns_the_gradient_itself_or_a_tuple():
    for wrap in (lambda g: g, lambda g: (g,)):
        f = minigrad.custom_adjoint(lambda x: x * 3, lambda g, x, wrap=wrap: wrap(g * 3))
        np.testing.assert_array_equal(minigrad.grad(lambda x, f=f: np.sum(f(x)), X), np.full(3, 3.0))


def test_none_is_zero():
    f = minigrad.custom_adjoint(product, lambda g, x, y: (None, g * x))
    gx, gy = minigrad.grad(lambda x, y: np.sum(f(x, y)), X, X + 1, argnums=(0, 1), unused="zero")
    np.testing.assert_array_equal(gx, np.zeros(3))
    np.testing.assert_array_equal(gy, X)


def test_arguments_without_gradient():
    """Integers, masks, strings and keywords are passed to the adjoint; it returns nothing for them."""

    def forward(x, n, mask, *, name="n"):
        assert name in ("n", "other")
        return np.where(mask, x**n, 0.0)

    def adjoint(g, x, n, mask, *, name="n"):
        assert name == "other"
        return np.where(mask, g * n * x ** (n - 1), 0.0)

    f = minigrad.custom_adjoint(forward, adjoint)
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(f(x, 3, mask, name="other")), X), 3 * X**2 * mask)


def test_trailing_constant_arrays_may_be_left_out():
    masked = minigrad.custom_adjoint(lambda x, mask: x + mask, lambda g, x, mask: g)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(masked(x, X)), X), np.ones(3))


def test_python_numbers():
    """As Tensors they need a gradient; as numbers they may have one."""
    f = minigrad.custom_adjoint(lambda x, s: x * s, lambda g, x, s: (g * s, float(np.sum(g * x))))
    gx, gs = minigrad.grad(lambda x, s: np.sum(f(x, s)), X, 2.0, argnums=(0, 1))
    np.testing.assert_array_equal(gx, np.full(3, 2.0))
    assert gs == np.sum(X)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(f(x, 2.0)), X), np.full(3, 2.0))
    without = minigrad.custom_adjoint(lambda x, eps: x * eps, lambda g, x, eps: g * eps)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(without(x, 2.0)), X), np.full(3, 2.0))


class Pair(NamedTuple):
    a: object
    b: object


def test_trees_in_and_out():
    def forward(p, x):
        return {"y": p["a"] * x[0], "s": np.sum(p["b"] * x[1]), "n": None, "k": 3}

    def adjoint(g, p, x):
        assert g["n"] is None
        return {"a": g["y"] * x[0], "b": g["s"] * x[1]}, Pair(g["y"] * p["a"], g["s"] * p["b"])

    f = minigrad.custom_adjoint(forward, adjoint)

    def loss(f, p, x):
        out = f(p, x)
        assert out["n"] is None and out["k"] == 3
        return np.sum(np.sin(out["y"])) * out["s"]

    p, x = {"a": X, "b": X + 1}, Pair(X * 2, X - 1)
    got = minigrad.grad(lambda p, x: loss(f, p, x), p, x, argnums=(0, 1))
    wanted = minigrad.grad(lambda p, x: loss(forward, p, x), p, x, argnums=(0, 1))
    assert type(got[1]) is Pair
    for a, b in zip(minigrad.tree.leaves(got), minigrad.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_several_results_of_which_one_is_used():
    f = minigrad.custom_adjoint(lambda x: (x * 2, x * 3, np.argmax(x)), lambda g, x: g[0] * 2 + g[1] * 3)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(f(x)[1]), X), np.full(3, 3.0))
    np.testing.assert_array_equal(minigrad.grad(lambda x: f(x)[0][f(x)[2]], X), [0.0, 0.0, 2.0])


def test_the_adjoint_runs_once_for_all_arguments():
    runs = []
    f = minigrad.custom_adjoint(product, lambda g, x, y: runs.append(1) or (g * y, g * x))
    minigrad.grad(lambda x, y: np.sum(f(x, y)), X, X, argnums=(0, 1))
    assert len(runs) == 1


def test_the_same_cotangent_twice():
    _, pull = minigrad.vjp(scale, X, X + 1)
    g = np.array([1.0, 2.0, 3.0])
    first = pull(g)
    g *= 10
    second = pull(g)
    third = pull(g)
    for a, b, c in zip(first, second, third, strict=True):
        np.testing.assert_allclose(b, 10 * a)
        np.testing.assert_array_equal(b, c)


# --- second order


def test_second_derivatives_differentiate_the_adjoint():
    cube = minigrad.custom_adjoint(lambda x: x**3, lambda g, x: g * 3 * x**2)
    np.testing.assert_allclose(minigrad.hessian(lambda x: np.sum(cube(x)), X), np.diag(6 * X))
    np.testing.assert_allclose(minigrad.jvp(cube, (X,), (X,))[1], 3 * X**3)
    wrong = minigrad.custom_adjoint(lambda x: x**3, lambda g, x: g * 5 * x)  # so that it shows which is used
    np.testing.assert_allclose(minigrad.hessian(lambda x: np.sum(wrong(x)), X), np.diag(np.full(3, 5.0)))


def test_levels_that_differentiate_different_arguments():
    """The outer level asks for one argument's gradient and the inner for another's: of the same call."""
    for f in (scale, minigrad.checkpoint(product)):

        def outer(y, f=f):
            value, slope = minigrad.value_and_grad(lambda x: np.sum(f(x, y * y)), X)
            return value + np.sum(slope * slope)

        got = minigrad.grad(outer, X + 2)
        assert type(got) is np.ndarray
        np.testing.assert_allclose(got, 2 * (X + 2) * X + 4 * (X + 2) ** 3, rtol=1e-13)


# --- what an adjoint may not return


@pytest.mark.parametrize(
    ("adjoint", "error", "message"),
    [
        (lambda g, x, y: g * y, StructureError, r"<lambda> should return 2 gradients, for x, y; got 1"),
        (lambda g, x, y: (g * y,), StructureError, r"should return 2 gradients, for x, y; got 1"),
        (lambda g, x, y: (g, g, g), StructureError, r"should return 2 gradients, for x, y; got 3"),
        (lambda g, x, y: (g, g[:2]), ShapeError, r"<lambda> returned a gradient of shape \(2,\) for y of shape \(3,\)"),
        (lambda g, x, y: (np.sum(g), g), ShapeError, r"returned a gradient of shape \(\) for x of shape \(3,\)"),
        (lambda g, x, y: (g.astype("f4"), g), DtypeError, r"returned a float32 gradient for x, which is float64"),
        (lambda g, x, y: (g, g * 1j), DtypeError, r"returned a complex128 gradient for y, which is float64"),
        (
            lambda g, x, y: (g, [g]),
            StructureError,
            r"the gradient of y: the trees differ at the top: wanted \*, got list",
        ),
        (lambda g, x, y: (np.argmax(g), g), ShapeError, r"of shape \(\) for x"),
    ],
)
def test_wrong_gradients_are_named(adjoint, error, message):
    f = minigrad.custom_adjoint(product, adjoint)
    with pytest.raises(error, match=message):
        minigrad.grad(lambda x, y: np.sum(f(x, y)), X, X, argnums=(0, 1))


def test_wrong_gradients_inside_trees_are_named():
    forward = lambda p: p["a"][0] * p["b"]
    adjoints = {
        r"for p\.a\[0\] of shape \(3,\)": lambda g, p: {"a": [g[:1]], "b": g},
        r"differ at \.a: wanted list": lambda g, p: {"a": g, "b": g},
        "differ at the top": lambda g, p: {"a": [g]},
    }
    for message, adjoint in adjoints.items():
        f = minigrad.custom_adjoint(forward, adjoint)
        with pytest.raises((ShapeError, StructureError), match=message):
            minigrad.grad(lambda p, f=f: np.sum(f(p)), {"a": [X], "b": X})


def test_float32_gradients_must_be_float32():
    f = minigrad.custom_adjoint(lambda x: x * 2, lambda g, x: g * np.float64(2))
    with pytest.raises(DtypeError, match="returned a float64 gradient for x, which is float32"):
        minigrad.grad(lambda x: np.sum(f(x)), X.astype(np.float32))


# --- Tensors from elsewhere


def test_a_tensor_that_is_no_argument_is_refused():
    for wrap in (lambda f: minigrad.custom_adjoint(f, lambda g, x: g), minigrad.checkpoint):

        def loss(y, wrap=wrap):
            def uses_y(x):
                return x * y

            return np.sum(wrap(uses_y)(y * 2))

        with pytest.raises(CutGraphError, match=r"uses_y\)? uses a Tensor that is not among its arguments") as caught:
            minigrad.grad(loss, X)
        assert re.search(r"at +\S*test_custom\.py", str(caught.value))


def test_a_tensor_in_the_adjoint_is_refused():
    def loss(y):
        f = minigrad.custom_adjoint(lambda x: x * 2, lambda g, x: g * y)
        return np.sum(f(y))

    with pytest.raises(LeakedTensorError, match="an adjoint gets what it needs as arguments"):
        minigrad.grad(loss, X)


def test_a_tensor_by_keyword_is_refused():
    f = minigrad.custom_adjoint(lambda x, *, s: x * s, lambda g, x, *, s: g * s)
    with pytest.raises(CutGraphError, match=r"<lambda>\(s=Tensor\): keyword arguments have no gradient"):
        minigrad.grad(lambda x: np.sum(f(x, s=x)), X)


# --- who owns what


def test_functions_cannot_write_into_what_the_tape_holds():
    def in_place(x):
        x *= 2
        return x

    def backward_in_place(g, x):
        g *= 2
        return g

    x = X.copy()
    for f in (
        minigrad.custom_adjoint(in_place, lambda g, x: g),
        minigrad.custom_adjoint(lambda x: x * 2, backward_in_place),
        minigrad.checkpoint(in_place),
    ):
        with pytest.raises(ValueError, match="read-only"):
            minigrad.grad(lambda x, f=f: np.sum(f(x * 1) * x), x)
    np.testing.assert_array_equal(x, X)


def test_a_reused_result_buffer_is_copied():
    buffer = np.empty(3)

    def forward(x):
        np.exp(x, out=buffer)
        return buffer

    f = minigrad.custom_adjoint(forward, lambda g, x: g * np.exp(x))
    got = minigrad.grad(lambda x: np.sum(f(x) * f(2 * x)), X)
    np.testing.assert_allclose(got, 3 * np.exp(3 * X), rtol=1e-14)


def test_an_argument_returned_as_it_is():
    same = minigrad.custom_adjoint(lambda x: x, lambda g, x: g)
    p = X.copy()

    def loss(x):
        y = same(x)
        y[0] = 5
        return np.sum(y * x)

    np.testing.assert_array_equal(minigrad.grad(loss, p), [5.0, 2 * X[1], 2 * X[2]])
    np.testing.assert_array_equal(p, X)


# --- checkpoint


def block(x, w):
    for _ in range(6):
        x = np.tanh(x @ w) + x
    return x


def deep(wrap, x, weights):
    for w in weights:
        x = wrap(block)(x, w)
    return np.sum(x * x)


def plainly(f):
    return f


def setting(dtype=np.float64):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 40)).astype(dtype)
    return x, [(rng.normal(size=(40, 40)) / 10).astype(dtype) for _ in range(8)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_checkpoint_changes_nothing_to_the_last_bit(dtype):
    x, weights = setting(dtype)
    wanted = minigrad.value_and_grad(lambda p: deep(plainly, *p), (x, weights))
    got = minigrad.value_and_grad(lambda p: deep(minigrad.checkpoint, *p), (x, weights))
    assert got[0] == wanted[0]
    for a, b in zip(minigrad.tree.leaves(got[1]), minigrad.tree.leaves(wanted[1]), strict=True):
        assert a.dtype == dtype
        np.testing.assert_array_equal(a, b)


def peak(f):
    f()
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_checkpoint_saves_memory():
    x, weights = setting()
    plain = peak(lambda: minigrad.grad(lambda x: deep(plainly, x, weights), x))
    saved = peak(lambda: minigrad.grad(lambda x: deep(minigrad.checkpoint, x, weights), x))
    assert saved < plain / 2


def test_checkpoint_runs_the_function_twice():
    runs = []
    f = minigrad.checkpoint(lambda x: runs.append(1) or np.sin(x))
    np.testing.assert_array_equal(f(X), np.sin(X))
    assert len(runs) == 1
    minigrad.grad(lambda x: np.sum(f(x)), X)
    assert len(runs) == 3


GENERATORS = {
    "default": np.random.default_rng,
    "MT19937": lambda seed: np.random.Generator(np.random.MT19937(seed)),
    "Philox": lambda seed: np.random.Generator(np.random.Philox(seed)),
    "SFC64": lambda seed: np.random.Generator(np.random.SFC64(seed)),
    "RandomState": np.random.RandomState,
    "random.Random": random.Random,
}


def draw(rng):
    return np.array([rng.random() for _ in range(3)]) if isinstance(rng, random.Random) else rng.uniform(size=3)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_checkpoint_replays_random_numbers(make):
    def dropout(x, rng):
        return x * draw(rng) * draw(rng)

    one, other = make(3), make(3)
    draw(one), draw(other)  # not from the start
    got = minigrad.grad(lambda x: np.sum(minigrad.checkpoint(dropout)(x, one) ** 2), X)
    wanted = minigrad.grad(lambda x: np.sum(dropout(x, other) ** 2), X)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(draw(one), draw(other))  # advanced as by one run


def test_checkpoint_replays_in_each_pull_and_by_keyword():
    rng = np.random.default_rng(0)
    _, pull = minigrad.vjp(lambda x: minigrad.checkpoint(lambda x, *, rng: x * rng.random(3))(x, rng=rng), X)
    wanted = np.random.default_rng(0).random(3)
    for _ in range(3):
        np.testing.assert_array_equal(pull(np.ones(3))[0], wanted)


def test_checkpoint_notices_random_numbers_it_cannot_replay():
    rng = np.random.default_rng(0)
    f = minigrad.checkpoint(lambda x: x * rng.random(3))
    with pytest.raises(OverwrittenError, match="gave another value in the backward pass than in the forward pass"):
        minigrad.grad(lambda x: np.sum(f(x)), X)


@pytest.mark.parametrize("size", [1, 5, 64, 65, 5000])
def test_checkpoint_notices_a_changed_constant(size):
    w = np.linspace(1, 2, size)

    def loss(x):
        y = minigrad.checkpoint(lambda x: x * w)(x)
        w[size // 2] += 0.01
        return np.sum(y)

    with pytest.raises(OverwrittenError, match="something it uses besides its arguments was changed"):
        minigrad.grad(loss, np.ones(size))


def test_checkpoint_of_values_that_are_not_finite():
    f = minigrad.checkpoint(lambda x: np.where(x > 0, x, np.array([np.nan, -np.inf, 1.0])) * 2)
    np.testing.assert_array_equal(minigrad.grad(lambda x: f(x)[2], X), [0, 0, 2])


def test_checkpoint_of_trees_and_plain_results():
    def f(p, k):
        return {"y": p[0] * p[1] * k, "index": np.argmax(p[0]), "n": None, "text": "t", "mask": p[0] > 0}

    def loss(p, f):
        out = f(p, 2.0)
        assert out["n"] is None and out["text"] == "t" and type(out["mask"]) is np.ndarray
        return np.sum(out["y"][out["mask"]]) * p[0][out["index"]]

    got = minigrad.grad(loss, [X, X + 1], minigrad.checkpoint(f))
    wanted = minigrad.grad(loss, [X, X + 1], f)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_checkpoint_of_python_numbers_and_unused_arguments():
    f = minigrad.checkpoint(lambda x, s, unused: x * s)
    gx, gs, gu = minigrad.grad(lambda x, s, u: np.sum(f(x, s, u)), X, 2.0, X, argnums=(0, 1, 2), unused="zero")
    np.testing.assert_array_equal(gx, np.full(3, 2.0))
    assert gs == np.sum(X)
    np.testing.assert_array_equal(gu, np.zeros(3))


def test_checkpoint_in_higher_derivatives_and_in_itself():
    cube = minigrad.checkpoint(lambda x: x * minigrad.checkpoint(lambda y: y * y)(x))
    np.testing.assert_allclose(minigrad.grad(lambda x: np.sum(cube(x)), X), 3 * X**2)
    np.testing.assert_allclose(minigrad.hessian(lambda x: np.sum(cube(x)), X), np.diag(6 * X))
    np.testing.assert_allclose(minigrad.jvp(cube, (X,), (X,))[1], 3 * X**3)


def test_checkpoint_with_assignment_inside():
    def f(x):
        y = np.zeros_like(x)
        y[1:] = x[:-1] * 2
        y += x
        return y * y

    got = minigrad.grad(lambda x: np.sum(minigrad.checkpoint(f)(x) * X), X)
    np.testing.assert_array_equal(got, minigrad.grad(lambda x: np.sum(f(x) * X), X))


def test_functions_without_results():
    nothing = minigrad.checkpoint(lambda x: None)
    empty = minigrad.custom_adjoint(lambda x: {}, lambda g, x: 0 * x)
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(x) + len(nothing(x) or empty(x)), X), np.ones(3))
