"""Large arguments and results of a compiled function lie elsewhere in each run."""

import numpy as np
import pytest

from minigrad import vjp
from minigrad.compiler import compile

BACKENDS = ["numpy", "llvm"]
rng = np.random.default_rng(3)


def large(*shape):
    return rng.standard_normal(shape)


def several(x, w):
    y = np.tanh(x @ w)
    rows = y / np.sum(y * y, axis=-1, keepdims=True)
    joined = np.concatenate([y, np.exp(-x)], axis=-1)
    return y, rows, joined, x.T @ y, np.mean(y, axis=0), y.reshape(-1), y.T, y[10:], x


def with_python(x, w):
    order = np.sort(x, axis=0)
    return order + 1, np.cumsum(order @ w, axis=0), np.cos(x)


def gradients(x, w):
    return vjp(lambda x, w: np.tanh(x @ w) / np.sqrt(np.mean(x * x, -1, keepdims=True)), x, w)[1](np.sin(x))


@pytest.mark.parametrize("f", [several, with_python, gradients])
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_stay_what_they_are_when_the_function_is_called_again(f, backend):
    compiled, w = compile(f, backend=backend), large(128, 128)
    inputs = [large(300, 128) for _ in range(4)]
    inputs.append(np.asfortranarray(inputs[0]))
    results = [compiled(x, w) for x in inputs]
    for x, result in zip(inputs, results, strict=True):
        for got, wanted in zip(result, f(x, w), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())
            assert got.flags.writeable and not any(np.shares_memory(got, x) for x in inputs)
    arrays = [a for result in results for a in result]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[:i])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_may_be_the_next_argument(backend):
    def turn(x):
        return np.cos(x) * 1.1

    compiled, got = compile(turn, backend=backend), large(200, 100)
    wanted = got.copy()
    for _ in range(5):
        got, wanted = compiled(got), turn(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_measured_between_two_calls_leaves_results_alone(backend):
    compiled, x, w = compile(several, backend=backend), large(300, 128), large(128, 128)
    results = compiled(x, w)
    before = [np.copy(r) for r in results]
    compiled.profile(repeat=2)
    compiled(x + 1, w)
    for now, then in zip(results, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_that_moves_into_a_donated_array_is_refused(backend):
    compiled = compile(lambda w, x: w - 0.1 * x, donate=0, backend=backend)
    w = large(300, 128)
    expected = w.copy()
    for x in [large(300, 128) for _ in range(3)]:
        assert compiled(w, x) is w
        expected -= 0.1 * x
    np.testing.assert_allclose(w, expected, rtol=1e-12)
    if backend == "llvm":  # NumPy has copied the argument, as it was another one each time
        with pytest.raises(ValueError, match="shares memory with another argument"):
            compiled(w, w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_that_fails_gives_no_result_and_the_next_one_does(backend):
    def solved(a, x):
        return np.tanh(x) @ np.linalg.inv(a)

    compiled, a, x = compile(solved, backend=backend), large(100, 100), large(200, 100)
    before = compiled(a, x)
    copy = before.copy()
    with pytest.raises(np.linalg.LinAlgError):
        compiled(np.zeros((100, 100)), x)
    np.testing.assert_allclose(compiled(a, 2 * x), solved(a, 2 * x), rtol=1e-9)
    np.testing.assert_array_equal(before, copy)
