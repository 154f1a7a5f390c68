"""Generated gradients against adjoints written by hand, and those against numbers from the forward alone."""

import inspect
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import minigrad
from adjoint_rows import ADJOINT_OF_WRAPPER, MODES, ROWS, Sample
from minigrad_nn import adjoints, attention, layers, model, rope
from numeric import assert_close, central_difference, complex_step, inner, leaves, map_arrays, random_like

every_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
every_mode = pytest.mark.parametrize("sample", MODES.values(), ids=MODES)

# ---- the two comparisons ----------------------------------------------------------------------

TOLERANCE = {complex_step: 1e-12, central_difference: 1e-8}


def as_tuple(gradients):
    return gradients if isinstance(gradients, tuple) else (gradients,)


def prepare(row, sample):
    """Return f of the moving arguments alone, these arguments, a random cotangent g, and adjoint(g)."""
    moving, fixed = row.make(sample())
    f = partial(row.forward, **fixed)
    g = random_like(f(*moving), np.random.default_rng(11))
    return f, moving, g, as_tuple(row.adjoint(g, *moving, **fixed))


def compare_with_forward(row, sample):
    """Raise AssertionError unless <adjoint(g), t> = <g, J t> for random t, J t from the forward alone."""
    f, moving, g, gradients = prepare(row, sample)
    shapes = map_arrays(np.zeros_like, tuple(moving))
    assert_close(map_arrays(np.zeros_like, gradients), shapes, 0, "gradient")
    rng = np.random.default_rng(13)
    for index, (x, gradient) in enumerate(zip(moving, gradients, strict=True)):
        for _ in range(3):
            tangents = [None] * len(moving)
            tangents[index] = t = random_like(x, rng)
            change = row.derivative(f, moving, tangents)
            scale = max(inner(np.abs(g), np.abs(change)), 1e-2)
            error = abs(inner(gradient, t) - inner(g, change)) / scale
            assert error <= TOLERANCE[row.derivative], f"gradient {index}: relative error {error:.1e}"


def compare_with_generated(row, sample, tolerance=1e-12):
    """Raise AssertionError unless minigrad gives the adjoint's structure, shapes, dtypes and values."""
    f, moving, g, gradients = prepare(row, sample)
    _, pull = minigrad.vjp(f, *moving)
    assert_close(as_tuple(pull(g)), gradients, tolerance, "gradient")


@every_mode
@every_row
def test_adjoint_agrees_with_forward(row, sample):
    compare_with_forward(row, sample)


@every_mode
@every_row
def test_generated_gradient_agrees_with_adjoint(row, sample):
    compare_with_generated(row, sample)


@every_row
def test_float32_stays_float32(row):
    """Adjoint and generated gradient: dtypes equal, values near those of float64."""
    single = partial(Sample, lead=(3, 2), dtype=np.float32)
    compare_with_generated(row, single, tolerance=1e-4)
    *_, gradients = prepare(row, single)
    *_, wanted = prepare(row, partial(Sample, lead=(3, 2)))
    assert {leaf.dtype for leaf in leaves(gradients)} == {np.dtype(np.float32)}
    assert_close(gradients, map_arrays(np.float32, wanted), 1e-4, "gradient")


def test_every_adjoint_has_a_row():
    tested = {ADJOINT_OF_WRAPPER.get(row.adjoint, row.adjoint) for row in ROWS.values()}
    assert {function.__name__ for function in tested} == set(adjoints.__all__)


@pytest.mark.parametrize("name", sorted(set(adjoints.__all__) - {"matmul_adjoint"}))
def test_an_adjoint_takes_the_arguments_of_its_forward(name):
    """(g, the same names in the same order); only a cache has no place in it."""
    forward_name = name.removesuffix("_adjoint")
    modules = (layers, rope, attention, model)
    forward = next(getattr(module, forward_name) for module in modules if hasattr(module, forward_name))
    wanted = ["g", *inspect.signature(forward).parameters]
    assert list(inspect.signature(getattr(adjoints, name)).parameters) == [n for n in wanted if n != "cache"]


# ---- wrong adjoints are caught ----------------------------------------------------------------


def slightly_long(g, x, weight):
    dx, dweight = adjoints.rms_norm_adjoint(g, x, weight)
    return 1.0005 * dx, dweight


def turned_the_wrong_way(g, x, cos, sin):
    return adjoints.rotate_half_split_adjoint(g, x, cos, -sin)


def transposed_weight(g, x, weight):
    dx, dweight = adjoints.linear_adjoint(g, x, weight)
    return dx, dweight.T


def mean_over_the_batch(g, x, weight, bias):
    """Right without leading axes: there, the bias is not broadcast."""
    dx, dweight, dbias = adjoints.linear_adjoint(g, x, weight, bias)
    return dx, dweight, dbias / (g.size // bias.size)


def all_zeros(g, x):
    return np.zeros_like(x)


def in_float64(g, x):
    return adjoints.silu_adjoint(g, x).astype(np.float64)


WRONG = {
    "a factor": ("rms_norm", slightly_long, Sample),
    "a sign": ("rotate_half_split", turned_the_wrong_way, Sample),
    "a transpose": ("linear", transposed_weight, MODES["square"]),
    "broadcasting": ("linear, with a bias", mean_over_the_batch, Sample),
    "all zeros": ("softmax", all_zeros, Sample),
    "a dtype": ("silu", in_float64, partial(Sample, dtype=np.float32)),
}


@pytest.mark.parametrize("compare", [compare_with_forward, compare_with_generated])
@pytest.mark.parametrize(("name", "adjoint", "sample"), WRONG.values(), ids=WRONG)
def test_a_wrong_adjoint_is_caught(name, adjoint, sample, compare):
    with pytest.raises(AssertionError, match="gradient"):
        compare(replace(ROWS[name], adjoint=adjoint), sample)


def with_one_gradient_longer(adjoint, which):
    """The adjoint with 0.05 % too much in one of the arrays it returns."""
    def wrong(*args, **fixed):
        count = iter(range(100))
        return map_arrays(lambda x: x * (1.0005 if next(count) == which else 1), adjoint(*args, **fixed))
    return wrong


@pytest.mark.parametrize("compare", [compare_with_forward, compare_with_generated])
@pytest.mark.parametrize("name", [name for name in ROWS if name != "dropout, all"])     # its gradient is 0
def test_every_row_notices_a_factor_in_each_of_its_gradients(name, compare):
    *_, gradients = prepare(ROWS[name], Sample)
    for which in range(len(leaves(gradients))):
        wrong = replace(ROWS[name], adjoint=with_one_gradient_longer(ROWS[name].adjoint, which))
        with pytest.raises(AssertionError, match="gradient"):
            compare(wrong, Sample)


@pytest.mark.parametrize("compare", [compare_with_forward, compare_with_generated])
def test_what_is_wrong_only_when_broadcast_needs_the_broadcast_modes(compare):
    """On a single row the wrong adjoint is right: the modes are what catches it."""
    row = replace(ROWS["linear, with a bias"], adjoint=mean_over_the_batch)
    compare(row, partial(Sample, lead=(), time=1))


# ---- the special points -----------------------------------------------------------------------


def generated(forward, g, *moving):
    return minigrad.vjp(forward, *moving)[1](g)


@pytest.mark.parametrize("name", ["relu", "relu_squared", "sigmoid", "silu", "gelu_tanh", "gelu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_slopes_at_zero_and_far_out(name, dtype):
    """No overflow, no warning, and the right limits."""
    x = np.array([-1e4, 0.0, 1e4], dtype)
    slopes = getattr(adjoints, f"{name}_adjoint")(np.ones_like(x), x)
    at_zero = {"relu": 0, "relu_squared": 0, "sigmoid": 0.25}.get(name, 0.5)
    right = {"relu_squared": 2e4, "sigmoid": 0}.get(name, 1)
    assert_close(slopes, np.array([0, at_zero, right], dtype), 1e-7)
    assert_close(generated(getattr(layers, name), np.ones_like(x), x), (slopes,), 1e-7)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmaxes_are_finite_at_800(name):
    x = np.array([[800.0, 803.0, -800.0], [-800.0, -800.0, -801.0]])
    g = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])
    dx = getattr(adjoints, f"{name}_adjoint")(g, x)
    assert np.isfinite(dx).all()
    assert_close(generated(getattr(layers, name), g, x), (dx,), 1e-12)


def test_cross_entropy_of_ignored_rows_only_has_gradient_zero():
    logits, targets = np.ones((2, 3, 4)), np.full((2, 3), -100)
    g = np.array(1.5)
    assert_close(adjoints.cross_entropy_adjoint(g, logits, targets), np.zeros((2, 3, 4)), 0)
    forward = partial(layers.cross_entropy, targets=targets)
    assert_close(generated(forward, g, logits), (np.zeros((2, 3, 4)),), 0)


def test_cross_entropy_of_an_impossible_class():
    """A logit of -inf has probability 0 and gradient 0, as long as it is not the target."""
    logits = np.array([[0.3, -np.inf, 1.2], [-np.inf, 0.5, -0.1]])
    targets, g = np.array([2, 1]), np.array(0.7)
    dlogits = adjoints.cross_entropy_adjoint(g, logits, targets)
    assert dlogits[0, 1] == dlogits[1, 0] == 0
    assert np.isfinite(dlogits).all()
    assert_close(generated(partial(layers.cross_entropy, targets=targets), g, logits), (dlogits,), 1e-12)


def test_zero_centred_norm_rounds_half_precision_once():
    """Adjoint and generated gradient are float16, and as near to float64 as one rounding allows."""
    row, half = ROWS["zero_centred_rms_norm"], partial(Sample, dtype=np.float16)
    compare_with_generated(row, half, tolerance=1e-3)
    *_, gradients = prepare(row, half)
    *_, wanted = prepare(row, Sample)
    assert_close(gradients, map_arrays(np.float16, wanted), 2e-3)


@pytest.mark.parametrize("kind", ["boolean", "additive"])
def test_unseen_keys_and_values_poison_no_gradient(kind):
    """With NaN behind the mask every gradient is that of zeros behind the mask."""
    sample = Sample()
    q, k, v = sample.q(), sample.kv(), sample.kv()
    g = sample.q()
    seen = np.array([True, False, True, True, False])
    mask = seen if kind == "boolean" else np.where(seen, 0, -np.inf)
    k[..., ~seen, :] = v[..., ~seen, :] = 0
    wanted = adjoints.scaled_dot_product_attention_adjoint(g, q, k, v, mask)
    k[..., ~seen, :] = v[..., ~seen, :] = np.nan
    assert_close(adjoints.scaled_dot_product_attention_adjoint(g, q, k, v, mask), wanted, 1e-15)
    forward = partial(attention.scaled_dot_product_attention, mask=mask)
    assert_close(generated(forward, g, q, k, v), wanted, 1e-12)


def test_a_norm_without_an_adjoint_is_refused():
    sample = Sample()
    weights = sample.attention_weights() | sample.qk_norms()
    with pytest.raises(ValueError, match=r"norm, rotate and attend .* rms_norm.* got bare_norm"):
        adjoints.multi_head_attention_adjoint(sample.x(), sample.x(), weights, 4, norm=bare_norm)


def bare_norm(x, weight):
    return x * weight
