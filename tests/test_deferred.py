"""What tracing leaves uncomputed: nothing is computed that nothing looks at, and what is looked at is right."""

import gc

import numpy as np
import pytest

import minigrad
from minigrad.tensor import plain
from minigrad.trace import trace

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(3, 4))


def seen(f, *args):
    """Return what plain() finds while f, which returns one Tensor or several, is traced."""
    found = []

    def looked_at(*tensors):
        out = f(*tensors)
        found.extend(np.array(plain(x)) for x in (out if isinstance(out, tuple) else (out,)))
        return out

    trace(looked_at, *args)
    return found


def test_nothing_is_computed_that_nothing_looks_at():
    def f(x, w):
        y = np.log(x) @ w
        return np.sum(np.sqrt(y[:, 0] / 0 * y.T[0]) + np.where(y[:, 1] > 0, 1, 0))

    with np.errstate(all="raise"):
        trace(lambda x, w: minigrad.grad(f, x, w), -np.ones((3, 4)), -np.ones((4, 2)))


def chain(x):
    y = np.tanh(x) * 2
    z = y.T.reshape(2, -1)  # copies
    z[0] += 1
    total = np.sum(z)
    return y, z, total, np.broadcast_to(z[1:], (3, 6)), np.concatenate([z, total / z]), np.mean(z, axis=0) - total


def through_what_is_let_go(x):
    y = np.exp(x)[1:]
    y = y.T @ y
    gc.collect()
    return y, np.broadcast_to(np.fft.irfft(y, axis=0)[:, None], (6, 2, 4))


def indexed(x):
    rows = np.argsort(x[:, 0])
    y = x[rows, 1:] * 1
    y[y < np.mean(y)] = 0
    return rows, y, np.take_along_axis(y, np.argmax(y, axis=1)[:, None], axis=1)


def where_and_casts(x):
    y = np.where(x > 0, x, np.float32(0)).astype(np.float32)
    return y, y * 2, y > np.float64(0), np.add(y, True), np.clip(y, None, 0.5), np.power(y, 2)


def reductions(x):
    y = np.exp(x)[None]
    none = y[:, :0]
    whole = np.sum(y), np.max(y, axis=()), np.all(y), np.prod(none, axis=1)
    return *whole, np.sum(y, axis=(0, -1)), np.mean(y.T, axis=1, keepdims=True), np.sum(y, axis=1, where=y > 1)


@pytest.mark.parametrize("f", [chain, reductions, through_what_is_let_go, indexed, where_and_casts])
def test_what_is_looked_at_is_what_numpy_computes(f):
    for got, wanted in zip(seen(f, MATRIX), f(MATRIX), strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype


def test_a_checkpoint_is_compared_with_its_second_run():
    state = iter(range(9))

    @minigrad.checkpoint
    def changing(x):
        return np.sin(x) * next(state)

    with pytest.raises(minigrad.errors.OverwrittenError, match="gave another value in the backward pass"):
        trace(lambda x: minigrad.grad(lambda x: np.sum(changing(x)), x), MATRIX)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, y: x * y, [MATRIX.T, MATRIX.T]),
        (lambda x, y: x * y, [MATRIX.T, MATRIX[:, :1].T]),
        (lambda x, y: x + y, [np.ones((2, 3, 4)).swapaxes(0, 2), np.ones((3, 2))]),
        (lambda x, y: np.where(x > y, x, y), [np.ones((2, 3, 4)).swapaxes(0, 1), np.ones(4)]),
        (lambda x, y: x @ y, [np.ones((2, 3, 4, 5)).swapaxes(1, 2), np.ones((5, 6))]),
        (lambda x, y: x @ y, [np.ones((2, 3)).T, np.ones(2)]),
        (lambda x, y: x - y, [np.ones((0, 3)), np.ones(3)]),
    ],
)
def test_memory_is_laid_out_as_numpy_does_it(f, args):
    strides = []
    trace(lambda *tensors: strides.append(f(*tensors).strides) or f(*tensors), *args)
    assert strides == [f(*args).strides]


def test_a_dtype_that_depends_on_values_is_that_of_the_values():
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    program = trace(lambda x: np.linalg.eig(x * 2)[0], turn)
    assert program.outputs[0].dtype == np.complex128


def test_a_row_number_that_is_out_of_range_is_found():
    with pytest.raises(IndexError, match="out of bounds"):
        trace(lambda x, i: x[i + 2], MATRIX, np.array([0, 1]))
