"""Generated gradients of the layers: against central differences of the forward, and published numbers."""

from dataclasses import dataclass

import numpy as np
import pytest

from minigrad import value_and_grad
from minigrad_nn import layers
from minigrad_nn.attention import (
    attention_weights,
    causal_attention,
    masked_softmax,
    multi_head_attention,
    scaled_dot_product_attention,
)
from minigrad_nn.layers import (
    cross_entropy,
    dropout,
    embedding,
    layer_norm,
    rms_norm,
    rmsnorm,
    softmax,
    swiglu,
    zero_centred_rms_norm,
)
from minigrad_nn.masks import additive_mask, causal_mask
from minigrad_nn.rope import rope_table, rotate_half_split, rotate_interleaved
from numeric import central_difference


def matrix(rows, cols, seed):
    return np.random.default_rng(seed).normal(size=(rows, cols)).round(2)


def batch(size, rows, cols, seed):
    return np.stack([matrix(rows, cols, seed + b) for b in range(size)])


def by_differences(f, x):
    """The gradient of a scalar function, one entry at a time."""
    units = np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([central_difference(f, (x,), (unit,)) for unit in units]).reshape(x.shape)


def worst_relative(got, wanted):
    """Of any entry, the largest difference over its size."""
    return np.max(np.abs(got - wanted) / np.maximum(np.maximum(np.abs(got), np.abs(wanted)), 1e-8))


def weighed(f, c):
    """The sum of f weighed by c: a scalar whose gradient no symmetry makes zero."""
    return lambda *args: np.sum(c * f(*args))


def assert_gradient(f, *args, tolerance=1e-6):
    """Hold the gradient with respect to each argument to differences; return them."""
    grads = value_and_grad(f, *args, argnums=tuple(range(len(args))))[1]
    for n, (got, x) in enumerate(zip(grads, args, strict=True)):
        wanted = by_differences(lambda moved, n=n: f(*args[:n], moved, *args[n + 1:]), x)
        assert worst_relative(got, wanted) < tolerance
    return grads


# ---- the pieces a transformer is made of ---------------------------------------------------------


def test_rmsnorm():
    assert_gradient(weighed(rmsnorm, matrix(4, 5, 89)), matrix(4, 5, 67))


def test_relu_squared_away_from_the_kink_and_at_it():
    x, c = matrix(4, 5, 13), matrix(4, 5, 29)
    assert np.min(np.abs(x)) > 5e-3
    assert_gradient(weighed(layers.relu_squared, c), x)
    at_zero = value_and_grad(weighed(layers.relu_squared, c), np.zeros((4, 5)))[1]
    assert np.all(at_zero == 0)


def test_softmax():
    assert_gradient(weighed(softmax, matrix(4, 5, 71)), matrix(4, 5, 53))


@dataclass
class AttentionCase:
    x: np.ndarray
    wq: np.ndarray
    wk: np.ndarray
    wv: np.ndarray

    def attention(self):
        return causal_attention(self.x, self.wq, self.wk, self.wv)


def attention_case():
    return AttentionCase(matrix(5, 5, 7), matrix(5, 3, 19), matrix(5, 3, 37), matrix(5, 3, 59))


def test_all_four_gradients_of_attention_in_one_structure():
    case, c = attention_case(), matrix(5, 3, 83)
    gradient = value_and_grad(lambda a: np.sum(c * a.attention()), case)[1]
    assert isinstance(gradient, AttentionCase)
    for name, x in vars(case).items():
        def moved(value, name=name):
            return np.sum(c * AttentionCase(**vars(case) | {name: value}).attention())
        assert worst_relative(getattr(gradient, name), by_differences(moved, x)) < 1e-6


def test_cross_entropy():
    targets = np.arange(5) % 4
    gradient, = assert_gradient(lambda x: cross_entropy(x, targets), 3 * matrix(5, 4, 97))
    np.testing.assert_allclose(gradient.sum(-1), 0, atol=1e-14)  # probability has to go somewhere


def test_embedding_adds_into_the_rows_it_looked_up():
    weight, c = matrix(3, 4, 31), matrix(3, 4, 43)
    gradient, = assert_gradient(weighed(lambda w: embedding(w, [2, 0, 2]), c), weight)
    np.testing.assert_allclose(gradient[2], c[0] + c[2], atol=1e-15)
    assert np.array_equal(gradient[0], c[1])
    assert np.all(gradient[1] == 0)


def test_attention_on_a_batch():
    case = attention_case()
    assert_gradient(
        weighed(lambda x: causal_attention(x, case.wq, case.wk, case.wv), batch(2, 5, 3, 83)), batch(2, 5, 5, 7))


# ---- published numbers ---------------------------------------------------------------------------


def test_published_rms_norm():
    u = np.array([1, -1, 0.5, 2])
    dx, dweight = value_and_grad(
        weighed(rms_norm, u), np.array([1.0, 2, 3, 4]), np.array([1, 0.5, 2, 1]), argnums=(0, 1))[1]
    np.testing.assert_allclose(dx, [0.2312606378, -0.4503495927, -0.03651478118, 0.1947458566], rtol=5e-10)
    np.testing.assert_allclose(dweight, [0.3651483473, -0.7302966947, 0.547722521, 2.921186779], rtol=5e-10)


def test_published_layer_norm():
    x, u = (np.arange(12) ** 1.5 / 5).reshape(2, 2, 3), np.cos(np.arange(12)).reshape(2, 2, 3)
    grads = value_and_grad(weighed(layer_norm, u), x, np.ones(3), np.zeros(3), argnums=(0, 1, 2))[1]
    wanted = [
        [[[-0.072811136, 0.1135142949, -0.04070315893], [0.1884029874, -0.3546061412, 0.1662031538]],
         [[-0.1741083948, 0.3362241073, -0.1621157126], [0.1650937361, -0.3221452826, 0.1570515465]]],
        [0.04144762043, -0.0987193031, -0.3719147295],
        [0.05904752817, -0.1985105897, -0.2735589869],
    ]
    for got, want in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)


LOGITS = np.array([[2.0, 1, 0], [0, 3, 1], [1, 1, 1], [5, 0, 0]])
TARGETS = np.array([0, -100, 2, 1])


@pytest.mark.parametrize("ignored_row", [[0, 3, 1], [np.nan, np.inf, -np.inf]])
def test_published_cross_entropy_with_an_ignored_row(ignored_row):
    logits = LOGITS.copy()
    logits[1] = ignored_row
    gradient = value_and_grad(cross_entropy, logits, TARGETS)[1]
    wanted = [[-0.1115863481, 0.08157615702, 0.03001019106], [0, 0, 0],
              [0.1111111111, 0.1111111111, -0.2222222222], [0.328901097, -0.3311172152, 0.00221611816]]
    np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-10)
    assert np.all(gradient[1] == 0)


def test_published_cross_entropy_of_ignored_rows_only():
    loss, gradient = value_and_grad(cross_entropy, LOGITS[:2], [-100, -100])
    assert loss == 0
    assert np.array_equal(gradient, np.zeros((2, 3)))


def test_published_cross_entropy_with_a_class_at_minus_infinity():
    gradient = value_and_grad(cross_entropy, np.array([-np.inf, 0, 1]), 2)[1]
    np.testing.assert_allclose(gradient, [0, 0.2689414214, -0.2689414214], rtol=1e-9)


def test_published_label_smoothing():
    def smoothed(logits):
        return 0.8 * cross_entropy(logits, TARGETS) - 0.2 * np.mean(layers.log_softmax(logits[TARGETS != -100]))

    wanted = [[-0.06714190363, 0.0593539348, 0.007787968835], [0, 0, 0],
              [0.08888888889, 0.08888888889, -0.1777777778], [0.3066788748, -0.2866727707, -0.02000610406]]
    np.testing.assert_allclose(value_and_grad(smoothed, LOGITS)[1], wanted, rtol=0, atol=1e-10)


def test_published_grouped_values():
    """The gradient of a value head is the sum over its group."""
    q = (np.arange(16) / 10).reshape(1, 4, 2, 2)
    k = np.array([[[[1.0, 0], [0, 1]], [[-1, 2], [3, 0]]]])
    v = np.array([[[[1.0, 10], [2, 20]], [[100, 3], [200, 4]]]])
    u = np.arange(16.0).reshape(1, 4, 2, 2)
    gradient = value_and_grad(weighed(lambda v: scaled_dot_product_attention(q, k, v), u), v)[1]
    wanted = [[[[5.78795631, 7.71727508], [6.21204369, 8.28272492]],
               [[8.367699865, 9.168906906], [35.63230014, 38.83109309]]]]
    np.testing.assert_allclose(gradient, wanted, rtol=5e-10)


def test_dropout_has_the_gradient_of_its_mask_even_where_the_input_is_zero():
    c, x = matrix(6, 6, 3), np.zeros((6, 6))
    kept = dropout(np.ones((6, 6)), 0.25, np.random.default_rng(5))
    gradient = value_and_grad(weighed(lambda x: dropout(x, 0.25, np.random.default_rng(5)), c), x)[1]
    np.testing.assert_allclose(gradient, c * kept, rtol=1e-15)
    nothing = value_and_grad(weighed(lambda x: dropout(x, 1, np.random.default_rng(5)), c), x)[1]
    assert np.all(nothing == 0)


# ---- the other layers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "sigmoid", "silu", "gelu_tanh", "gelu", "log_softmax"])
def test_row_by_row(name):
    x = matrix(4, 5, 13)
    assert np.min(np.abs(x)) > 5e-3
    assert_gradient(weighed(getattr(layers, name), matrix(4, 5, 29)), x)


@pytest.mark.parametrize("name", ["relu", "relu_squared", "sigmoid", "silu", "gelu_tanh", "gelu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_out_the_slope_is_that_of_the_limit(name, dtype):
    x, c = np.array([-1e4, -800, -90, 90, 800, 1e4], dtype), np.array([3, -2, 5, 7, 11, -13], dtype)
    slope = {"sigmoid": 0 * x, "relu_squared": 2 * np.maximum(x, 0)}.get(name, (x > 0).astype(dtype))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        gradient = value_and_grad(weighed(getattr(layers, name), c), x)[1]
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient, c * slope, rtol=1e-5, atol=1e-30)


def test_relu_at_zero_has_slope_zero():
    assert np.array_equal(value_and_grad(weighed(layers.relu, 2), np.array([-1.0, 0, 1]))[1], [0, 0, 2])


def test_zero_centred_rms_norm():
    c = batch(2, 3, 5, 1)
    assert_gradient(weighed(zero_centred_rms_norm, c), batch(2, 3, 5, 2), matrix(1, 5, 3)[0])


def test_layer_norm_and_swiglu():
    c, x = batch(2, 3, 5, 1), batch(2, 3, 5, 2)
    assert_gradient(weighed(layer_norm, c), x, matrix(1, 5, 3)[0], matrix(1, 5, 4)[0])
    assert_gradient(weighed(swiglu, c), x, matrix(5, 4, 5), matrix(5, 4, 6), matrix(4, 5, 7))


@pytest.mark.parametrize("rotate", [rotate_half_split, rotate_interleaved])
def test_rotation(rotate):
    """The gradient is the rotation back."""
    x, c, (cos, sin) = batch(2, 3, 6, 1), batch(2, 3, 6, 2), rope_table(3, 6, dtype=np.float64)
    gradient, = assert_gradient(weighed(lambda x: rotate(x, cos, sin), c), x)
    np.testing.assert_allclose(gradient, rotate(c, cos, -sin), rtol=1e-13)


@pytest.mark.parametrize("as_mask", [lambda mask: mask, additive_mask])
def test_a_row_with_nothing_to_attend_to_has_gradient_zero(as_mask):
    mask = causal_mask(4)
    mask[1] = False
    x = matrix(4, 4, 5)
    gradient, = assert_gradient(weighed(lambda x: masked_softmax(x, as_mask(mask)), matrix(4, 4, 6)), x)
    assert np.all(gradient[1] == 0)
    assert np.all(gradient[~mask] == 0)


@pytest.mark.parametrize("as_mask", [lambda mask: mask, additive_mask])
def test_nan_in_a_key_or_value_that_nothing_attends_to_leaves_every_gradient_finite(as_mask):
    q, k, v = batch(4, 3, 6, 1), batch(2, 5, 6, 11), batch(2, 5, 6, 21)
    mask = as_mask(np.array([True, False, True, True, False]))
    c, c_weights = batch(4, 3, 6, 31), batch(4, 3, 5, 41)

    def loss(q, k, v):
        mixed = scaled_dot_product_attention(q, k, v, mask)
        return np.sum(c * mixed) + np.sum(c_weights * attention_weights(q, k, mask))

    clean = value_and_grad(loss, q, k, v, argnums=(0, 1, 2))
    k[:, 1], v[:, 4], v[:, 1, 0] = np.nan, np.inf, np.nan
    broken = value_and_grad(loss, q, k, v, argnums=(0, 1, 2))
    assert broken[0] == clean[0]
    for got, wanted in zip(broken[1], clean[1], strict=True):
        assert np.array_equal(got, wanted)
    assert np.all(broken[1][1][:, [1, 4]] == 0) and np.all(broken[1][2][:, [1, 4]] == 0)


HEAD_DIM, C = 4, 5
SIZES = {"q": (C, 16), "k": (C, 8), "v": (C, 8), "o": (16, C), "q_bias": (16,), "k_bias": (8,), "v_bias": (8,),
         "o_bias": (C,), "q_norm": (HEAD_DIM,), "k_norm": (HEAD_DIM,)}


def test_multi_head_attention_in_every_weight_and_input():
    rng = np.random.default_rng(0)
    names = list(SIZES)
    weights = [rng.normal(size=shape, scale=0.5).round(2) for shape in SIZES.values()]
    table, c = rope_table(3, HEAD_DIM, dtype=np.float64), batch(2, 3, C, 9)
    cache = tuple(rng.normal(size=(2, 2, 2, HEAD_DIM)) for _ in range(2))
    mask = causal_mask(3, past=2)

    def loss(x, *weights):
        named = dict(zip(names, weights, strict=True))
        out, (k, v) = multi_head_attention(x, named, HEAD_DIM, mask, table, table, cache)
        return np.sum(c * out) + np.sum(k[..., 1:, :] * v[..., :-1, :])

    assert_gradient(loss, batch(2, 3, C, 3), *weights, tolerance=1e-6)


def test_cross_attention_in_x_and_context():
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(size=shape, scale=0.5).round(2) for name, shape in SIZES.items()}
    c = batch(2, 3, C, 9)

    def loss(x, context):
        return np.sum(c * multi_head_attention(x, weights, HEAD_DIM, context=context)[0])

    assert_gradient(loss, batch(2, 3, C, 3), batch(2, 4, C, 5))


def test_float32_parameters_get_float32_gradients():
    rng = np.random.default_rng(2)
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in SIZES.items()}
    table = rope_table(3, HEAD_DIM)

    def loss(params, x):
        out, _ = multi_head_attention(x, params["attention"], HEAD_DIM, causal_mask(3), table, table)
        out = swiglu(out, params["gate"], params["gate"], params["gate"].T)
        return cross_entropy(rms_norm(out, params["norm"]) @ params["embedding"].T, [[0, 1, -100], [2, 3, 1]])

    params = {"attention": weights, "gate": matrix(C, 6, 3).astype(np.float32), "norm": np.ones(C, np.float32),
              "embedding": matrix(7, C, 4).astype(np.float32)}
    value, gradient = value_and_grad(loss, params, batch(2, 3, C, 5).astype(np.float32))
    assert value.dtype == np.float32
    assert {array.dtype for array in gradient["attention"].values()} == {np.dtype(np.float32)}
    assert {gradient[name].dtype for name in ("gate", "norm", "embedding")} == {np.dtype(np.float32)}
