"""The layers' values: published cases, the named tests of the documents, dtypes, extremes and errors."""

import math

import numpy as np
import pytest

from minigrad.errors import DtypeError, ShapeError
from minigrad_nn import layers
from minigrad_nn.layers import (
    RangeError,
    argmax_rows,
    cross_entropy,
    dropout,
    embedding,
    layer_norm,
    linear,
    log_softmax,
    rms_norm,
    rmsnorm,
    softmax,
    swiglu,
    swiglu_hidden_size,
    zero_centred_rms_norm,
)

ACTIVATIONS = ["relu", "relu_squared", "sigmoid", "silu", "gelu_tanh", "gelu"]


def matrix(rows, cols, seed):
    return np.random.default_rng(seed).normal(size=(rows, cols)).round(2)


def batch(size, rows, cols, seed):
    return np.stack([matrix(rows, cols, seed + b) for b in range(size)])


# ---- each layer on its own -----------------------------------------------------------------------


def test_rmsnorm_gives_each_row_a_root_mean_square_of_one():
    y = rmsnorm(matrix(4, 5, 67))
    np.testing.assert_allclose(np.mean(y * y, axis=-1), 1, atol=1e-6)
    assert np.all(rmsnorm(np.zeros((2, 5))) == 0)


def test_rms_norm_adds_eps_inside_the_root():
    x, weight = np.array([1.0, 2, 3, 4]), np.array([1, 0.5, 2, 1])
    right = [0.3651483473, 0.3651483473, 2.190890084, 1.460593389]
    eps_outside_the_root = [0.3651482383, 0.3651482383, 2.19088943, 1.460592953]
    np.testing.assert_allclose(rms_norm(x, weight), right, atol=0, rtol=5e-10)
    assert np.max(np.abs(rms_norm(x, weight) - eps_outside_the_root)) > 1e-8
    assert np.array_equal(rms_norm(np.stack([x, 2 * x]), weight)[0], rms_norm(x, weight))


def test_zero_centred_rms_norm_is_rms_norm_with_a_gain_of_one_plus_weight():
    x, weight = matrix(3, 8, 1), matrix(1, 8, 2)[0]
    np.testing.assert_allclose(zero_centred_rms_norm(x, weight), rms_norm(x, 1 + weight), rtol=1e-14)


def test_zero_centred_rms_norm_of_half_precision_rounds_once():
    x, weight = matrix(3, 8, 1).astype(np.float16), np.full(8, 3e-4, np.float16)  # 1 + 3e-4 is 1 in float16
    wide = zero_centred_rms_norm(x.astype(np.float32), weight.astype(np.float32))
    got = zero_centred_rms_norm(x, weight)
    assert got.dtype == np.float16
    assert np.array_equal(got, wide.astype(np.float16))


def test_layer_norm_has_mean_bias_and_deviation_weight():
    x = (np.arange(12) ** 1.5 / 5).reshape(2, 2, 3)
    y = layer_norm(x, np.full(3, 2.0), np.full(3, 7.0), eps=0)
    np.testing.assert_allclose(y.mean(-1), 7, rtol=1e-14)
    np.testing.assert_allclose(y.std(-1), 2, rtol=1e-13)
    scaled = layer_norm(x, np.array([1.0, 2, 3]), np.array([0, 0, 1.0]))
    plain = layer_norm(x, np.ones(3), np.zeros(3))
    np.testing.assert_allclose(scaled, plain * [1, 2, 3] + [0, 0, 1], rtol=1e-14)
    row = x[0, 0]
    np.testing.assert_allclose(plain[0, 0], (row - row.mean()) / math.sqrt(row.var() + 1e-5), rtol=1e-13)


@pytest.mark.parametrize(("name", "formula"), [
    ("relu", lambda x: max(x, 0)),
    ("relu_squared", lambda x: max(x, 0) ** 2),
    ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
    ("silu", lambda x: x / (1 + math.exp(-x))),
    ("gelu_tanh", lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ("gelu", lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2)))),
])
def test_activation_is_its_formula(name, formula):
    x = np.linspace(-9, 9, 37).reshape(1, 37)
    wanted = np.array([[formula(float(number)) for number in x[0]]])
    np.testing.assert_allclose(getattr(layers, name)(x), wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_far_out_has_its_limit_and_no_warning(name, dtype):
    x = np.array([-1e4, -800, -90, 0, 90, 800, 1e4], dtype)
    limit = {"sigmoid": (x > 0) + 0.5 * (x == 0), "relu_squared": np.maximum(x, 0) ** 2}
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y = getattr(layers, name)(x)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, limit.get(name, np.maximum(x, 0)), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_does_not_hide_nan(name):
    assert np.isnan(getattr(layers, name)(np.array([np.nan]))).all()


def test_softmax_rows_sum_to_one():
    y = softmax(matrix(4, 5, 53))
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-12)
    assert y.min() > 0


def test_softmax_does_not_overflow_when_the_scores_are_large():
    y = softmax(800 + 3 * np.tile(np.arange(4.0), (2, 1)))
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-12)
    assert np.all(y[0] > 0)
    right = [0.09003057317, 0.2447284711, 0.6652409558]
    np.testing.assert_allclose(softmax(np.array([1000.0, 1001, 1002])), right, rtol=1e-9)
    np.testing.assert_allclose(softmax(np.array([-1000.0, -999, -998])), right, rtol=1e-9)
    assert np.array_equal(softmax(np.array([0, -np.inf])), [1, 0])


def test_softmax_in_half_precision_sums_all_of_512_equal_scores():
    assert np.all(softmax(np.zeros((1, 512), np.float16)) == np.float16(0.001953125))


def test_log_softmax_is_the_log_and_stays_finite():
    x = matrix(4, 5, 3)
    np.testing.assert_allclose(log_softmax(x), np.log(softmax(x)), rtol=1e-13)
    np.testing.assert_allclose(log_softmax(np.array([0.0, -1e4])), [0, -1e4])


def test_linear_takes_a_bias_as_another_array():
    x, weight, bias = batch(2, 3, 4, 1), matrix(4, 6, 2), matrix(1, 6, 3)[0]
    assert np.array_equal(linear(x, weight), x @ weight)
    assert np.array_equal(linear(x, weight, bias), x @ weight + bias)


def test_swiglu_gates_with_silu():
    x, gate, up, down = matrix(3, 4, 1), matrix(4, 6, 2), matrix(4, 6, 3), matrix(6, 4, 4)
    z = x @ gate
    wanted = (z / (1 + np.exp(-z)) * (x @ up)) @ down
    np.testing.assert_allclose(swiglu(x, gate, up, down), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("width", "hidden"), [(1, 64), (24, 64), (25, 128), (128, 384), (576, 1536), (4096, 10944)]
)
def test_swiglu_hidden_size_is_eight_thirds_rounded_up_to_64(width, hidden):
    assert swiglu_hidden_size(width) == hidden
    assert hidden == (int(2 * (4 * width) / 3) + 63) // 64 * 64


# ---- tokens in, loss out -------------------------------------------------------------------------


def test_embedding_looks_rows_up():
    weight = matrix(3, 4, 31)
    assert np.array_equal(embedding(weight, np.array([2, 0, 2])), weight[[2, 0, 2]])
    assert np.array_equal(embedding(weight, [[2, 0], [1, 2]])[1, 0], weight[1])
    assert embedding(weight, np.zeros((2, 0), np.int64)).shape == (2, 0, 4)
    assert np.array_equal(embedding(weight, np.uint8(2)), weight[2])


def test_cross_entropy_is_the_loss_it_claims_to_be():
    sure = np.zeros((1, 4))
    sure[0, 2] = 60
    assert abs(cross_entropy(sure, [2])) < 1e-12
    np.testing.assert_allclose(cross_entropy(np.zeros((1, 4)), [2]), math.log(4), rtol=1e-12)
    x, targets = 3 * matrix(5, 4, 97), np.arange(5) % 4
    wanted = np.mean([-math.log(softmax(row)[target]) for row, target in zip(x, targets, strict=True)])
    np.testing.assert_allclose(cross_entropy(x, targets), wanted, rtol=1e-14)


LOGITS = np.array([[2.0, 1, 0], [0, 3, 1], [1, 1, 1], [5, 0, 0]])
TARGETS = np.array([0, -100, 2, 1])


def test_cross_entropy_divides_by_the_number_of_kept_targets():
    loss = cross_entropy(LOGITS, TARGETS)
    divided_by_4 = 1.629901039
    np.testing.assert_allclose(loss, 2.173201385, rtol=5e-10)
    assert abs(loss - divided_by_4) > 0.1
    np.testing.assert_allclose(cross_entropy(LOGITS, np.where(TARGETS == -100, -1, TARGETS), -1), loss)
    np.testing.assert_allclose(cross_entropy(LOGITS.reshape(2, 2, 3), TARGETS.reshape(2, 2)), loss)


def test_cross_entropy_skips_an_ignored_row_whatever_it_holds():
    broken = LOGITS.copy()
    broken[1] = [np.nan, np.inf, -np.inf]
    assert cross_entropy(broken, TARGETS) == cross_entropy(LOGITS, TARGETS)


def test_cross_entropy_of_ignored_rows_only_is_zero():
    loss = cross_entropy(np.array([[2, 1, 0], [0, 3, 1]], np.float32), [-100, -100])
    assert loss == 0
    assert loss.dtype == np.float32


def test_cross_entropy_with_a_class_at_minus_infinity():
    logits = np.array([-np.inf, 0, 1])
    np.testing.assert_allclose(cross_entropy(logits, 2), 0.3132616875, rtol=1e-9)
    assert cross_entropy(logits, 0) == np.inf


def test_cross_entropy_and_log_softmax_make_label_smoothing():
    """q = (1 - e) onehot + e / V; the uniform part skips the ignored row as well."""
    kept = TARGETS != -100
    uniform = -np.mean(log_softmax(LOGITS[kept]))
    np.testing.assert_allclose(0.8 * cross_entropy(LOGITS, TARGETS) + 0.2 * uniform, 2.128756941, rtol=5e-10)


def test_cross_entropy_scores_the_next_token_when_shifted_once():
    logits = np.array([[[0.0, 2, 0], [0, 0, 4], [1, 0, 0], [3, 0, 0]]])
    ids = np.array([[0, 1, 2, 0]])
    once = cross_entropy(logits[:, :-1], ids[:, 1:])
    np.testing.assert_allclose(once, 0.27565526, rtol=1e-7)
    np.testing.assert_allclose(cross_entropy(logits[:, :-2], ids[:, 2:]), 3.137760533)  # shifted twice
    np.testing.assert_allclose(cross_entropy(logits, ids), 1.980472184)  # not shifted


def test_argmax_rows_picks_the_first_on_a_tie():
    logits = np.zeros((3, 4))
    logits[0, 2], logits[1, 0], logits[1, 3] = 5, -1, 0.5
    assert argmax_rows(logits).tolist() == [2, 3, 0]
    assert argmax_rows(logits[None]).tolist() == [[2, 3, 0]]


# ---- dropout -------------------------------------------------------------------------------------


class Keeping(np.random.Generator):
    """A generator whose uniform numbers are chosen by the test."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = numbers

    def random(self, shape):
        return np.reshape(self.numbers, shape)


def test_dropout_scales_what_it_keeps():
    x, rng = np.array([3.0, 0, 0, 6]), Keeping([0.25, 0.2, 0.9, 0.5])
    np.testing.assert_allclose(dropout(x, 0.25, rng), [4, 0, 0, 8])
    np.testing.assert_allclose(dropout(np.ones(4), 0.25, rng), [1.333333333, 0, 1.333333333, 1.333333333])


def test_dropout_drops_that_part_and_keeps_the_mean():
    y = dropout(np.ones((1000, 1000)), 0.1, np.random.default_rng(5))
    assert abs(np.mean(y == 0) - 0.1) < 0.002
    assert abs(y.mean() - 1) < 0.002


def test_dropout_of_nothing_and_of_everything():
    x, rng = matrix(3, 4, 1), np.random.default_rng(5)
    before = rng.bit_generator.state
    assert dropout(x, 0, rng) is x
    assert rng.bit_generator.state == before
    x[0, 0] = np.inf
    assert np.array_equal(dropout(x, 1, rng), np.zeros((3, 4)))


def test_dropout_draws_a_new_mask_at_every_call_and_the_same_from_the_same_state():
    x, rng = np.ones((8, 8)), np.random.default_rng(5)
    first, second = dropout(x, 0.5, rng), dropout(x, 0.5, rng)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, dropout(x, 0.5, np.random.default_rng(5)))


# ---- batches, dtypes -----------------------------------------------------------------------------

C, F = 16, 24
GAIN, BIAS, WIDE = matrix(1, C, 1)[0], matrix(1, C, 2)[0], matrix(C, F, 3)
PLAIN = [*ACTIVATIONS, "rmsnorm", "softmax", "log_softmax", "argmax_rows"]
ROW_BY_ROW = {
    **{name: getattr(layers, name) for name in PLAIN},
    "rms_norm": lambda x: rms_norm(x, GAIN.astype(x.dtype)),
    "zero_centred_rms_norm": lambda x: zero_centred_rms_norm(x, GAIN.astype(x.dtype)),
    "layer_norm": lambda x: layer_norm(x, GAIN.astype(x.dtype), BIAS.astype(x.dtype)),
    "linear": lambda x: linear(x, WIDE.astype(x.dtype), matrix(1, F, 4)[0].astype(x.dtype)),
    "swiglu": lambda x: swiglu(x, *(w.astype(x.dtype) for w in (WIDE, matrix(C, F, 5), matrix(F, C, 6)))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 5, 64])
@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_on_a_batch_each_sequence_gets_what_it_gets_alone(name, rows, dtype):
    """Bit for bit, on any leading axes."""
    f, x = ROW_BY_ROW[name], batch(4, rows, C, 7).astype(dtype)
    together = f(x)
    for b in range(4):
        assert np.array_equal(together[b], f(x[b]))
    assert np.array_equal(f(x.reshape(2, 2, rows, C)), together.reshape(2, 2, *together.shape[1:]))


def test_the_cross_entropy_of_a_batch_is_the_mean_over_every_row_of_every_sequence():
    x, targets = batch(2, 5, 5, 7), np.array([[0, 1, 2, 3, 4], [4, 4, 0, 1, 2]])
    each = [cross_entropy(x[b], targets[b]) for b in range(2)]
    assert abs(cross_entropy(x, targets) - np.mean(each)) <= 1e-15


@pytest.mark.parametrize("name", sorted(set(ROW_BY_ROW) - {"argmax_rows"}))
def test_float32_stays_float32(name):
    assert ROW_BY_ROW[name](batch(2, 3, C, 7).astype(np.float32)).dtype == np.float32


def test_float32_stays_float32_from_tokens_to_loss():
    x = matrix(3, 4, 1).astype(np.float32)
    assert embedding(x, [0, 2]).dtype == np.float32
    assert cross_entropy(x, [0, 1, 2]).dtype == np.float32
    assert cross_entropy(x, [0, -100, 2]).dtype == np.float32
    assert dropout(x, np.float64(0.3), np.random.default_rng(0)).dtype == np.float32
    assert dropout(x, 1, np.random.default_rng(0)).dtype == np.float32


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_strides_do_not_matter_and_inputs_are_left_alone(name):
    x = np.moveaxis(batch(C, 3, 4, 9), 0, -1)
    before = x.copy()
    np.testing.assert_allclose(ROW_BY_ROW[name](x), ROW_BY_ROW[name](before), rtol=1e-13, atol=1e-15)
    assert np.array_equal(x, before)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: rms_norm(np.ones((2, 4)), np.ones(3)), ShapeError,
     r"rms_norm: weight should be \(4,\), one for each channel of x \(2, 4\), got \(3,\)"),
    (lambda: zero_centred_rms_norm(np.ones((2, 4)), np.ones((2, 4))), ShapeError,
     r"zero_centred_rms_norm: weight should be \(4,\).*got \(2, 4\)"),
    (lambda: layer_norm(np.ones((2, 4)), np.ones(4), np.ones(1)), ShapeError,
     r"layer_norm: bias should be \(4,\).*got \(1,\)"),
    (lambda: linear(np.ones((2, 4)), np.ones((3, 5))), ShapeError,
     r"linear: x should be \(..., C\) for a weight \(C, F\), got x \(2, 4\) and weight \(3, 5\)"),
    (lambda: linear(np.ones((2, 3)), np.ones((3, 5)), np.ones(3)), ShapeError,
     r"linear: bias should be \(5,\), one for each channel of weight \(3, 5\), got \(3,\)"),
    (lambda: swiglu(np.ones((2, 4)), np.ones((4, 6)), np.ones((4, 6)), np.ones((4, 6))), ShapeError,
     r"swiglu: .*w_down \(F, C\), got \(2, 4\), \(4, 6\), \(4, 6\), \(4, 6\)"),
    (lambda: swiglu_hidden_size(0), RangeError, r"swiglu_hidden_size: width should be at least 1, got 0"),
    (lambda: embedding(np.ones((3, 4)), np.array([2.0, 0.0])), DtypeError,
     r"embedding: ids should be integers, got float64; .*ids\.astype\(np\.int64\)"),
    (lambda: embedding(np.ones((3, 4)), [0, 3]), RangeError,
     r"embedding: ids should be in 0\.\.2 for weight \(3, 4\), got 3"),
    (lambda: embedding(np.ones((3, 4)), [[0, -1]]), IndexError, r"embedding: .*got -1"),
    (lambda: cross_entropy(np.ones((2, 3)), np.array([0, 3])), RangeError,
     r"cross_entropy: targets should be in 0\.\.2 .*ignore_index = -100, got 3"),
    (lambda: cross_entropy(np.ones((2, 3)), np.array([-4, -100])), ValueError, r"cross_entropy: .*got -4"),
    (lambda: cross_entropy(np.ones((2, 3)), np.array([0.0, 1.0])), DtypeError,
     r"cross_entropy: targets should be integers, got float64"),
    (lambda: cross_entropy(np.ones((2, 3)), np.array([[0], [1]])), ShapeError,
     r"cross_entropy: targets should be \(2,\), one per row of logits \(2, 3\), got \(2, 1\)"),
    (lambda: dropout(np.ones(3), 1.1, None), RangeError, r"dropout: rate should be in 0\.\.1, got 1\.1"),
    (lambda: dropout(np.ones(3), -0.1, None), ValueError, r"dropout: rate .*got -0\.1"),
    (lambda: dropout(np.ones(3), math.nan, None), RangeError, r"dropout: rate .*got nan"),
    (lambda: dropout(np.ones(3), 0.5, 7), DtypeError,
     r"dropout: rng should be a numpy\.random\.Generator, got int; .*default_rng\(seed\)"),
])
def test_errors_say_what_was_wanted_and_what_came(call, error, message):
    with pytest.raises(error, match=message):
        call()
