"""Half precision: what squares or sums is computed in float32, and rounded once."""

import numpy as np
import pytest

import minigrad
from minigrad_nn import attention, layers
from minigrad_nn.masks import additive_mask, causal_mask
from minigrad_nn.tiled import tiled_attention

rng = np.random.default_rng(11)
TARGETS = rng.integers(0, 20, 9000)
MASK = causal_mask(5)


def half(*shape, scale=1.0):
    return (rng.normal(size=shape) * scale).astype(np.float16)


QKV = half(1, 4, 5, 16, scale=60), half(1, 2, 5, 16, scale=60), half(1, 2, 5, 3)
LAYERS = {  # name: (function, arguments): squares, sums or products that float16 does not hold
    "rmsnorm": (layers.rmsnorm, (half(3, 8, scale=2000),)),
    "rms_norm": (layers.rms_norm, (half(3, 8, scale=2000), half(8))),
    "rms_norm of a small x": (layers.rms_norm, (half(3, 8, scale=1e-2), half(8))),
    "zero_centred_rms_norm": (layers.zero_centred_rms_norm, (half(3, 8, scale=2000), half(8))),
    "layer_norm": (layers.layer_norm, (half(3, 8, scale=2000), half(8), half(8))),
    "layer_norm of a large mean": (layers.layer_norm, (half(3, 8, scale=9) + np.float16(1000), half(8), half(8))),
    "softmax": (layers.softmax, (half(3, 3000),)),
    "log_softmax": (layers.log_softmax, (half(3, 3000),)),
    "linear": (layers.linear, (half(5000, 3), half(3, 4), half(4))),
    "swiglu": (layers.swiglu, (half(50, 8, scale=4), half(8, 6, scale=4), half(8, 6, scale=4), half(6, 8))),
    "embedding": (lambda weight: layers.embedding(weight, np.arange(5000) % 2), (half(3, 4),)),
    "cross_entropy": (lambda x: layers.cross_entropy(x, TARGETS), (half(9000, 20, scale=20),)),
    "cross_entropy, some ignored": (
        lambda x: layers.cross_entropy(x, np.where(TARGETS < 3, -100, TARGETS)), (half(9000, 20, scale=20),)
    ),
    "attention_scores": (attention.attention_scores, QKV[:2]),
    "attention_weights": (lambda q, k: attention.attention_weights(q, k, MASK), QKV[:2]),
    "masked_softmax": (lambda s: attention.masked_softmax(s, additive_mask(MASK, np.float64)), (half(5, 5),)),
    "attention": (lambda q, k, v: attention.scaled_dot_product_attention(q, k, v, MASK), QKV),
    "tiled_attention": (lambda q, k, v: tiled_attention(q, k, v, queries=2, keys=2), QKV),
}


@pytest.mark.parametrize("how", ["eager", "numpy", "llvm"])
@pytest.mark.parametrize("name", LAYERS)
def test_value_and_gradients_are_the_rounded_ones(name, how):
    if how == "llvm":
        pytest.importorskip("llvmlite")
    layer, args = LAYERS[name]
    wide = tuple(x.astype(np.float64) for x in args)
    cotangent = (np.random.default_rng(2).normal(size=np.shape(layer(*wide))) + 1).astype(np.float16)

    def pulled(g, *args):
        out, pull = minigrad.vjp(layer, *args)
        return out, pull(g)

    wanted, wanted_gradients = pulled(cotangent.astype(np.float64), *wide)
    call = pulled if how == "eager" else minigrad.compile(pulled, backend=how)
    got, gradients = call(cotangent, *args)
    for x, y in zip((got, *gradients), (wanted, *wanted_gradients), strict=True):
        assert x.dtype == np.float16
        np.testing.assert_allclose(x, y, rtol=2e-3, atol=1e-3 * np.abs(y).max())


def test_one_wider_array_makes_the_result_wide():
    x, weight = half(3, 8, scale=2000), rng.normal(size=8).astype(np.float32)
    got = layers.rms_norm(x, weight)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, layers.rms_norm(x.astype(np.float32), weight), rtol=1e-6)


def test_a_wide_mask_does_not_count():
    scores = half(5, 5)
    assert attention.masked_softmax(scores, additive_mask(MASK, np.float64)).dtype == np.float16


def test_whole_numbers_are_not_rounded_back():
    got = layers.zero_centred_rms_norm(np.arange(4), np.ones(4))
    np.testing.assert_allclose(got, layers.zero_centred_rms_norm(np.arange(4.0), np.ones(4)))
