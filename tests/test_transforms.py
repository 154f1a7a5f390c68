"""value_and_grad, grad, vjp, jvp, stop_gradient: forms, structures, errors, and who owns what."""

import functools
import re
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import minigrad
from minigrad.errors import (
    DtypeError,
    LeakedTensorError,
    MinigradError,
    ShapeError,
    StructureError,
    UnusedParameterWarning,
)
from numeric import central_difference

X = np.array([0.5, -1.5, 2.0])
W = np.array([[0.3, 1.2, -0.7], [0.8, -0.4, 1.1]])


def loss(x):
    return np.sum(np.array([1.0, 2.0, 3.0]) * x * x)


SLOPE = np.array([2.0, 4.0, 6.0]) * X


# --- the two forms


def test_both_forms_of_value_and_grad():
    for value, gradient in (minigrad.value_and_grad(loss, X), minigrad.value_and_grad(loss)(X)):
        assert type(value) is np.float64
        assert value == loss(X)
        np.testing.assert_array_equal(gradient, SLOPE)


def test_both_forms_of_grad():
    np.testing.assert_array_equal(minigrad.grad(loss, X), SLOPE)
    np.testing.assert_array_equal(minigrad.grad(loss)(X), SLOPE)


def test_the_transformed_function_looks_like_the_function():
    def documented(params, batch):
        """What it computes."""
        return np.sum(params * batch)

    for transformed in (minigrad.grad(documented), minigrad.value_and_grad(documented, has_aux=False)):
        assert transformed.__name__ == "documented"
        assert transformed.__doc__ == "What it computes."
        with pytest.raises(TypeError, match="needs the argument to differentiate"):
            transformed()
    np.testing.assert_array_equal(minigrad.grad(functools.partial(np.multiply, 3.0))(np.float64(2.0)), 3.0)


def test_options_of_the_transform_form():
    gradient, aux = minigrad.grad(lambda a, b: (np.sum(a * b), "kept"), argnums=1, has_aux=True)(X, X + 1)
    np.testing.assert_array_equal(gradient, X)
    assert aux == "kept"


def test_other_arguments_and_keywords():
    def f(x, scale, *, power=1, name):
        assert name == "n"
        return np.sum(scale * x**power)

    np.testing.assert_allclose(minigrad.grad(f, X, 3.0, power=2, name="n"), 6.0 * X)
    np.testing.assert_allclose(minigrad.grad(f)(X, 3.0, power=2, name="n"), 6.0 * X)


# --- argnums


def test_argnums():
    def f(a, b, c):
        return np.sum(a * b) * c

    a, b = X, X + 1
    np.testing.assert_array_equal(minigrad.grad(f, a, b, 2.0, argnums=1), 2 * a)
    np.testing.assert_array_equal(minigrad.grad(f, a, b, 2.0, argnums=-2), 2 * a)
    np.testing.assert_array_equal(minigrad.grad(f, a, b, 2.0, argnums=np.int64(0)), 2 * b)
    several = minigrad.grad(f, a, b, 2.0, argnums=(2, 0))
    assert type(several) is tuple
    assert several[0] == np.sum(a * b)
    np.testing.assert_array_equal(several[1], 2 * b)
    assert len(minigrad.grad(f, a, b, 2.0, argnums=[1])) == 1


@pytest.mark.parametrize("argnums", [2, -3, (0, 0), (0, -2), (1, 5), "0", 0.0])
def test_argnums_that_make_no_sense(argnums):
    with pytest.raises(TypeError, match=r"argnums should be|cannot be interpreted as an integer"):
        minigrad.grad(lambda a, b: np.sum(a * b), X, X, argnums=argnums)


def test_a_differentiated_argument_by_keyword_is_refused():
    with pytest.raises(TypeError, match="positional arguments, of which there are 0"):
        minigrad.grad(lambda x: np.sum(x), x=X)


# --- has_aux


def test_aux_is_passed_through():
    label = object()

    def f(x):
        return np.sum(x * x), {"half": x / 2, "label": label, "none": None, "number": 3, "mask": x > 0}

    (value, aux), gradient = minigrad.value_and_grad(f, X, has_aux=True)
    assert value == np.sum(X * X)
    np.testing.assert_array_equal(gradient, 2 * X)
    np.testing.assert_array_equal(aux["half"], X / 2)
    assert aux["label"] is label and aux["none"] is None and aux["number"] == 3
    np.testing.assert_array_equal(aux["mask"], X > 0)


def test_aux_and_value_are_the_callers_own():
    x, c = X.copy(), np.ones(3)
    (_, (same, part, constant)), _ = minigrad.value_and_grad(lambda x: (np.sum(x), (x, x[1:], c)), x, has_aux=True)
    assert not np.shares_memory(same, x) and not np.shares_memory(part, x)
    assert constant is c
    scalar = np.array(2.0)
    value, _ = minigrad.value_and_grad(lambda s: s.reshape(()), scalar)
    assert not np.shares_memory(value, scalar)
    out, pull, aux = minigrad.vjp(lambda x: (np.exp(x), x), x, has_aux=True)
    out += 100
    aux += 100
    np.testing.assert_array_equal(pull(np.ones(3))[0], np.exp(X))
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("result", [lambda x: np.sum(x), lambda x: (np.sum(x), 1, 2), lambda x: [np.sum(x), 1]])
def test_aux_that_is_not_there(result):
    with pytest.raises(MinigradError, match=r"with has_aux=True, <lambda> should return \(result, aux\), got a"):
        minigrad.value_and_grad(result, X, has_aux=True)


# --- parameters the loss does not reach


def nested_parameters():
    return {"blocks": [{"q": X, "k": X}, {"q": X}], "odd key": W, "bias": (X, None)}


def partial_loss(p):
    return np.sum(p["blocks"][0]["k"]) + np.sum(p["odd key"]) + np.sum(p["bias"][0])


UNUSED = r"the loss does not depend on p\.blocks\[0\]\.q, p\.blocks\[1\]\.q; the gradient is zero"


def test_unused_parameters_warn_at_the_users_line():
    for call in (minigrad.value_and_grad, minigrad.grad, lambda f, p: minigrad.grad(f)(p)):
        with pytest.warns(UnusedParameterWarning, match=UNUSED) as caught:
            call(partial_loss, nested_parameters())
        assert [w.filename for w in caught] == [__file__]


def test_unused_parameters_raise():
    with pytest.raises(MinigradError, match=UNUSED) as caught:
        minigrad.grad(partial_loss, nested_parameters(), unused="raise")
    assert re.search(r"test_transforms\.py:\d+ .*\n  fix  use the parameter", str(caught.value))


def test_unused_parameters_are_zero():
    gradient = minigrad.grad(partial_loss, nested_parameters(), unused="zero")
    np.testing.assert_array_equal(gradient["blocks"][0]["q"], np.zeros(3))
    assert gradient["bias"][1] is None
    unused = gradient["blocks"][1]["q"]
    unused += 1  # of its own, and writable
    np.testing.assert_array_equal(gradient["blocks"][0]["q"], np.zeros(3))


def test_names_of_unused_arguments():
    with pytest.raises(MinigradError, match=r"does not depend on b, c\['a b'\];"):
        minigrad.grad(
            lambda a, b, c: np.sum(a) + np.sum(c["d"]),
            X,
            X,
            {"a b": X, "d": X},
            argnums=(0, 1, 2),
            unused="raise",
        )
    with pytest.raises(MinigradError, match="does not depend on a;"):
        minigrad.grad(lambda a: 1.5, X, unused="raise")


def test_an_array_that_only_a_constant_reaches_is_unused():
    for constant in (np.zeros_like, np.floor, minigrad.stop_gradient, lambda x: x > 0, np.argmax):
        with pytest.raises(MinigradError, match="does not depend on x;"):
            minigrad.grad(lambda x, c=constant: np.sum(c(x)) * 1.0, X, unused="raise")
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(0.0 * x), X, unused="raise"), np.zeros(3))


def test_another_word_for_unused():
    with pytest.raises(ValueError, match="unused should be 'warn', 'raise' or 'zero', got 'ignore'"):
        minigrad.grad(loss, X, unused="ignore")


# --- what a loss may be


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: x, ShapeError, r"the loss should be a scalar, got shape \(3,\)"),
        (lambda x: x[:1], ShapeError, r"the loss should be a scalar, got shape \(1,\)"),
        (lambda x: np.zeros(3), ShapeError, r"the loss should be a scalar, got shape \(3,\)"),
        (lambda x: np.sum(x * 1j), DtypeError, "the loss should be real, got complex128"),
        (lambda x: [np.sum(x)], MinigradError, "the loss should be a real scalar, got list"),
        (lambda x: None, MinigradError, "the loss should be a real scalar, got NoneType"),
        (lambda x: "text", MinigradError, "the loss should be a real scalar, got str"),
    ],
)
def test_what_a_loss_may_not_be(f, error, message):
    with pytest.raises(error, match=message) as caught:
        minigrad.value_and_grad(f, X)
    assert "test_transforms.py" in str(caught.value)


def test_constant_losses():
    for constant in (1.5, 3, np.float32(2), True):
        value, gradient = minigrad.value_and_grad(lambda x, c=constant: c, X, unused="zero")
        assert value == constant
        np.testing.assert_array_equal(gradient, np.zeros(3))


def test_zero_dimensional_losses():
    assert minigrad.grad(lambda x: np.reshape(x[0], ()) * 2, X)[0] == 2.0
    assert minigrad.grad(lambda x: (x * x)[2, ...], X)[2] == 4.0


# --- what a parameter may be


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (3, "p has type int"),
        (True, "p has type bool"),
        ("text", "p has type str"),
        (np.arange(3), "p has dtype int64"),
        (np.array([True]), "p has dtype bool"),
        (np.int32(1), "p has dtype int32"),
        (np.array([1.0, None]), "p has dtype object"),
        ({"a": X, "step": 3}, r"p\.step has type int"),
        ([{"ids": np.arange(3)}], r"p\[0\]\.ids has dtype int64"),
        (np.ma.array([1.0]), "p is a MaskedArray"),
    ],
)
def test_parameters_without_gradient(parameter, message):
    calls = {
        "value_and_grad": lambda f: minigrad.value_and_grad(f, parameter),
        "grad": lambda f: minigrad.grad(f)(parameter),
        "vjp": lambda f: minigrad.vjp(f, parameter),
        "jvp": lambda f: minigrad.jvp(f, (parameter,), (parameter,)),
    }
    for who, call in calls.items():
        with pytest.raises(DtypeError, match=f"^{who}: {message}") as caught:
            call(lambda p: 1.0)
        assert "test_transforms.py" in str(caught.value)


def test_parameters_are_named_as_the_function_names_them():
    def f(scale, weights, *rest):
        return np.sum(scale)

    for argnums, name in ((1, r"weights\.ids"), (2, "rest0"), ((0, -1), "rest1")):
        with pytest.raises(DtypeError, match=rf"grad: {name} has (dtype|type) int"):
            minigrad.grad(f, X, {"ids": np.arange(3)}, 1, 2, argnums=argnums)
    with pytest.raises(DtypeError, match=r"vjp: x2 has dtype int64"):
        minigrad.vjp(np.add, X, np.arange(3))


@pytest.mark.parametrize("who", ["value_and_grad", "grad", "vjp", "jacobian", "hessian", "hvp"])
def test_a_value_in_place_of_a_function(who):
    """The slip grad(loss(p, x))."""
    for args in ((), (X,)):
        fix = rf"pass the function itself, minigrad\.{who}\(f(\)\(|, )x\)"
        with pytest.raises(TypeError, match=rf"{who}: wanted a function, got float64\.\n  at   .*\n  fix  {fix}"):
            getattr(minigrad, who)(loss(X), *args)


def test_integers_are_welcome_elsewhere():
    np.testing.assert_array_equal(minigrad.grad(lambda x, i, n: np.sum(x[i]) * n, X, np.array([0, 0, 2]), 2), [4, 0, 2])


def test_python_numbers():
    value, gradient = minigrad.value_and_grad(lambda s: s * s * 3, 2.0)
    assert (value, gradient) == (12.0, 12.0)
    assert type(gradient) is np.float64
    assert minigrad.grad(lambda s: np.abs(s) ** 2, 3.0 - 4.0j) == 6.0 + 8.0j
    gradient = minigrad.grad(lambda p: p["scale"] * np.sum(p["w"]), {"scale": 2.0, "w": X})
    assert gradient["scale"] == np.sum(X)
    gradient = minigrad.grad(lambda s, x: np.sum(s * x), 2.0, X.astype(np.float32), argnums=(0, 1))
    assert gradient[1].dtype == np.float32  # a Python number promotes nothing, as a Tensor neither


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128])
def test_gradients_have_the_dtype_of_the_parameter(dtype):
    x = X.astype(dtype)

    def f(x):
        y = np.tanh(x) * 0.5 + np.mean(x, axis=-1, keepdims=True)
        return np.sum(np.real(y * y)) / x.size

    value, gradient = minigrad.value_and_grad(f, x)
    assert value.dtype == f(x).dtype
    assert gradient.dtype == dtype
    for scalar in (x[0], x[:1].reshape(())):
        gradient = minigrad.grad(lambda s: np.real(s * s), scalar)
        assert type(gradient) is type(scalar) and gradient.dtype == dtype


def test_a_float64_value_inside_does_not_change_the_dtype_of_the_gradient():
    x = X.astype(np.float32)
    for f in (
        lambda x: np.sum(x * np.float64(2)),
        lambda x: np.sum(x.astype(np.float64) ** 2),
        lambda x: np.sum(x * X),
        lambda x: np.sum(np.sum(x, dtype=np.float64) * x),
    ):
        value, gradient = minigrad.value_and_grad(f, x)
        assert value.dtype == np.float64
        assert gradient.dtype == np.float32


# --- structures


@dataclass(frozen=True)
class Layer:
    weight: Any
    bias: Any = None

    def __post_init__(self):
        if not isinstance(self.weight, (np.ndarray, minigrad.Tensor)):
            raise TypeError("weight should be an array")


class Pair(NamedTuple):
    first: Any
    second: Any


Point = namedtuple("Point", "x y")

STRUCTURES = {
    "array": (X, lambda p: p),
    "list": ([X, X], lambda p: p[1]),
    "tuple": ((X, X), lambda p: p[0]),
    "empty among others": ({"a": X, "b": [], "c": {}, "d": ()}, lambda p: p["a"]),
    "dict": ({"w": X, "b": X}, lambda p: p["w"]),
    "ordered dict": (OrderedDict(z=X, a=X), lambda p: p["a"]),
    "keys of several types": ({1: X, "a": X, (2, 3): X}, lambda p: p[(2, 3)]),
    "None": ([X, None], lambda p: p[0]),
    "NamedTuple": (Pair(X, Pair(X, None)), lambda p: p.second.first),
    "namedtuple": (Point(X, [X]), lambda p: p.y[0]),
    "frozen dataclass": (Layer(X, [X, Layer(X)]), lambda p: p.bias[1].weight),
    "deep": ([[[[{"a": (X,)}]]]], lambda p: p[0][0][0][0]["a"][0]),
}


def same_kind(tree, other):
    """Compare two structures level by level, types included."""
    assert type(tree) is type(other)
    if isinstance(tree, dict):
        assert list(tree) == list(other) or set(tree) == set(other)
        for key in tree:
            same_kind(tree[key], other[key])
    elif isinstance(tree, (list, tuple)):
        assert len(tree) == len(other)
        for a, b in zip(tree, other, strict=True):
            same_kind(a, b)
    elif isinstance(tree, Layer):
        same_kind(tree.weight, other.weight)
        same_kind(tree.bias, other.bias)


@pytest.mark.parametrize(("params", "leaf"), STRUCTURES.values(), ids=STRUCTURES)
def test_the_gradient_has_the_structure_of_the_parameters(params, leaf):
    gradient = minigrad.grad(lambda p: loss(leaf(p)), params, unused="zero")
    same_kind(params, gradient)
    np.testing.assert_array_equal(leaf(gradient), SLOPE)
    total = sum(float(np.sum(np.abs(g))) for g in minigrad.tree.leaves(gradient))
    assert total == pytest.approx(np.sum(np.abs(SLOPE)))


def test_one_array_at_two_places_has_two_gradients():
    a, b = minigrad.grad(lambda p: np.sum(p[0] * 2 + p[1] * 3), [X, X])
    np.testing.assert_array_equal(a, np.full(3, 2.0))
    np.testing.assert_array_equal(b, np.full(3, 3.0))


# --- ownership


OWNED = {
    "sum": lambda a, b: np.sum(a + b),
    "product": lambda a, b: np.sum(a * b),
    "identity": lambda a, b: a[0] + b[0],
    "reshaped": lambda a, b: np.sum(a.reshape(3, 1) + b.reshape(3, 1)),
    "broadcast": lambda a, b: np.sum(np.broadcast_to(a, (2, 3)) * np.broadcast_to(b, (2, 3))),
    "transposed": lambda a, b: np.sum((a[None] + b[None]).T @ W[:1]),
}


@pytest.mark.parametrize("f", OWNED.values(), ids=OWNED)
def test_gradients_own_their_memory_and_are_writable(f):
    a, b = X.copy(), X + 1
    for gradients in (minigrad.grad(f, a, b, argnums=(0, 1)), minigrad.vjp(f, a, b)[1](np.float64(1.0))):
        for g in gradients:
            assert g.flags.owndata and g.flags.writeable
        arrays = [*gradients, a, b]
        for i in range(4):
            for j in range(i):
                assert not np.shares_memory(arrays[i], arrays[j])


def test_gradients_do_not_alias_cotangents_or_saved_values():
    x, c = X.copy(), np.array([1.0, 2.0, 3.0])
    for f in (lambda x: x, lambda x: x.reshape(3), lambda x: x + 1, lambda x: x * c, lambda x: c * x[::-1], np.copy):
        _, pull = minigrad.vjp(f, x)
        g = np.array([2.0, 0.5, 1.0])
        first = pull(g)[0]
        wanted = first.copy()
        first += 100
        np.testing.assert_array_equal(g, [2.0, 0.5, 1.0])
        np.testing.assert_array_equal(pull(g)[0], wanted)
    np.testing.assert_array_equal(c, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(x, X)


def test_gradients_of_an_inner_differentiation_are_separate_too():
    def f(x):
        a, b = minigrad.grad(lambda a, b: np.sum(x * (a + b)), x, x, argnums=(0, 1))
        a += 1
        return np.sum(b * x)

    np.testing.assert_array_equal(minigrad.grad(f, X), 2 * X)

    def g(x):
        c = x * 1
        _, pull = minigrad.vjp(lambda z: z, x)
        back = pull(c)[0]
        back *= 5
        return np.sum(c * x)

    np.testing.assert_array_equal(minigrad.grad(g, X), 2 * X)


# --- vjp


def test_vjp_of_a_tree():
    out, pull = minigrad.vjp(lambda p, s: {"y": p["w"] @ p["x"] * s, "n": None, "c": 7}, {"w": W, "x": X}, 2.0)
    np.testing.assert_array_equal(out["y"], W @ X * 2)
    assert out["n"] is None and out["c"] == 7
    g = np.array([1.0, -2.0])
    gradient, of_s = pull({"y": g, "n": None, "c": 0})
    np.testing.assert_allclose(gradient["w"], 2 * np.outer(g, X))
    np.testing.assert_allclose(gradient["x"], 2 * W.T @ g)
    np.testing.assert_allclose(of_s, g @ (W @ X))


def test_pull_can_be_called_many_times():
    _, pull = minigrad.vjp(lambda x, y: np.tanh(x @ y) * x[0, 0], W, W.T)
    rng = np.random.default_rng(0)
    g, h = rng.normal(size=(2, 2, 2))
    ones = pull(g), pull(h), pull(g)
    both = pull(g + 2 * h)
    for i in range(2):
        np.testing.assert_array_equal(ones[0][i], ones[2][i])
        np.testing.assert_allclose(both[i], ones[0][i] + 2 * ones[1][i], rtol=1e-12)


def test_one_result_twice():
    _, pull = minigrad.vjp(lambda x: (x * x, [x * 3, x * 3], x), X)
    same = X * 2
    np.testing.assert_allclose(pull((same, [same, same], same))[0], same * 2 * X + 7 * same)


def test_constant_results():
    out, pull = minigrad.vjp(lambda x: (x * 2, np.ones(2), np.argmax(x)), X)
    assert out[2] == 2
    np.testing.assert_array_equal(pull((X, np.ones(2), 0))[0], 2 * X)
    assert minigrad.vjp(lambda: 3.0)[1](1.0) == ()


def test_cotangents_are_cast_to_the_result():
    _, pull = minigrad.vjp(lambda x: x * x, X.astype(np.float32))
    for g in (np.array([1, 0, 2]), np.array([1.0, 0.0, 2.0]), np.array([1.0, 0.0, 2.0]) + 1j):
        gradient = pull(g)[0]
        assert gradient.dtype == np.float32
        np.testing.assert_array_equal(gradient, [1.0, 0.0, 8.0])
    assert minigrad.vjp(np.sum, X)[1](1)[0].dtype == np.float64


@pytest.mark.parametrize(
    ("g", "error", "message"),
    [
        ({"a": X[:2], "b": [X]}, ShapeError, r"the cotangent a has shape \(2,\), the result has \(3,\)"),
        ({"a": X, "b": [1.0]}, ShapeError, r"the cotangent b\[0\] has shape \(\), the result has \(3,\)"),
        ({"a": X, "b": X}, StructureError, r"differ at \.b: wanted list"),
        ({"a": X, "b": [X, X]}, StructureError, r"differ at \.b: wanted list"),
        ({"a": X}, StructureError, "differ at the top"),
        ({"a": X, "b": [None]}, StructureError, r"differ at \.b\[0\]: wanted \*, got None"),
        (X, StructureError, "differ at the top"),
    ],
)
def test_cotangents_of_another_structure_or_shape(g, error, message):
    _, pull = minigrad.vjp(lambda x: {"a": x * 1, "b": [x * 2]}, X)
    with pytest.raises(error, match=message):
        pull(g)
    np.testing.assert_array_equal(pull({"a": X, "b": [X]})[0], 3 * X)


# --- jvp


def test_jvp():
    rng = np.random.default_rng(1)
    tangent = rng.normal(size=3)

    def f(x, w):
        return {"y": np.tanh(w @ x), "s": np.sum(x * x), "n": [None]}

    out, moved = minigrad.jvp(f, (X, W), (tangent, W))
    np.testing.assert_array_equal(out["y"], np.tanh(W @ X))
    assert type(moved["s"]) is np.float64 and moved["n"] == [None]
    for key in ("y", "s"):
        wanted = central_difference(lambda x, w, key=key: f(x, w)[key], (X, W), (tangent, W))
        np.testing.assert_allclose(moved[key], wanted, rtol=1e-9)


def test_jvp_of_trees_numbers_and_integer_results():
    out, moved = minigrad.jvp(
        lambda p: (p["a"] * p["b"], np.argmax(p["a"]), 5), ({"a": X, "b": 2.0},), ({"a": X, "b": 1.0},)
    )
    np.testing.assert_array_equal(moved[0], 3 * X)
    assert out[1:] == (2, 5) and moved[1:] == (0, 0)
    assert minigrad.jvp(lambda x: x * x, [3.0], [2.0]) == (9.0, 12.0)
    out, moved = minigrad.jvp(lambda x: np.ones(2), (X,), (X,))
    np.testing.assert_array_equal(moved, np.zeros(2))


def test_jvp_of_complex_functions():
    z, t = X + 1j * X[::-1], X * 1j + 0.5
    np.testing.assert_allclose(minigrad.jvp(lambda z: z * z * z, (z,), (t,))[1], 3 * z * z * t)
    np.testing.assert_allclose(minigrad.jvp(lambda x: np.exp(1j * x), (X,), (X,))[1], 1j * X * np.exp(1j * X))
    np.testing.assert_allclose(minigrad.jvp(lambda z: np.abs(z) ** 2, (z,), (t,))[1], 2 * np.real(np.conj(z) * t))


def test_jvp_keeps_the_dtype():
    _, moved = minigrad.jvp(lambda x: np.sin(x) * 2, (X.astype(np.float32),), (X,))
    assert moved.dtype == np.float32


@pytest.mark.parametrize(
    ("tangents", "error", "message"),
    [
        ((X[:2], W), ShapeError, r"jvp: the tangent \[0\] has shape \(2,\), the primal has \(3,\)"),
        ((X,), StructureError, "jvp: the primals and the tangents: the trees differ at the top"),
        ((X, None), StructureError, r"differ at \[1\]: wanted \*, got None"),
        ((X, [W]), StructureError, r"differ at \[1\]"),
    ],
)
def test_tangents_of_another_structure_or_shape(tangents, error, message):
    with pytest.raises(error, match=message):
        minigrad.jvp(lambda x, w: w @ x, (X, W), tangents)


# --- stop_gradient


def test_stop_gradient_outside_and_inside():
    np.testing.assert_array_equal(minigrad.stop_gradient(X), X)
    assert minigrad.stop_gradient({"a": [1, None, "text"]}) == {"a": [1, None, "text"]}
    value, gradient = minigrad.value_and_grad(lambda x: np.sum(minigrad.stop_gradient(x * x) * x), X)
    assert value == np.sum(X**3)
    np.testing.assert_array_equal(gradient, X * X)


def test_stop_gradient_gives_plain_read_only_arrays():
    def f(x):
        data = minigrad.stop_gradient({"x": x, "y": [x * 2, np.sum(x)]})
        assert type(data["x"]) is np.ndarray and type(data["y"][1]) is np.float64
        for array in (data["x"], data["y"][0]):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        np.asarray(data["x"])
        return np.sum(x)

    minigrad.grad(f, X)
    assert X.flags.writeable


def test_stop_gradient_cuts_every_level():
    def outer(x):
        return np.sum(minigrad.grad(lambda z: np.sum(z * z * minigrad.stop_gradient(z * x)), x))

    np.testing.assert_array_equal(minigrad.grad(outer, X, unused="zero"), 2 * X * X)


# --- nothing is left behind


def test_an_exception_leaves_no_state():
    def fails(x):
        np.multiply(x, x)
        raise KeyError("the user's own")

    for _ in range(3):
        with pytest.raises(KeyError, match="the user's own"):
            minigrad.grad(fails, X)
        with pytest.raises(KeyError):
            minigrad.vjp(fails, X)
        np.testing.assert_array_equal(minigrad.grad(loss, X), SLOPE)
    assert np.geterr()["invalid"] == "warn"


def test_an_exception_in_the_backward_pass_leaves_no_state():
    boom = minigrad.custom_adjoint(lambda x: x * 2, lambda g, x: 1 / 0)
    settings = np.geterr()
    with pytest.raises(ZeroDivisionError):
        minigrad.grad(lambda x: np.sum(boom(x)), X)
    assert np.geterr() == settings
    np.testing.assert_array_equal(minigrad.grad(loss, X), SLOPE)


def test_leaked_tensors_raise():
    kept = []
    minigrad.grad(lambda x: kept.append(x) or np.sum(x * x), X)
    minigrad.vjp(lambda x: kept.append(x) or x * x, X)
    with pytest.raises(KeyError):
        minigrad.grad(lambda x: kept.append(x) or {}["missing"], X)
    with pytest.raises(KeyError):
        minigrad.vjp(lambda x: kept.append(x) or {}["missing"], X)
    assert len(kept) == 4
    for t in kept:
        uses = [
            lambda t=t: t * 2,
            lambda t=t: np.sum(t),
            lambda t=t: t[0],
            lambda t=t: t.__setitem__(0, 1.0),
            lambda t=t: minigrad.grad(lambda x: np.sum(x * t), X),
            lambda t=t: X + t,
        ]
        for use in uses:
            with pytest.raises(LeakedTensorError, match="of a differentiation whose forward pass has ended") as caught:
                use()
            assert "test_transforms.py" in str(caught.value)
        assert repr(t) == "Tensor([ 0.5, -1.5,  2. ], dtype=float64)"


def test_the_same_call_twice_gives_the_same():
    x = np.random.default_rng(0).normal(size=(20, 20))

    def f(x):
        return np.sum(np.tanh(x @ x) ** 2 + np.exp(-x * x))

    first, second = minigrad.value_and_grad(f, x), minigrad.value_and_grad(f, x)
    assert first[0] == second[0] == f(x)
    np.testing.assert_array_equal(first[1], second[1])
