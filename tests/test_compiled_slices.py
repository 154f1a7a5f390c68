"""Gradients of slices added up by pieces, and checkpoints computed again, in compiled functions."""

import numpy as np
import pytest

import minigrad
from minigrad.compiler.accumulate import join_pieces
from minigrad.program import without_dead_code
from minigrad.rules.index import scatter
from minigrad.trace import trace
from minigrad_nn.tiled import tiled_attention

RNG = np.random.default_rng(0)
BACKENDS = ["numpy", "llvm"]


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def with_gradient(f):
    """Return f's result and gradients, with random cotangents, as one function of arrays."""

    def step(g, *arrays):
        out, pull = minigrad.vjp(f, *arrays)
        return (out, *pull(g))

    return step


def check(f, *arrays, backend="numpy", donate=()):
    """Compile f with its gradient; compare with what it does eagerly."""
    step = with_gradient(f)
    g = RNG.standard_normal(np.shape(f(*arrays))).astype(np.float32)
    wanted = step(g, *arrays)
    compiled = minigrad.compile(step, backend=backend, donate=donate)
    compiled(g, *(x.copy() for x in arrays))
    for a, b in zip(compiled(g, *(x.copy() for x in arrays)), wanted, strict=True):
        assert a.shape == b.shape
        if backend == "numpy":
            assert np.array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return compiled


def halves(x):
    return np.concatenate([-x[..., 3:], np.sin(x[..., :3])], axis=-1)


def recurrence(x):
    state = np.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        state = np.tanh(state * 0.5 + x[:, t])
    return state


def triangle(x):
    """Every part is a slice from the start: the gradients meet where they end."""
    return sum(np.sum(np.sin(x[..., :n] * n), axis=-1) for n in (2, 4, 6))


def windows(x):
    return x[:, :-2] * x[:, 1:-1] + x[:, 2:]


def gaps(x):
    return np.exp(x[:, 1:2]) + x[:, 3:4] * x[:, 1:2]


def whole_and_parts(x):
    return np.sum(x * x, axis=-1) + x[:, -1] * x[:, 0] + np.sum(np.cos(x[:, 2:]), axis=-1)


def read_again(x):
    """The gradient of y is summed up by pieces, and read by more than one."""
    y = x * x
    return np.concatenate([y[:, :3], np.sin(y[:, 3:]), y[:, :3] * y[:, 3:]], axis=1)


def strides_and_steps(x):
    return x[:, ::2] * x[:, 1::2] + x[:, 5:2:-1]


def both_axes(x):
    return x[:2, :3] * x[1:3, 3:] + x[:2, 3:]


def parts_of_parts(x):
    y = x[:, 1:]
    return y[:, :2] * y[:, 2:4] + x[:, :2]


SLICES = [
    halves, recurrence, triangle, windows, gaps, whole_and_parts, read_again, strides_and_steps, both_axes,
    parts_of_parts,
]  # fmt: skip


@pytest.mark.parametrize("f", SLICES)
def test_gradients_of_slices(f):
    check(f, normal(4, 6))


@pytest.mark.parametrize("f", [halves, recurrence, whole_and_parts, read_again])
def test_gradients_of_slices_in_kernels(f):
    pytest.importorskip("llvmlite")
    check(f, normal(4, 6), backend="llvm")


def lowered(f, *arrays):
    return join_pieces(trace(with_gradient(f), np.ones_like(f(*arrays)), *arrays))


def test_slices_that_cover_the_whole_need_no_zeros():
    for f in (halves, recurrence, triangle, read_again):
        program = lowered(f, normal(4, 6))
        assert not [eq for eq in without_dead_code(program).equations if eq.op is scatter], f


def test_a_sum_is_right_where_it_is_also_a_result_and_its_memory_donated():
    x, y = normal(4, 6), normal(4, 6)

    def step(x, y, g):
        _, pull = minigrad.vjp(lambda x: x[:, :3] * x[:, 3:] + np.sin(x[:, :3]), x)
        (dx,) = pull(g)
        return x - 0.1 * dx, y + dx, dx

    g = normal(4, 3)
    wanted = step(x, y, g)
    for donate in ((), (0, 1)):
        got = minigrad.compile(step, backend="numpy", donate=donate)(x.copy(), y.copy(), g)
        for a, b in zip(got, wanted, strict=True):
            assert np.array_equal(a, b)


# --- checkpoints


def block(x, w):
    return np.tanh(np.exp(np.sin(x @ w)) @ w)


def test_a_checkpoint_is_computed_again_when_compiled():
    x, w = normal(256, 8), normal(8, 8) * 0.1

    def deep(f):
        def run(x, w):
            for _ in range(8):
                x = f(x, w)
            return x

        return run

    kept = check(deep(block), x, w).plan.arena
    again = check(deep(minigrad.checkpoint(block)), x, w).plan.arena
    assert again < 0.7 * kept


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_in_checkpoints(backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    inner = minigrad.checkpoint(block)
    outer = minigrad.checkpoint(lambda x, w: inner(inner(x, w), w) + x)
    check(lambda x, w: outer(outer(x, w), w), normal(16, 8), normal(8, 8) * 0.1, backend=backend)


def test_the_source_of_a_checkpoint_that_is_differentiated():
    f = minigrad.checkpoint(block)
    x, w = RNG.standard_normal((4, 3)), RNG.standard_normal((3, 3)) * 0.1
    assert "once_more" not in minigrad.adjoint_source(f, x, w)
    assert "once_more = x" in minigrad.adjoint_source(f, x, w, tidy=False)
    g = RNG.standard_normal((4, 3))
    recorded = minigrad.emit.adjoint_function(f, x, w, tidy=False)(g, x, w)
    for a, b in zip(recorded, minigrad.vjp(f, x, w)[1](g), strict=True):
        assert np.array_equal(a, b)


# --- tiled attention


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("queries", "keys", "causal"), [(16, 16, True), (16, 32, True), (16, 16, False)])
def test_tiled_attention(queries, keys, causal, backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    q, k, v = normal(1, 4, 60, 8), normal(1, 2, 60, 8), normal(1, 2, 60, 8)
    compiled = check(lambda *a: tiled_attention(*a, causal, queries, keys), q, k, v, backend=backend)
    if backend == "llvm":
        assert len(compiled.executable.steps) == 1  # nothing in between needs Python


def test_memory_of_tiled_attention_grows_with_the_length():
    def arena(length):
        a = [normal(1, 2, length, 8) for _ in range(3)]
        step = with_gradient(lambda *a: tiled_attention(*a, True, 32, 32))
        return minigrad.compile(step, backend="numpy"), (normal(1, 2, length, 8), *a)

    peaks = []
    for length in (128, 256, 512):
        compiled, arguments = arena(length)
        compiled(*arguments)
        peaks.append(compiled.plan.arena)
    assert peaks[1] < 2.2 * peaks[0]
    assert peaks[2] < 2.2 * peaks[1]


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_views_of_no_elements(backend):
    def f(x, y):
        return (y * 2)[::-1, 1:], (x[:0] + y)[..., ::-1], np.sum(y[:, ::-2], axis=0), (x * 2)[:, ::-1][3:]

    x, y = RNG.normal(size=(3, 4)), np.zeros((0, 4))
    for got, wanted in zip(minigrad.compile(f, backend=backend)(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(got, wanted, strict=True)
