"""jacobian, hessian, hvp: against closed forms and differences, over trees, dtypes and complex numbers."""

from typing import NamedTuple

import numpy as np
import pytest

import minigrad
from minigrad.errors import DtypeError, ShapeError, StructureError
from numeric import central_difference

X = np.array([0.5, -1.2, 0.8])
W = np.array([[0.3, 1.2, -0.7], [0.8, -0.4, 1.1]])


def by_differences(f, x):
    """The jacobian of a function of one array, an element of x at a time."""
    columns = []
    for i in range(x.size):
        unit = np.zeros(x.shape)
        unit.reshape(-1)[i] = 1
        columns.append(central_difference(f, (x,), (unit,)))
    return np.stack(columns, axis=-1).reshape(np.shape(f(x)) + x.shape)


FUNCTIONS = {
    "wide": lambda x: W @ np.sin(x),
    "tall": lambda x: np.outer(np.tanh(x), x[::-1]),
    "square": lambda x: x * np.sum(x * x),
    "scalar": lambda x: np.sum(x**3),
    "scalar 0-d": lambda x: np.reshape(np.prod(x), ()),
    "three axes": lambda x: np.exp(x)[:, None, None] * W,
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_jacobian_against_differences(f):
    got = minigrad.jacobian(f, X)
    assert got.shape == np.shape(f(X)) + X.shape
    np.testing.assert_allclose(got, by_differences(f, X), rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(minigrad.jacobian(f)(X), got)


def test_jacobian_of_a_matrix_argument():
    for f in (lambda w: w @ X, lambda w: np.einsum("ij,kj->ik", w, w), lambda w: np.concatenate([w, w * w, w])):
        np.testing.assert_allclose(minigrad.jacobian(f, W), by_differences(f, W), rtol=1e-8, atol=1e-9)


def test_the_two_directions_agree():
    """More results than arguments are pushed forward, fewer are pulled back."""
    f = lambda x: np.tanh(W @ x) * x[0]
    pulled = minigrad.jacobian(f, X)
    pushed = minigrad.jacobian(lambda x: np.concatenate([f(x), f(x)]), X)
    np.testing.assert_allclose(pushed, np.concatenate([pulled, pulled]), rtol=1e-14)


def test_cost_follows_the_smaller_side():
    calls = []
    f = minigrad.custom_adjoint(lambda x: np.full(50, x[0]), lambda g, x: calls.append(1) or np.sum(g) * np.ones(1))
    minigrad.jacobian(f, np.ones(1))
    assert len(calls) <= 2
    calls.clear()
    g = minigrad.custom_adjoint(lambda x: np.sum(x), lambda g, x: calls.append(1) or g * np.ones(50))
    minigrad.jacobian(g, np.ones(50))
    assert len(calls) == 1


def test_other_arguments():
    np.testing.assert_array_equal(minigrad.jacobian(lambda x, k, n: k * x**n, X, 2.0, 2), np.diag(4 * X))
    np.testing.assert_array_equal(minigrad.jacobian(lambda x, k: k * x)(X, 2.0), 2 * np.eye(3))
    with pytest.raises(TypeError, match=r"jacobian\(<lambda>\) needs the argument to differentiate"):
        minigrad.jacobian(lambda x: x)()


class Pair(NamedTuple):
    a: object
    b: object


def test_trees():
    f = lambda p: {"y": W @ p.a * p.b, "s": np.sum(p.a), "n": None}
    j = minigrad.jacobian(f, Pair(X, 2.0))
    assert set(j) == {"y", "s", "n"} and j["n"] is None
    assert type(j["y"]) is Pair
    np.testing.assert_allclose(j["y"].a, 2 * W)
    np.testing.assert_allclose(j["y"].b, W @ X)
    np.testing.assert_array_equal(j["s"].a, np.ones(3))
    assert j["s"].b == 0
    tall = minigrad.jacobian(lambda p: [f(p)["y"]] * 3, Pair(X, 2.0))
    for k in range(3):
        np.testing.assert_allclose(tall[k].a, 2 * W)
        np.testing.assert_allclose(tall[k].b, W @ X)


def test_empty_and_constant_results():
    assert minigrad.jacobian(lambda x: x[:0] * 2, X).shape == (0, 3)
    assert minigrad.jacobian(lambda x: np.ones(2) * np.sum(x), X[:0]).shape == (2, 0)
    for n in (2, 7):
        np.testing.assert_array_equal(minigrad.jacobian(lambda x, n=n: np.ones(n), X), np.zeros((n, 3)))
    for repeats in (1, 3):
        j = minigrad.jacobian(lambda x, k=repeats: [np.concatenate([x * x] * k), np.argmax(x), x > 0], X)
        np.testing.assert_array_equal(j[0], np.concatenate([np.diag(2 * X)] * repeats))
        np.testing.assert_array_equal(j[1], np.zeros(3))
        np.testing.assert_array_equal(j[2], np.zeros((3, 3)))


def test_dtypes_are_those_of_the_argument():
    for x in (X.astype(np.float32), X):
        for f in (lambda x: x * x, lambda x: np.outer(x, x), lambda x: np.outer(x, x).astype(np.float32)):
            assert minigrad.jacobian(f, x).dtype == x.dtype
        assert minigrad.hessian(lambda x: np.sum(x**3), x).dtype == x.dtype
    assert minigrad.jacobian(lambda x: x * 1j, X.astype(np.float32)).dtype == np.complex64


def test_arguments_without_derivative():
    with pytest.raises(DtypeError, match="has dtype int64"):
        minigrad.jacobian(lambda x: x * 1.0, np.arange(3))


# --- complex numbers: both directions give the same


@pytest.mark.parametrize("repeats", [1, 3])
def test_complex_results_of_real_arguments(repeats):
    f = lambda x: np.concatenate([np.exp(2j * x)] * repeats)
    wanted = np.concatenate([np.diag(2j * np.exp(2j * X))] * repeats)
    np.testing.assert_allclose(minigrad.jacobian(f, X), wanted, rtol=1e-14)


@pytest.mark.parametrize("repeats", [1, 3])
def test_holomorphic_functions(repeats):
    z = X + 1j * X[::-1]
    f = lambda z: np.concatenate([z * z * z] * repeats)
    np.testing.assert_allclose(minigrad.jacobian(f, z), np.concatenate([np.diag(3 * z * z)] * repeats), rtol=1e-14)


@pytest.mark.parametrize("repeats", [1, 3])
def test_real_results_of_complex_arguments(repeats):
    """The gradient g has dL = Re(g dz), as everywhere: of |z|**2 it is 2 conj(z)."""
    z = X + 1j * X[::-1]
    f = lambda z: np.concatenate([np.real(z * np.conj(z))] * repeats)
    wanted = np.concatenate([np.diag(2 * np.conj(z))] * repeats)
    np.testing.assert_allclose(minigrad.jacobian(f, z), wanted, rtol=1e-14)


@pytest.mark.parametrize("repeats", [1, 3])
def test_functions_that_are_not_holomorphic_raise(repeats):
    with pytest.raises(DtypeError, match="is not holomorphic, and has no complex derivative"):
        minigrad.jacobian(lambda z: np.concatenate([z * np.abs(z)] * repeats), X + 1j)


# --- hessian


def test_hessian_against_differences():
    f = lambda x: np.sum(np.tanh(W @ x) ** 3) + np.prod(x)
    h = minigrad.hessian(f, X)
    np.testing.assert_allclose(h, by_differences(lambda x: minigrad.grad(f, x), X), rtol=1e-8)
    np.testing.assert_allclose(h, h.T, rtol=1e-13)
    np.testing.assert_array_equal(minigrad.hessian(f)(X), h)


def test_hessian_of_linear_and_constant_functions_is_zero():
    for f in (lambda x: np.sum(x) * 3, lambda x: 3.0, lambda x: np.sum(np.floor(x))):
        np.testing.assert_array_equal(minigrad.hessian(f, X), np.zeros((3, 3)))


def test_hessian_of_trees_and_arrays():
    h = minigrad.hessian(lambda p: np.sum(p["w"] ** 2) * p["s"], {"w": X, "s": 2.0})
    np.testing.assert_array_equal(h["w"]["w"], 4 * np.eye(3))
    np.testing.assert_array_equal(h["w"]["s"], 2 * X)
    np.testing.assert_array_equal(h["s"]["w"], 2 * X)
    assert h["s"]["s"] == 0
    several = minigrad.hessian(lambda x: np.stack([np.sum(x**3), x[0] * x[1]]), X)
    assert several.shape == (2, 3, 3)
    np.testing.assert_allclose(several[0], np.diag(6 * X), rtol=1e-14)
    np.testing.assert_array_equal(several[1], np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))


def test_the_jacobian_can_be_differentiated():
    f = lambda y: np.sum(minigrad.jacobian(lambda x: np.outer(x * x, y), y) * np.arange(27.0).reshape(3, 3, 3))
    slope = minigrad.grad(f, X)
    np.testing.assert_allclose(slope, by_differences(f, X), rtol=1e-8)


# --- hvp


def test_hvp_is_hessian_times_vector():
    f = lambda x: np.sum(np.tanh(W @ x) ** 3) + np.prod(x)
    v = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(minigrad.hvp(f, X, v), minigrad.hessian(f, X) @ v, rtol=1e-12)


def test_hvp_of_trees():
    product = minigrad.hvp(lambda p: np.sum(p["w"] ** 2) * p["s"], {"w": X, "s": 2.0}, {"w": X, "s": 0.5})
    np.testing.assert_allclose(product["w"], 4 * X + 2 * X * 0.5)
    assert product["s"] == pytest.approx(np.sum(2 * X * X))


def test_hvp_with_more_arguments():
    def f(x, power, shift=0.0):
        return np.sum((x + shift) ** power)

    v = np.array([1.0, -2.0, 0.5])
    product = 6 * (X + 1.5) * v
    np.testing.assert_allclose(minigrad.hvp(f, X, v, 3, 1.5), product)
    np.testing.assert_allclose(minigrad.hvp(f)(X, v, 3, 1.5), product)
    for call in (lambda: minigrad.hvp(f)(X), lambda: minigrad.hvp(f, X)):
        with pytest.raises(TypeError, match=r"hvp\(f, x, v, ...\) needs the vector v"):
            call()
    with pytest.raises(TypeError, match=r"hvp\(f\) needs the argument"):
        minigrad.hvp(f)()


def test_hvp_where_the_hessian_is_zero():
    np.testing.assert_array_equal(minigrad.hvp(lambda x: np.sum(x), X, X), np.zeros(3))
    assert minigrad.hvp(lambda x: np.sum(x**2), X.astype(np.float32), X).dtype == np.float32


def test_hvp_with_another_vector():
    with pytest.raises(ShapeError, match=r"hvp: the vector has shape \(1,\), the argument has \(3,\)"):
        minigrad.hvp(lambda x: np.sum(x * x), X, np.ones(1))
    with pytest.raises(ShapeError, match=r"hvp: the vector b has shape \(\), the argument has \(3,\)"):
        minigrad.hvp(lambda p: np.sum(p["a"] * p["b"]), {"a": X, "b": X}, {"a": X, "b": 1.0})
    with pytest.raises(StructureError, match="hvp: the argument and the vector: the trees differ"):
        minigrad.hvp(lambda x: np.sum(x * x), X, [X])


def test_the_argument_that_is_differentiated_is_named_by_its_position():
    def f(a, b):
        return a**2 * np.sin(b)

    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, -1.0])
    np.testing.assert_allclose(minigrad.jacobian(f, a, b, argnums=1), np.diag(a**2 * np.cos(b)), rtol=1e-14)
    got = minigrad.hessian(lambda a, b: np.sum(f(a, b)), argnums=1)(a, b)
    np.testing.assert_allclose(got, np.diag(-(a**2) * np.sin(b)), rtol=1e-14)
    for transform in (minigrad.jacobian, minigrad.hessian):
        for wrong in (2, -1, (0, 1), True):
            with pytest.raises(TypeError, match=f"{transform.__name__}: argnums should be the position of one of 2"):
                transform(f, a, b, argnums=wrong)
