"""Multi-head attention as a whole: its order of steps, its cache, cross-attention and padding."""

from functools import partial

import numpy as np
import pytest

import minigrad
from minigrad.errors import MinigradError, ShapeError
from minigrad_nn.attention import attention_with_dropout, multi_head_attention
from minigrad_nn.layers import rms_norm, zero_centred_rms_norm
from minigrad_nn.masks import causal_mask, padding_mask, position_ids
from minigrad_nn.rope import rope_at, rope_table, rotate_half_split, rotate_interleaved
from test_attention import SPLITS, attention_by_loops, sample

HEADS, KV_HEADS, HEAD_DIM, C = 4, 2, 6, 10


def weights(seed=0, dtype=np.float64, biases=False, qk_norm=True):
    """Drawn small, so that every position counts."""
    sizes = {"q": (C, HEADS * HEAD_DIM), "k": (C, KV_HEADS * HEAD_DIM), "v": (C, KV_HEADS * HEAD_DIM),
             "o": (HEADS * HEAD_DIM, C)}
    if biases:
        sizes |= {f"{name}_bias": shape[1:] for name, shape in sizes.items()}
    if qk_norm:
        sizes |= {"q_norm": (HEAD_DIM,), "k_norm": (HEAD_DIM,)}
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape, scale=0.5).astype(dtype) for name, shape in sizes.items()}


def heads_of(x, count):
    return x.reshape(*x.shape[:-1], count, HEAD_DIM).swapaxes(-2, -3)


@pytest.mark.parametrize("rotate", [rotate_half_split, rotate_interleaved])
@pytest.mark.parametrize("norm", [rms_norm, zero_centred_rms_norm])
def test_multi_head_attention_norms_then_rotates_then_attends(norm, rotate):
    x, w, mask = sample(2, 5, C), weights(biases=True), causal_mask(5)
    table = rope_table(5, HEAD_DIM, dtype=np.float64)
    out, (k, v) = multi_head_attention(x, w, HEAD_DIM, mask, table, table, rotate=rotate, norm=norm)
    for b in range(2):
        q = heads_of(x[b] @ w["q"] + w["q_bias"], HEADS)
        wanted_k = rotate(norm(heads_of(x[b] @ w["k"] + w["k_bias"], KV_HEADS), w["k_norm"]), *table)
        wanted_v = heads_of(x[b] @ w["v"] + w["v_bias"], KV_HEADS)
        np.testing.assert_allclose(k[b], wanted_k, rtol=1e-12)
        np.testing.assert_allclose(v[b], wanted_v, rtol=1e-12)
        q = rotate(norm(q, w["q_norm"]), *table)
        mixed = attention_by_loops(q, wanted_k, wanted_v, np.broadcast_to(mask, (HEADS, 5, 5)))
        wanted = mixed.swapaxes(0, 1).reshape(5, -1) @ w["o"] + w["o_bias"]
        np.testing.assert_allclose(out[b], wanted, rtol=1e-11, atol=1e-13)
    norm_last = norm(rotate(heads_of(x @ w["k"] + w["k_bias"], KV_HEADS), *table), w["k_norm"])
    assert np.max(np.abs(norm_last - k)) > 0.1


@pytest.mark.parametrize("how", ["eager", "recomputed", "numpy", "llvm"])
def test_weights_dropped_in_training(how):
    """Against central differences, the same draws each time; a compiled layer draws anew at every call."""
    if how == "llvm":
        pytest.importorskip("llvmlite")
    x, direction, g = (sample(2, 3, C, seed=seed) for seed in range(3))

    def layer(x, rng):
        attend = partial(attention_with_dropout, rate=0.4, rng=rng)
        return multi_head_attention(x, weights(), HEAD_DIM, causal_mask(3), attend=attend)[0]

    def gradient(x, rng):
        f = minigrad.checkpoint(layer) if how == "recomputed" else layer
        return minigrad.grad(lambda x: np.sum(f(x, rng) * g), x)

    if how in ("numpy", "llvm"):
        gradient = minigrad.compile(gradient, backend=how)
    rng, step = np.random.default_rng(3), 1e-5
    gradients = [gradient(x, rng), gradient(x, rng)]
    drawn = np.random.default_rng(3)
    for got in gradients:
        state = drawn.bit_generator.state
        ends = []
        for sign in (1, -1):
            drawn.bit_generator.state = state
            ends.append(np.sum(layer(x + sign * step * direction, drawn) * g))
        np.testing.assert_allclose(np.sum(got * direction), (ends[0] - ends[1]) / (2 * step), rtol=1e-7)
    assert not np.allclose(*gradients)
    assert rng.bit_generator.state == drawn.bit_generator.state


def test_nothing_dropped_is_attention():
    given = sample(2, 3, C), weights(), HEAD_DIM, causal_mask(3)
    got, _ = multi_head_attention(*given, attend=partial(attention_with_dropout, rate=0, rng=None))
    np.testing.assert_array_equal(got, multi_head_attention(*given)[0])


def test_rope_on_the_keys_only():
    x, w, table = sample(2, 5, C), weights(), rope_table(5, HEAD_DIM, dtype=np.float64)
    out, (k, _) = multi_head_attention(x, w, HEAD_DIM, k_rope=table)
    both, (k_both, _) = multi_head_attention(x, w, HEAD_DIM, q_rope=table, k_rope=table)
    none, (k_none, _) = multi_head_attention(x, w, HEAD_DIM)
    still = rope_at(np.zeros(5, int), HEAD_DIM, dtype=np.float64)
    same, _ = multi_head_attention(x, w, HEAD_DIM, q_rope=still, k_rope=table)
    assert np.array_equal(k, k_both) and not np.allclose(k, k_none)
    np.testing.assert_allclose(out, same, rtol=1e-13)
    assert min(np.max(np.abs(out - both)), np.max(np.abs(out - none))) > 1e-3


def test_cross_attention_takes_keys_and_values_from_the_context():
    x, context, w = sample(2, 3, C), sample(2, 7, C, seed=1), weights(qk_norm=False)
    mask = padding_mask(np.array([[1] * 7, [1] * 4 + [0] * 3]), 0)
    out, (k, v) = multi_head_attention(x, w, HEAD_DIM, mask, context=context)
    assert k.shape == v.shape == (2, KV_HEADS, 7, HEAD_DIM)
    context[1, 4:] = np.nan
    again, _ = multi_head_attention(x, w, HEAD_DIM, mask, context=context)
    alone, _ = multi_head_attention(x[1], w, HEAD_DIM, context=context[1, :4])
    assert np.array_equal(again, out)
    np.testing.assert_allclose(out[1], alone, rtol=1e-12, atol=1e-14)
    same, _ = multi_head_attention(x, w, HEAD_DIM, context=x)
    assert np.array_equal(same, multi_head_attention(x, w, HEAD_DIM)[0])


@pytest.mark.parametrize("rotate", [rotate_half_split, rotate_interleaved])
@pytest.mark.parametrize("split", SPLITS)
def test_decoding_with_a_cache_equals_the_full_pass(split, rotate):
    x, w = sample(2, 5, C), weights(biases=True)
    table = rope_table(5, HEAD_DIM, dtype=np.float64)
    full, full_cache = multi_head_attention(x, w, HEAD_DIM, causal_mask(5), table, table, rotate=rotate)
    cache, past, pieces = None, 0, []
    for length in split:
        rope = rope_table(length, HEAD_DIM, offset=past, dtype=np.float64)
        before = None if cache is None else [array.copy() for array in cache]
        mask = causal_mask(length, past)
        piece, grown = multi_head_attention(
            x[:, past:past + length], w, HEAD_DIM, mask, rope, rope, cache, rotate=rotate)
        if before is not None:
            assert all(np.array_equal(was, now) for was, now in zip(before, cache, strict=True))
        pieces.append(piece)
        cache, past = grown, past + length
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), full, rtol=0, atol=1e-12)
    for got, wanted in zip(cache, full_cache, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_a_row_padded_on_the_left_gets_what_it_gets_alone():
    w, x = weights(), sample(2, 5, C)
    real = np.array([[False, False, True, True, True], [True] * 5])
    x[0, :2] = np.nan
    rope = rope_at(position_ids(real)[:, None], HEAD_DIM, dtype=np.float64)
    mask = causal_mask(5) & padding_mask(real, False)
    out, _ = multi_head_attention(x, w, HEAD_DIM, mask, rope, rope)
    for b, start in enumerate((2, 0)):
        table = rope_table(5 - start, HEAD_DIM, dtype=np.float64)
        alone, _ = multi_head_attention(x[b, start:], w, HEAD_DIM, causal_mask(5 - start), table, table)
        np.testing.assert_allclose(out[b, start:], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1, 5, 32])
def test_multi_head_attention_on_a_batch_is_that_of_each_sequence(length, dtype):
    """Bit for bit."""
    x, w = sample(3, length, C).astype(dtype), weights(dtype=dtype, biases=True)
    table = rope_table(length, HEAD_DIM, dtype=dtype)
    out, cache = multi_head_attention(x, w, HEAD_DIM, causal_mask(length), table, table)
    assert out.dtype == cache[0].dtype == cache[1].dtype == dtype
    for b in range(3):
        alone, alone_cache = multi_head_attention(x[b], w, HEAD_DIM, causal_mask(length), table, table)
        assert np.array_equal(out[b], alone)
        assert all(np.array_equal(got[b], want) for got, want in zip(cache, alone_cache, strict=True))


def without(name):
    return {key: value for key, value in weights().items() if key != name}


def call_with(x=None, **arguments):
    return multi_head_attention(sample(2, 5, C) if x is None else x, weights(), HEAD_DIM, **arguments)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: multi_head_attention(sample(5, C), without("k"), HEAD_DIM), MinigradError,
     r"multi_head_attention: weights should have \['k', 'o', 'q', 'v'\].*got \['k_norm', 'o', "),
    (lambda: multi_head_attention(sample(5, C), weights() | {"q_nrom": 1}, HEAD_DIM), MinigradError,
     r"multi_head_attention: .*may have .*'q_norm'.*got .*'q_nrom'"),
    (lambda: multi_head_attention(sample(5, C), weights(), 0), ShapeError, "head_dim should be at least 1, got 0"),
    (lambda: multi_head_attention(sample(5, C), weights(), 5), ShapeError,
     r"multi_head_attention: weights\['q'\] should be \(C, heads \* head_dim\) .* 5, got \(10, 24\)"),
    (lambda: call_with(sample(2, 5, 9)), ShapeError,
     r"linear: x should be \(..., C\) .*got x \(2, 5, 9\) and weight \(10, 24\)"),
    (lambda: call_with(cache=(sample(2, KV_HEADS, 3, 4), sample(2, KV_HEADS, 3, 4))), ShapeError,
     r"multi_head_attention: k of the cache should be \(2, 2, past, 6\) .*got \(2, 2, 3, 4\)"),
    (lambda: call_with(q_rope=rope_table(4, HEAD_DIM)), ShapeError, r"rotate_half_split: .*cos \(4, 3\)"),
])
def test_errors_say_what_was_wanted_and_what_came(call, error, message):
    with pytest.raises(error, match=message):
        call()
