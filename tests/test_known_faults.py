"""Faults that other libraries have had, by kind: each line is a loss, its arguments and the right gradients.

Conventions at kinks are in test_conventions.py, indexing and assignment in files of their own.
"""

import gc
import threading
import tracemalloc

import numpy as np
import pytest

import minigrad
from minigrad.errors import CutGraphError, DtypeError, MinigradError, ShapeError, UnusedParameterWarning

W23 = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
W3 = np.array([1.0, 10.0, 100.0])
W4 = np.array([1.0, 10.0, 100.0, 1000.0])


def a(*numbers, dtype=float):
    return np.array(numbers, dtype=dtype)


def counting(*shape):
    return np.arange(float(np.prod(shape))).reshape(shape)


X23 = counting(2, 3) * 0.37 - 0.9
X22 = np.array([[0.5, -1.5], [2.0, 0.25]])

FAULTS = {
    # broadcasting undone
    "scalar times matrix": (
        lambda v, x: np.sum(v * x * W23),
        (np.array(2.0), W23),
        (np.sum(W23 * W23), 2 * W23),
    ),
    "row divided by column": (
        lambda p, q: np.sum(W23 * (p / q)),
        (a(1, 2).reshape(2, 1), a(1, 2, 4).reshape(1, 3)),
        (a(3, 24).reshape(2, 1), np.array([[-17.0, -34 / 4, -68 / 16]])),
    ),
    "axis of length 1 in the middle": (
        lambda p, q: np.sum((p - q) ** 2),
        (np.zeros((2, 1, 3)), a(1, 2, 3, 4).reshape(4, 1)),
        (np.full((2, 1, 3), -20.0), 12 * a(1, 2, 3, 4).reshape(4, 1)),
    ),
    "both branches of where broadcast": (
        lambda x, y: np.sum(W23 * np.where(np.array([[True], [False]]), x, y)),
        (a(1, 2, 3), np.array(0.5)),
        (a(1, 2, 4), np.array(56.0)),
    ),
    "where with an integer condition and a number": (
        lambda x: np.sum(W3 * np.where(np.array([1, 0, 1]), x, -1)),
        (a(2, 3, 4),),
        (a(1, 0, 100),),
    ),
    "taking along a broadcast axis": (
        lambda x: np.sum(
            np.take_along_axis(x * counting(1, 3), np.repeat(np.arange(3), 10).reshape(30, 1), -1)
        ),
        (np.array(1.0),),
        (np.array(30.0),),
    ),
    "broadcast_to": (
        lambda x: np.sum(counting(4, 3) * np.broadcast_to(x, (4, 3))),
        (a(1, 2, 3),),
        (a(18, 22, 26),),
    ),
    "fmod by a column": (
        lambda x, y: np.sum(np.fmod(x, y)),
        (a(5), a(2, 2).reshape(2, 1)),
        (a(2), a(-2, -2).reshape(2, 1)),
    ),
    "fmod whose quotient rounds to a whole number": (
        lambda x, y: np.fmod(x, y),
        (np.array(1.0), np.array(0.1)),
        (1, -9),
    ),
    # powers
    "3**x is not x**3": (lambda x: np.sum(3.0**x), (a(-1, 0, 2),), (np.log(3.0) * 3.0 ** a(-1, 0, 2),)),
    "cube of negative numbers": (lambda x: np.sum(x**3), (a(-2, -0.5),), (a(12, 0.75),)),
    "negative integer power": (lambda x: np.sum(x**-2), (a(-2, 0.5),), (a(0.25, -16),)),
    "fractional powers": (lambda x: np.sum(W3 * x**0.5), (a(1, 4, 16),), (a(0.5, 2.5, 12.5),)),
    # ties, order
    "maximum of maxima, smooth although all are tied": (
        lambda x: np.sum(
            np.concatenate([np.max(np.concatenate([np.max(x, axis=0)[None], x]), axis=0)[None], x])
        ),
        (np.ones((1, 1)),),
        (np.array([[2.0]]),),
    ),
    "sort by a 3-cycle, which is not its own inverse": (
        lambda x: np.sum(W3 * np.sort(x)),
        (a(2, 3, 1),),
        (a(10, 100, 1),),
    ),
    "clip with a weighted gradient": (
        lambda x: np.sum(W4 * np.clip(x, -1, 1)),
        (a(-2, -0.5, 0.5, 3),),
        (a(0, 10, 100, 0),),
    ),
    "clip of bounds that broadcast": (
        lambda x, low, high: np.sum(W4 * np.clip(x, low, high)),
        (a(-2, -0.5, 0.5, 3), a(-1, -1, -1, -1), np.array(2.0)),
        (a(0, 10, 100, 0), a(1, 0, 0, 0), np.array(1000.0)),
    ),
    # reductions and their keywords
    "sum over no axes": (lambda x: np.sum(W3 * np.sum(x, axis=())), (a(1, 2, 3),), (W3,)),
    "mean over no axes": (lambda x: np.sum(W3 * np.mean(x, axis=())), (a(1, 2, 3),), (W3,)),
    "mean with where": (
        lambda x: np.mean(x, where=np.array([True, False, True, True])),
        (a(1, 2, 3, 4),),
        (a(1, 0, 1, 1) / 3,),
    ),
    "prod with initial": (lambda x: np.prod(x, initial=2.0), (a(3, 5),), (a(10, 6),)),
    "sum with initial": (lambda x: np.sum(x, initial=2.0) ** 2, (a(3, 5),), (a(20, 20),)),
    "centring": (lambda x: np.sum(x - np.mean(x)), (a(1, 5, 2, 7),), (np.zeros(4),)),
    "cumsum of the flattened array": (
        lambda x: np.sum(np.arange(1.0, 7.0) * np.cumsum(x)),
        (X23,),
        (np.array([[21.0, 20.0, 18.0], [15.0, 11.0, 6.0]]),),
    ),
    "cumsum along the last axis": (
        lambda x: np.sum(W23 * np.cumsum(x, axis=-1)),
        (X23,),
        (np.array([[7.0, 6.0, 4.0], [56.0, 48.0, 32.0]]),),
    ),
    "weighted average, weights too": (
        lambda x, w: np.average(x, weights=w),
        (a(1, 2, 6), a(1, 2, 1)),
        (a(0.25, 0.5, 0.25), a(-1.75, -0.75, 3.25) / 4),
    ),
    # shapes
    "reshape in Fortran order": (
        lambda x: np.sum(counting(3, 2) * np.reshape(x, (3, 2), order="F")),
        (X23,),
        (np.array([[0.0, 4.0, 3.0], [2.0, 1.0, 5.0]]),),
    ),
    "transpose by axes that are no involution": (
        lambda x: np.sum(counting(4, 2, 3) * np.transpose(x, (-1, 0, 1))),
        (counting(2, 3, 4),),
        (counting(4, 2, 3).transpose(1, 2, 0),),
    ),
    "joining different dtypes": (
        lambda x, y: np.sum(a(1, 10, 100, 1000, 0) * np.concatenate([x, y, np.array([7])])),
        (a(1, 2, dtype=np.float32), a(3, 4)),
        (a(1, 10, dtype=np.float32), a(100, 1000)),
    ),
    "padding keeps the weights": (
        lambda x: np.sum(counting(4, 5) * np.pad(x, ((1, 1), (0, 2)))),
        (X23,),
        (np.array([[5.0, 6.0, 7.0], [10.0, 11.0, 12.0]]),),
    ),
    "padding wider than the array": (
        lambda x: np.sum(counting(7) * np.pad(x, (2, 3), mode="wrap")),
        (a(1, 2),),
        (a(0 + 2 + 4 + 6, 1 + 3 + 5),),
    ),
    "rolling goes back the other way": (
        lambda x: np.sum(W4 * np.roll(x, 1)),
        (a(1, 2, 3, 4),),
        (a(10, 100, 1000, 1),),
    ),
    "tile with more repeats than axes": (
        lambda x: np.sum(counting(2, 6) * np.tile(x, (2, 2))),
        (a(1, 2, 3),),
        (a(18, 22, 26),),
    ),
    "repeat by counts, one of them zero": (
        lambda x: np.sum(W4 * np.repeat(x, np.array([0, 3, 1]))),
        (a(1, 2, 3),),
        (a(0, 111, 1000),),
    ),
    "trace of a tall matrix": (lambda x: np.trace(x), (counting(4, 2),), (np.eye(4, 2),)),
    "trace off the diagonal": (
        lambda x: np.trace(x, offset=-1) + 10 * np.trace(x, offset=2),
        (counting(2, 4),),
        (np.array([[0.0, 0.0, 10.0, 0.0], [1.0, 0.0, 0.0, 10.0]]),),
    ),
    "diagonal of a matrix that is not square": (
        lambda x: np.sum(a(1, 10) * np.diag(x, 1)),
        (counting(4, 3),),
        (np.array([[0.0, 1, 0], [0, 0, 10], [0, 0, 0], [0, 0, 0]]),),
    ),
    # products
    "matrix shared by a batch": (
        lambda p, q: np.sum(counting(2, 2, 2) * (p @ q)),
        (np.ones((2, 2, 3)), np.ones((3, 2))),
        (np.broadcast_to(a(1, 5, 9, 13).reshape(2, 2, 1), (2, 2, 3)), np.broadcast_to(a(12, 16), (3, 2))),
    ),
    "vector times a batch of matrices": (
        lambda p, q: np.sum(counting(2, 2) * (p @ q)),
        (a(1, 2, 3), np.ones((2, 3, 2))),
        (a(6, 6, 6), np.stack([np.outer(a(1, 2, 3), a(0, 1)), np.outer(a(1, 2, 3), a(2, 3))])),
    ),
    "x @ x.T": (
        lambda x: np.sum(np.array([[1.0, 2.0], [3.0, 4.0]]) * (x @ x.T)),
        (np.array([[1.0, 2.0], [3.0, 4.0]]),),
        (np.array([[17.0, 24.0], [29.0, 42.0]]),),
    ),
    "tensordot over the second axis": (
        lambda x: np.sum(a(3, 5) * np.tensordot(a(1, 0), x * np.array([[0.0, -1.0], [1.0, 0.0]]), (0, 1))),
        (np.array(1.0),),
        (np.array(5.0),),
    ),
    "einsum: trace": (lambda x: np.einsum("ii->", x), (counting(3, 3),), (np.eye(3),)),
    "einsum: diagonal": (lambda x: np.sum(W3 * np.einsum("ii->i", x)), (counting(3, 3),), (np.diag(W3),)),
    "einsum: alphabetical output": (
        lambda x: np.sum(counting(3, 2) * np.einsum("ba", x)),
        (X23,),
        (np.array([[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]),),
    ),
    "einsum: axes that are only summed": (
        lambda p, q: np.einsum("i,j->", p, q),
        (a(1, 2, 3), a(4, 5)),
        (a(9, 9, 9), a(6, 6)),
    ),
    "einsum: a scalar operand": (
        lambda p, q: np.sum(W23 * np.einsum(",ij->ij", p, q)),
        (np.array(2.0), np.ones((2, 3))),
        (np.array(63.0), 2 * W23),
    ),
    # no axis, or one
    "an axis of a number: products": (lambda x: 3 * np.cumprod(x, axis=0)[0], (np.array(2.0),), (np.array(3.0),)),
    "an axis of a number: take": (lambda x: np.sum(np.take(x, [0, 0], axis=-1)), (np.array(2.0),), (np.array(2.0),)),
    "an axis of a number: repeat": (lambda x: np.sum(np.repeat(x, 3, axis=0)), (np.array(2.0),), (np.array(3.0),)),
    "one axis to transpose": (lambda x: np.sum(W3 * np.transpose(x, 0)), (a(1, 2, 3),), (W3,)),
    # what is left of 1 when nearly 1 is subtracted
    "arcsine near 1": (
        lambda x: np.sum(np.arcsin(x) - 2 * np.arccos(-x)),
        (a(1 - 2.0**-40, 2.0**-53 - 1),),
        (-1 / np.sqrt(a(2.0**-40 * (2 - 2.0**-40), 2.0**-53 * (2 - 2.0**-53))),),
    ),
    "hyperbolic arctangent near 1": (
        lambda x: np.sum(np.arctanh(x)),
        (a(1 - 2.0**-40, 2.0**-53 - 1),),
        (1 / a(2.0**-40 * (2 - 2.0**-40), 2.0**-53 * (2 - 2.0**-53)),),
    ),
    # graphs
    "a value on several paths": (
        lambda x: np.sum(x * (x * 1.0) + x * (x * 1.0) + (x * x) * 1.0),
        (a(1),),
        (a(6),),
    ),
    "diamond": (lambda x: (lambda y: np.sum(y + y * y))(x * x), (a(3, -1),), (a(114, -6),)),
    "overlapping slices": (lambda x: np.sum(W3 * x[:-1] * x[1:]), (a(1, 2, 3, 4),), (a(2, 31, 420, 300),)),
    "an array less itself": (
        lambda x: np.sum(W3 * (x + x) - x * 0 + (x - x) + x * x * x),
        (a(1, 2, 3),),
        (2 * W3 + 3 * a(1, 4, 9),),
    ),
    # operands on the left, and Python
    "NumPy scalars on the left": (
        lambda x: np.sum(np.float64(2.0) * x + np.int64(3) - x ** np.int64(2) + np.float32(0.5) / x),
        (a(1, 2),),
        (a(2 - 2 - 0.5, 2 - 4 - 0.125),),
    ),
    "arrays and lists on the left": (
        lambda x: np.sum(a(1, 2) * x + np.array([3, 4]) - np.array([2.0, 3.0]) ** x) + [1.0, 2.0] @ x,
        (a(1, 2),),
        (a(2, 4) - a(2, 9) * np.log(a(2, 3)),),
    ),
    "branching on a value": (lambda x: np.sum(x * 2) if x[0] > 0 else np.sum(x * 3), (a(1, 2),), (a(2, 2),)),
    "loops and lengths": (
        lambda x: sum(x[i] * (i + 1) for i in range(len(x))) + x.shape[0] + x.ndim + x.size,
        (a(5, 6, 7),),
        (a(1, 2, 3),),
    ),
    "arrays like another": (
        lambda x: np.sum((x + np.zeros_like(x)) * np.ones_like(x) * np.full_like(x, 2.0)),
        (a(1, 2),),
        (a(2, 2),),
    ),
    # empty arrays
    "empty sum": (lambda x: np.sum(x) + np.sum(x * x), (np.zeros((0, 3)),), (np.zeros((0, 3)),)),
    "empty product of matrices": (
        lambda p, q: np.sum(p @ q),
        (np.zeros((2, 0)), np.zeros((0, 3))),
        (np.zeros((2, 0)), np.zeros((0, 3))),
    ),
    "joining with nothing": (
        lambda p, q: np.sum(W3 * np.concatenate([p, q])),
        (np.zeros(0), a(1, 2, 3)),
        (np.zeros(0), W3),
    ),
    "a mask of nothing": (lambda x: np.sum(x[x > 100]) + 0 * np.sum(x), (X23,), (np.zeros((2, 3)),)),
    # stability
    "softmax cross-entropy of huge logits": (
        lambda z: (lambda y: np.log(np.sum(np.exp(y), axis=-1)) - y[:, 1])(
            z - np.max(z, axis=-1, keepdims=True)
        )[0],
        (np.array([[1e4, 0.0, -1e4]]),),
        (np.array([[1.0, -1.0, 0.0]]),),
    ),
    "log-sum-exp with -inf": (
        lambda x: (lambda y: np.max(y) + np.log(np.sum(np.exp(y - np.max(y)))))(x + a(-np.inf, 0, 0)),
        (a(5, 1, 1),),
        (a(0, 0.5, 0.5),),
    ),
    "sigmoid by tanh": (lambda x: np.sum(0.5 * (1 + np.tanh(x / 2))), (a(-1000, 0, 1000),), (a(0, 0.25, 0),)),
    "norm of a zero row under where": (
        lambda x: (lambda n: np.sum(np.where(n > 0.5, n, 1.0)))(np.sqrt(np.sum(x**2, axis=1))),
        (np.array([[3.0, 4.0], [0.0, 0.0]]),),
        (np.array([[0.6, 0.8], [0.0, 0.0]]),),
    ),
}


@pytest.mark.parametrize(("f", "args", "wanted"), FAULTS.values(), ids=FAULTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_gradient(f, args, wanted):
    got = minigrad.grad(f, *args, argnums=tuple(range(len(args))))
    for g, x, w in zip(got, args, wanted, strict=True):
        assert g.shape == np.shape(x)
        assert g.dtype == x.dtype
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


# --- dtypes

F32 = np.array([1.0, 2.0, 4.0], np.float32)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x * np.float64(2.0)),
        lambda x: np.sum(x * a(1, 2, 3)),
        lambda x: np.mean(x) + np.max(x) + np.std(x) + np.sum(x / np.arange(1, 4)),
        lambda x: np.sum((x[:, None] @ x[None])[[0, 0]]),
        lambda x: np.sum(x.astype(np.float64) ** 2),
        lambda x: np.sum(np.where(x > 1, x, 0.0) + np.clip(x, 0.0, 2.0) + np.maximum(x, 0)),
        lambda x: np.sum(np.pad(x, 2) * 2.0) + np.sum(np.concatenate([x, a(1.0)])),
        lambda x: np.median(x) + np.interp(1.5, a(1, 2, 3), x) + np.sum(np.cumsum(x) / 3),
        lambda x: np.sum(np.power(x, 2) + x**0.5 + x ** np.int64(3) + 2**x),
    ],
)
def test_float32_gets_float32(f):
    got = minigrad.grad(f, F32)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, minigrad.grad(f, F32.astype(float)), rtol=2e-6)


def test_float16_gradient_is_finite_where_its_value_overflows():
    x = np.full(3, 300.0, np.float16)
    with np.errstate(over="ignore"):
        got = minigrad.grad(lambda x: np.sum(x * x, dtype=np.float32), x)
    assert got.dtype == np.float16
    assert got.tolist() == [600, 600, 600]


def test_one_parameter_used_in_two_precisions():
    got = minigrad.grad(lambda x: np.sum(x * 2) + np.sum(x.astype(np.float64) * 3) + np.sum(x * 1j).imag, F32)
    assert got.dtype == np.float32
    assert got.tolist() == [6, 6, 6]


def test_integer_parameters_are_refused():
    with pytest.raises(DtypeError, match="int64"):
        minigrad.grad(lambda x: np.sum(x * 0.5), np.array([1, 2]))


def test_integers_in_between_have_no_gradient():
    got = minigrad.grad(lambda x: np.sum(x * x.astype(int)) + np.sum(x * (x > 1)), a(1.5, -2.5, 0.5))
    assert got.tolist() == [2, -2, 0]


# --- higher derivatives


def derivatives(f, x, n):
    """The first n derivatives of a function of one number."""
    out = []
    for _ in range(n):
        f = minigrad.grad(f, unused="zero")
        out.append(float(f(np.float64(x))))
    return out


@pytest.mark.parametrize(
    ("f", "x", "wanted"),
    [
        (lambda x: np.exp(-(x**2)), 0.0, [0, -2, 0, 12]),
        (lambda x: np.exp(-(x * x)), 0.0, [0, -2, 0, 12]),
        (lambda x: x**3, 0.0, [0, 0, 6, 0]),
        (lambda x: x**3.0, 0.0, [0, 0, 6, 0]),
        (lambda x: np.power(x, np.array(2)), 0.0, [0, 2, 0]),
        (lambda x: np.square(x) * x, 2.0, [12, 12, 6, 0]),
        (np.tanh, 0.0, [1, 0, -2, 0, 16]),
        (np.sinc, 0.0, [0, -(np.pi**2) / 3, 0, np.pi**4 / 5]),
        (lambda x: np.log1p(np.exp(x)), 0.0, [0.5, 0.25, 0, -0.125]),
        (lambda x: np.logaddexp(0, x), 0.0, [0.5, 0.25, 0, -0.125]),
        (lambda x: np.prod(np.stack([x, x, x])), 0.0, [0, 0, 6]),
        (lambda x: np.cumprod(np.stack([x, x, x]))[2], 0.0, [0, 0, 6]),
        (lambda x: np.max(np.stack([x * x, -x])), 2.0, [4, 2, 0]),
    ],
)
def test_higher_derivatives(f, x, wanted):
    np.testing.assert_allclose(derivatives(f, x, len(wanted)), wanted, atol=1e-9)


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] * x[0]) ** 2


@pytest.mark.parametrize(
    ("f", "x", "wanted"),
    [
        (rosenbrock, a(0, 0), [[2, 0], [0, 200]]),
        (rosenbrock, a(1, 1), [[802, -400], [-400, 200]]),
        (lambda x: x[0] ** x[1], a(23, 0), [[0, 1 / 23], [1 / 23, np.log(23.0) ** 2]]),
        (lambda x: np.hypot(x[0], x[1]), a(1, 1), 0.5**1.5 * np.array([[1, -1], [-1, 1]])),
        (lambda x: np.prod(x), a(2, 3, 0, 0), [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 6], [0, 0, 6, 0]]),
        (lambda x: np.sum(a(1, 2, 3) * np.sort(x) ** 2), a(2, 3, 1), np.diag([4.0, 6.0, 2.0])),
        (lambda x: np.sum(x[[0, 0, 1]] * x[[1, 0, 1]]), a(2, 3), [[2, 1], [1, 2]]),
        (lambda x: x @ np.array([[1.0, 2.0], [0.0, 3.0]]) @ x, a(2, 3), [[2, 2], [2, 6]]),
        (lambda x: np.linalg.norm(x) ** 2, a(3, 4), [[2, 0], [0, 2]]),
    ],
)
def test_hessian(f, x, wanted):
    rows = [minigrad.grad(lambda x, i=i: minigrad.grad(f, x)[i], x, unused="zero") for i in range(len(x))]
    np.testing.assert_allclose(np.stack(rows), wanted, atol=1e-12)


# --- a graph that is cut raises


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.mean([x[0], x[1]]),
        lambda x: np.sum(np.asarray(x)),
        lambda x: np.sum(np.array([x, x])),
        lambda x: float(x[0]) * x[1],
        lambda x: np.sum(np.full(3, x[0])),
        lambda x: np.sum(np.full_like(np.zeros(3), x[0])),
        lambda x: np.sum(np.c_[x, x]),
        lambda x: np.sum(np.vectorize(np.sin)(x)),
        lambda x: __import__("math").exp(x[0]) * x[1],
        lambda x: x[0].item() * x[1],
        lambda x: sum(x.tolist()) * x[0],
    ],
)
def test_a_cut_graph_raises(f):
    with pytest.raises(CutGraphError, match=r"test_known_faults\.py"):
        minigrad.grad(f, a(1, 2, 3))


# --- what no single case shows


def test_gradients_share_no_memory():
    p, q = a(1, 2, 3), a(4, 5, 6)
    for f in (lambda p, q: np.sum(p + q), lambda p, q: np.sum(p * q), lambda p, q: np.sum(p[:] + q[::-1])):
        dp, dq = minigrad.grad(f, p, q, argnums=(0, 1))
        for g in (dp, dq):
            assert g.flags.writeable
            assert g.flags.owndata
            assert not any(np.shares_memory(g, other) for other in (p, q))
        assert not np.shares_memory(dp, dq)


def test_gradient_of_a_sum_can_be_written_to():
    g = minigrad.grad(np.sum, np.ones(3))
    g[0] = 7
    assert g.tolist() == [7, 1, 1]


def test_the_same_array_as_two_arguments():
    p = a(1, 2, 3)
    dp, dq = minigrad.grad(lambda p, q: np.sum(p * 2 + q * 3), p, p, argnums=(0, 1))
    assert dp.tolist() == [2, 2, 2]
    assert dq.tolist() == [3, 3, 3]


def test_parameters_keep_their_values_and_flags():
    p = a(1, 2, 3)
    minigrad.grad(lambda p: np.sum(np.exp(p * p)), p)
    assert p.tolist() == [1, 2, 3]
    assert p.flags.writeable
    q = a(1, 2, 3)
    q.flags.writeable = False
    assert minigrad.grad(lambda q: np.sum(q * q), q).flags.writeable
    assert not q.flags.writeable


def test_calling_twice_gives_the_same():
    def f(x):
        return np.sum((x * x) * (x * x))

    x = a(1, 2, 3)
    assert minigrad.grad(f, x).tolist() == minigrad.grad(f, x).tolist() == (4 * x**3).tolist()


def test_an_exception_in_the_loss_leaves_nothing_behind():
    def f(x):
        x * x
        raise KeyError("in the loss")

    with pytest.raises(KeyError, match="in the loss"):
        minigrad.grad(f, a(1, 2))
    assert minigrad.grad(lambda x: np.sum(x * x), a(1, 2)).tolist() == [2, 4]


def test_a_gradient_inside_a_loss():
    x = a(1, 2, 3)
    constant = minigrad.grad(lambda x: np.sum(x * minigrad.grad(lambda y: np.sum(y * y), a(1, 2, 3))), x)
    assert constant.tolist() == [2, 4, 6]
    nested = minigrad.grad(lambda x: np.sum(x * minigrad.grad(lambda y: np.sum(y**3), x)), x)
    np.testing.assert_allclose(nested, 9 * x**2)


def test_levels_of_differentiation_stay_apart():
    def f(x):
        return x * minigrad.grad(lambda y: x * y, np.float64(2.0))

    assert minigrad.grad(f, np.float64(3.0)) == 6


def test_strided_parameters():
    base = counting(3, 4)
    for x in (base.T, base[::-1], base[:, ::2], np.asfortranarray(base), np.broadcast_to(a(1, 2, 3), (2, 3))):
        c = 1.0 + counting(*x.shape)
        np.testing.assert_allclose(minigrad.grad(lambda x, c=c: np.sum(c * x * x), x), 2 * c * x)


def test_a_loss_that_is_no_real_scalar_is_refused():
    with pytest.raises(ShapeError, match="scalar"):
        minigrad.grad(lambda x: x * x, a(1, 2))
    with pytest.raises(DtypeError, match="real"):
        minigrad.grad(lambda x: np.sum(x * 1j), a(1, 2))
    with pytest.raises(MinigradError, match="NoneType"):
        minigrad.grad(lambda x: None, a(1, 2))


def test_an_unused_parameter_has_a_zero_gradient_and_a_warning():
    with pytest.warns(UnusedParameterWarning, match="depend on q;"):
        dp, dq = minigrad.grad(
            lambda p, q: np.sum(p * p), a(1, 2), np.ones((2, 2), np.float32), argnums=(0, 1)
        )
    assert dp.tolist() == [2, 4]
    assert dq.dtype == np.float32
    assert not dq.any()
    with pytest.warns(UnusedParameterWarning):
        assert not minigrad.grad(lambda p: 3.0, a(1, 2)).any()


def test_no_floating_point_warning_from_the_backward_pass():
    with np.errstate(all="raise"):
        got = minigrad.grad(
            lambda x: np.sum(x ** a(2, 3, 1)) + np.sum(x**2) + np.sum(np.abs(x)), a(-2, -1, 0)
        )
    assert got.tolist() == [-9, 0, 1]


def test_deep_and_wide_graphs():
    def deep(x):
        for _ in range(20_000):
            x = x + x * 1e-5
        return np.sum(x)

    np.testing.assert_allclose(minigrad.grad(deep, a(1, 2)), (1 + 1e-5) ** 20_000, rtol=1e-10)

    def wide(x):
        total = 0.0
        for k in range(600):
            total = total + np.sum(x) * (1 if k % 2 else -1)
        return total + np.sum(x * x)

    np.testing.assert_allclose(minigrad.grad(wide, a(1, 2)), [2, 4])


def test_no_reference_cycle_keeps_a_tape():
    big = np.ones(20_000)

    def f(x):
        return np.sum(np.exp(x) * x)

    for _ in range(3):
        minigrad.grad(f, big)
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(30):
            minigrad.grad(f, big)
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert current < 4 * big.nbytes


def test_two_threads_differentiate_at_once():
    results = {}

    def work(k):
        x = np.full(50, float(k))
        results[k] = [minigrad.grad(lambda x: np.sum(np.sin(x) ** 2 * k), x)[0] for _ in range(100)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, got in results.items():
        np.testing.assert_allclose(got, k * np.sin(2.0 * k))


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda x, p: np.transpose(x, p), counting(3, 2).T),
        (lambda x, p: np.moveaxis(x, p, [0, 1]), counting(3, 2).T),
        (lambda x, p: np.roll(x, p, axis=(0, 1)).T, np.roll(counting(3, 2).T, (0, -1), (0, 1))),
    ],
)
@pytest.mark.parametrize("kind", [list, np.array])
def test_parameters_changed_afterwards_do_not_matter(f, wanted, kind):
    """A list or an array that is no data, such as the axes of a transposition, belongs to the caller."""
    p = kind([1, 0]) if "roll" not in f.__code__.co_names else kind([0, 1])

    def loss(x):
        y = f(x, p)
        p[:] = p[::-1]
        return np.sum(y * counting(3, 2))

    np.testing.assert_array_equal(minigrad.grad(loss, X23), wanted)
