"""Optimisers and gradient clipping, against formulas computed by hand."""

import math

import numpy as np
import pytest

import minigrad
from minigrad import tree
from minigrad.errors import DtypeError, ShapeError, StructureError
from minigrad_nn.optim import NonFiniteError, adamw, clip_by_global_norm, sgd


def small_params(dtype=np.float64):
    rng = np.random.default_rng(3)
    params = {
        "embedding": rng.normal(size=(4, 3)),
        "blocks": [{"weight": rng.normal(size=(3, 3)), "norm": rng.normal(size=3)}],
        "bias": rng.normal(size=3),
    }
    return tree.map(lambda p: p.astype(dtype), params)


def random_grads(params, seed):
    rng = np.random.default_rng(seed)
    return tree.map(lambda p: rng.normal(size=p.shape).astype(p.dtype), params)


def test_adamw_follows_its_formula():
    params = small_params()
    optimiser = adamw(lambda step: 0.01 * (step + 1), b1=0.9, b2=0.95, eps=1e-3, weight_decay=0.1)
    state = optimiser.init(params)
    p = params["blocks"][0]["weight"].copy()
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t in range(1, 6):
        grads = random_grads(params, t)
        params, state = optimiser.update(grads, state, params)
        g, lr = grads["blocks"][0]["weight"], 0.01 * t
        m = 0.9 * m + 0.1 * g
        v = 0.95 * v + 0.05 * g**2
        p = p * (1 - lr * 0.1)
        p = p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-3)
    np.testing.assert_allclose(params["blocks"][0]["weight"], p, rtol=1e-13)
    assert state.step == 5


def test_the_first_adamw_step_moves_by_the_rate_whatever_the_scale():
    for scale in (1e-4, 1.0, 1e4):
        params = {"bias": np.array([1.0, 2.0])}
        optimiser = adamw(0.1)
        moved, _ = optimiser.update({"bias": np.array([3.0, -5.0]) * scale}, optimiser.init(params), params)
        np.testing.assert_allclose(moved["bias"], [0.9, 2.1], rtol=1e-4)


def test_a_zero_gradient_moves_nothing_but_the_decay():
    params = small_params(np.float32)
    optimiser = adamw(0.1, weight_decay=0.5)
    moved, state = optimiser.update(tree.map(np.zeros_like, params), optimiser.init(params), params)
    decayed = np.float32(1 - 0.1 * 0.5)
    np.testing.assert_allclose(moved["embedding"], params["embedding"] * decayed, rtol=1e-6)
    np.testing.assert_array_equal(moved["bias"], params["bias"])
    assert all(np.isfinite(leaf).all() for leaf in tree.leaves((moved, state.mean, state.square)))


def test_matrices_decay_and_gains_and_biases_do_not():
    """Chosen by rank, not by name."""
    params = small_params()
    optimiser = adamw(0.1, weight_decay=0.5)
    moved, _ = optimiser.update(tree.map(np.zeros_like, params), optimiser.init(params), params)
    changed = [
        path.lstrip(".")
        for path, old, new in zip(tree.paths(params), tree.leaves(params), tree.leaves(moved), strict=True)
        if not np.array_equal(old, new)
    ]
    assert sorted(changed) == ["blocks[0].weight", "embedding"]


def test_a_weight_that_stands_twice_in_the_tree_is_refused():
    """It would decay twice, and after one update be two weights."""
    params = small_params()
    params["head"] = params["embedding"]
    for optimiser in (adamw(0.1), sgd(0.1)):
        with pytest.raises(StructureError, match="one array is both embedding and head"):
            optimiser.init(params)
        with pytest.raises(StructureError, match="one array is both embedding and head"):
            optimiser.init(params | {"head": params["embedding"].T})


def test_sgd_with_momentum_follows_its_formula():
    params = {"w": np.array([[1.0, -2.0]])}
    optimiser = sgd(0.1, momentum=0.9)
    state = optimiser.init(params)
    grads = {"w": np.array([[1.0, 2.0]])}
    for _ in range(2):
        params, state = optimiser.update(grads, state, params)
    # velocities g and 1.9 g
    np.testing.assert_allclose(params["w"], [[1.0 - 0.1 * 2.9, -2.0 - 0.2 * 2.9]], rtol=1e-14)


@pytest.mark.parametrize("optimiser", [adamw(1e-2), sgd(1e-2, momentum=0.5)])
def test_an_update_is_pure_and_keeps_float32(optimiser):
    params = small_params(np.float32)
    grads, state = random_grads(params, 0), optimiser.init(params)
    before = [leaf.copy() for leaf in tree.leaves((params, grads, tuple(state[1:])))]
    first = optimiser.update(grads, state, params)
    second = optimiser.update(grads, state, params)
    after = tree.leaves((params, grads, tuple(state[1:])))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    for a, b in zip(tree.leaves(first[0]), tree.leaves(second[0]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert {leaf.dtype for leaf in tree.leaves((first[0], tuple(first[1][1:])))} == {np.dtype(np.float32)}


def test_a_numpy_rate_does_not_promote():
    params = small_params(np.float32)
    optimiser = adamw(lambda step: np.float64(0.1))
    moved, _ = optimiser.update(random_grads(params, 0), optimiser.init(params), params)
    assert {leaf.dtype for leaf in tree.leaves(moved)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("optimiser", [adamw(0.1), sgd(0.1, momentum=0.5)])
def test_a_gradient_of_another_dtype_does_not_promote(optimiser):
    params = small_params(np.float32)
    moved, state = optimiser.update(random_grads(small_params(np.float64), 0), optimiser.init(params), params)
    assert {leaf.dtype for leaf in tree.leaves((moved, tuple(state[1:])))} == {np.dtype(np.float32)}


def test_half_precision_is_moved_in_float32():
    """In float16 the square of a gradient of 1e-4 is 0, and so is eps: 0 / 0."""
    optimiser = adamw(0.125)
    params = [np.ones(3, np.float16)]
    (moved,), state = optimiser.update([np.array([0, 1e-4, -1e-4], np.float16)], optimiser.init(params), params)
    assert moved.dtype == np.float16
    np.testing.assert_allclose(moved, [1, 0.875, 1.125], rtol=1e-3)
    assert state.square[0].dtype == np.float32


@pytest.mark.parametrize("optimiser", [adamw(0.1), sgd(0.1)])
@pytest.mark.parametrize("shape", [(1, 2), (1,), ()])
def test_a_gradient_of_another_shape_is_refused(optimiser, shape):
    params = {"b": np.ones(2)}
    with pytest.raises(ShapeError, match=r"shape of its parameter, \(2,\)"):
        optimiser.update({"b": np.ones(shape)}, optimiser.init(params), params)


@pytest.mark.parametrize("optimiser", [adamw(0.1), sgd(0.1)])
def test_parameters_that_are_not_floating_are_refused(optimiser):
    with pytest.raises(DtypeError, match="int64"):
        optimiser.init({"ids": np.arange(2)})


def test_gradients_of_another_structure_are_refused():
    params = small_params()
    optimiser = adamw(0.1)
    with pytest.raises(StructureError):
        optimiser.update({"embedding": params["embedding"]}, optimiser.init(params), params)


@pytest.mark.parametrize(("make", "says"), [
    (lambda: adamw(0.1, eps=0.0), "eps > 0"),
    (lambda: adamw(0.1, b1=1.0), "b1 and b2"),
    (lambda: adamw(0.1, b2=-0.1), "b1 and b2"),
    (lambda: sgd(0.1, momentum=1.0), "momentum"),
    (lambda: sgd(math.nan), "rate >= 0 and finite, got nan"),
    (lambda: adamw(-1e-3), "rate >= 0"),
    (lambda: adamw(0.1, weight_decay=-1), "weight decay >= 0"),
])
def test_impossible_settings_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_clipping_scales_all_gradients_by_one_factor():
    grads, norm = clip_by_global_norm([np.array([3.0, 4.0]), np.array([12.0])], 6.5)
    assert norm == 13.0
    assert type(norm) is float
    assert [g.tolist() for g in grads] == [[1.5, 2.0], [6.0]]


@pytest.mark.parametrize("limit", [13.0, 14.0, math.inf])
def test_below_the_limit_nothing_changes_by_a_single_bit(limit):
    grads = {"a": np.array([3.0, 4.0]), "b": np.array([12.0])}
    clipped, _ = clip_by_global_norm(grads, limit)
    assert clipped["a"].tolist() == [3.0, 4.0]
    assert clipped["b"].tolist() == [12.0]


def test_zero_gradients_stay_zero():
    (zero,), norm = clip_by_global_norm([np.zeros((2, 3), np.float32)], 1.0)
    assert norm == 0.0
    assert not zero.any()


@pytest.mark.parametrize(("dtype", "value"), [
    (np.float16, 300.0),                                            # 300² overflows float16
    (np.float16, 60000.0),
    (np.float32, 1e25),                                             # (1e25)² overflows float32
    (np.float64, 1e200),
    (np.float64, 1e-200),
    (np.float32, 1e-30),                                            # (1e-30)² is 0
])
def test_the_norm_neither_overflows_nor_vanishes_before_the_gradients_do(dtype, value):
    (g,), norm = clip_by_global_norm([np.full(4, value, dtype)], min(1.0, value))
    assert norm == pytest.approx(2 * float(dtype(value)), rel=1e-6)
    assert g.dtype == dtype
    np.testing.assert_allclose(g, min(1.0, value) / 2, rtol=1e-3)


def test_float16_squares_accumulate_in_a_wider_type():
    _, norm = clip_by_global_norm([np.ones(100_000, np.float16)], 1e9)
    assert norm == pytest.approx(math.sqrt(100_000), rel=1e-6)      # float16 stops at 2048


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_gradients_that_are_not_finite_are_refused_by_name(bad):
    """Scaled by max_norm / inf every other gradient would silently become 0."""
    grads = {"blocks": [{"q": np.array([[1.0, bad], [bad, 0.0]])}], "norm": np.ones(3)}
    with pytest.raises(NonFiniteError, match=r"not finite: blocks\[0\]\.q \(2 of 4 entries\)$"):
        clip_by_global_norm(grads, 1.0)


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_a_limit_that_is_not_positive_is_refused(limit):
    with pytest.raises(ValueError, match="wanted max_norm > 0"):
        clip_by_global_norm([np.ones(2)], limit)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("size", [1.0, 1e-25, 1e37, 0.0])
def test_clipping_in_a_compiled_function_is_clipping(backend, size):
    rng = np.random.default_rng(4)
    grads = {"w": (rng.uniform(-9, 9, (30, 5)) * size).astype(np.float32), "b": [rng.standard_normal(3) * size]}
    clipped, norm = minigrad.compile(lambda g: clip_by_global_norm(g, 1.5), backend=backend)(grads)
    wanted, wanted_norm = clip_by_global_norm(grads, 1.5)
    np.testing.assert_allclose(norm, wanted_norm, rtol=1e-6)
    for got, leaf in zip(minigrad.tree.leaves(clipped), minigrad.tree.leaves(wanted), strict=True):
        assert got.dtype == leaf.dtype
        np.testing.assert_allclose(got, leaf, rtol=1e-6)


def test_clipping_in_a_compiled_function_refuses_what_is_not_finite():
    compiled = minigrad.compile(lambda g: clip_by_global_norm(g, 1.0))
    assert compiled(np.ones(3))[1] == pytest.approx(3**0.5)
    for bad in (np.nan, np.inf):
        with pytest.raises(NonFiniteError, match="the norm of the gradient is"):
            compiled(np.array([1.0, bad, 0.0]))
