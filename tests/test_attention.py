"""Attention: against loops over heads and positions, published numbers, masks, caches and errors."""

import tracemalloc

import numpy as np
import pytest

import minigrad
from minigrad.errors import DtypeError, ShapeError
from minigrad_nn.attention import (
    attention_scores,
    attention_weights,
    causal_attention,
    causal_attention_weights,
    masked_softmax,
    repeat_kv,
    scaled_dot_product_attention,
)
from minigrad_nn.masks import additive_mask, causal_mask, sliding_window_mask
from minigrad_nn.rope import rope_table, rotate_half_split


def sample(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).round(2)


def attention_by_loops(q, k, v, mask=None):
    """One query at a time: q (H, T, D), k and v (K, S, D), mask (H, T, S)."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for h in range(q.shape[0]):
        shared = h // (q.shape[0] // k.shape[0])
        for t in range(q.shape[1]):
            seen = [s for s in range(k.shape[1]) if mask is None or mask[h, t, s]]
            e = np.array([np.exp(q[h, t] @ k[shared, s] / np.sqrt(q.shape[-1])) for s in seen])
            for weight, s in zip(e / e.sum(), seen, strict=True):
                out[h, t] += weight * v[shared, s]
    return out


# ---- scaled dot-product attention ----------------------------------------------------------------


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 2), (4, 1), (1, 1)])
def test_multi_head_grouped_and_multi_query_are_one_function(heads, kv_heads):
    q, k, v = sample(2, heads, 3, 4), sample(2, kv_heads, 5, 4, seed=1), sample(2, kv_heads, 5, 6, seed=2)
    mask = np.random.default_rng(3).random((2, heads, 3, 5)) < 0.6
    mask[..., 0] = True
    got, masked = scaled_dot_product_attention(q, k, v), scaled_dot_product_attention(q, k, v, mask)
    for b in range(2):
        np.testing.assert_allclose(got[b], attention_by_loops(q[b], k[b], v[b]), rtol=1e-12)
        np.testing.assert_allclose(masked[b], attention_by_loops(q[b], k[b], v[b], mask[b]), rtol=1e-12)
    groups = heads // kv_heads
    repeated = scaled_dot_product_attention(q, repeat_kv(k, groups), repeat_kv(v, groups), mask)
    np.testing.assert_allclose(masked, repeated, rtol=1e-12)


def test_query_head_h_uses_key_head_h_over_the_group_size():
    q = (np.arange(16) / 10).reshape(1, 4, 2, 2)
    k = np.array([[[[1.0, 0], [0, 1]], [[-1, 2], [3, 0]]]])
    v = np.array([[[[1.0, 10], [2, 20]], [[100, 3], [200, 4]]]])
    right = [[[[1.517670308, 15.17670308], [1.517670308, 15.17670308]],
              [[1.517670308, 15.17670308], [1.517670308, 15.17670308]],
              [[172.9077946, 3.729077946], [178.1220353, 3.781220353]],
              [[182.57261, 3.8257261], [186.276856, 3.86276856]]]]
    tiled_head_1 = [[160.4503152, 3.604503152], [166.9761549, 3.669761549]]
    out = scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(out, right, rtol=5e-10)
    assert np.max(np.abs(out[0, 1] - tiled_head_1)) > 1
    tiled = scaled_dot_product_attention(q, np.tile(k, (1, 2, 1, 1)), np.tile(v, (1, 2, 1, 1)))
    np.testing.assert_allclose(tiled[0, 1], tiled_head_1, rtol=5e-10)
    assert repeat_kv(np.arange(2).reshape(1, 2, 1, 1), 2).ravel().tolist() == [0, 0, 1, 1]


def test_no_key_is_copied_per_query_head():
    q, k, v = sample(16, 1, 32), sample(1, 4000, 32), sample(1, 4000, 32)
    scaled_dot_product_attention(q, k, v)
    tracemalloc.start()
    try:
        scaled_dot_product_attention(q, k, v)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    scores = 16 * 4000 * 8
    assert peak < 5 * scores  # a copy of k for each query head is 32 times the scores


def test_heads_are_optional_and_weights_are_what_mixes_the_values():
    q, k, v = sample(3, 4), sample(5, 4, seed=1), sample(5, 2, seed=2)
    np.testing.assert_allclose(attention_scores(q, k), q @ k.T / 2, rtol=1e-14)
    weights = attention_weights(q, k)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-12)
    assert np.array_equal(scaled_dot_product_attention(q, k, v), weights @ v)
    grouped = attention_weights(sample(4, 3, 4), sample(2, 5, 4, seed=1))
    repeated = attention_weights(sample(4, 3, 4), repeat_kv(sample(2, 5, 4, seed=1), 2))
    np.testing.assert_allclose(grouped, repeated, rtol=1e-12)


# ---- masks ---------------------------------------------------------------------------------------


def test_masked_softmax_with_boolean_and_with_added_masks():
    scores, mask = 300 * sample(2, 3, 4, 5), causal_mask(4, past=1)
    got = masked_softmax(scores, mask)
    assert np.all(got[..., ~mask] == 0)
    np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-12)
    assert np.array_equal(masked_softmax(scores, additive_mask(mask, np.float64)), got)
    assert np.array_equal(masked_softmax(scores, np.where(mask, 0.0, -1e30)), got)
    assert np.array_equal(masked_softmax(scores), masked_softmax(scores, np.ones((1, 1), bool)))
    np.testing.assert_allclose(masked_softmax(np.zeros(2), np.log([0.25, 0.75])), [0.25, 0.75])


@pytest.mark.parametrize("as_mask", [lambda mask: mask, additive_mask])
def test_a_row_with_nothing_to_attend_to_gives_zeros(as_mask):
    mask = causal_mask(3)
    mask[1] = False
    q, k, v = sample(2, 3, 4), sample(2, 3, 4, seed=1), sample(2, 3, 4, seed=2)
    with np.errstate(all="raise"):
        weights = attention_weights(q, k, as_mask(mask))
        out = scaled_dot_product_attention(q, k, v, as_mask(mask))
        nothing = scaled_dot_product_attention(q, k, v, as_mask(np.zeros((3, 3), bool)))
    assert np.all(weights[:, 1] == 0) and np.all(out[:, 1] == 0) and np.all(nothing == 0)
    np.testing.assert_allclose(weights[:, [0, 2]].sum(-1), 1, rtol=1e-12)


@pytest.mark.parametrize("as_mask", [lambda mask: mask, additive_mask])
@pytest.mark.parametrize("shape", [(1, 5), (3, 5), (2, 1, 1, 5), (2, 4, 3, 5)])
def test_nan_in_a_key_or_value_that_nothing_attends_to_is_not_seen(shape, as_mask):
    q, k, v = sample(2, 4, 3, 6), sample(2, 2, 5, 6, seed=1), sample(2, 2, 5, 6, seed=2)
    mask = np.ones(shape, bool)
    mask[..., 1] = mask[..., 4] = False
    clean = scaled_dot_product_attention(q, k, v, as_mask(mask))
    k[..., 1, :], v[..., 4, :] = np.nan, np.inf
    k[..., 4, 0], v[..., 1, 0] = -np.inf, np.nan
    assert np.array_equal(scaled_dot_product_attention(q, k, v, as_mask(mask)), clean)
    assert np.all(attention_weights(q, k, as_mask(mask))[..., [1, 4]] == 0)


def test_nan_in_a_key_that_one_head_attends_to_is_seen_by_its_group_only():
    q, k, v = sample(4, 3, 6), sample(2, 5, 6, seed=1), sample(2, 5, 6, seed=2)
    mask = np.ones((4, 3, 5), bool)
    mask[:, :, 2] = False
    mask[2, 0, 2] = True
    v[:, 2] = np.nan
    out = scaled_dot_product_attention(q, k, v, mask)
    assert np.isfinite(out[:2]).all()
    assert np.isnan(out[2, 0]).all()


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("as_mask", [lambda mask: mask, additive_mask])
def test_a_mask_may_be_an_argument_of_a_compiled_function(backend, as_mask):
    """One program for all batches, whatever is padding in each: NaN behind the mask is not seen either."""
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    rng = np.random.default_rng(5)

    def pulled(q, k, v, mask, g):
        out, pull = minigrad.vjp(lambda q, k, v: scaled_dot_product_attention(q, k, v, mask), q, k, v)
        return out, *pull(g)

    compiled = minigrad.compile(pulled, backend=backend)
    shapes = (2, 4, 3, 6), (2, 2, 5, 6), (2, 2, 5, 3), (2, 4, 3, 3)
    for padding in ([0, 0], [2, 0], [1, 5]):
        q, k, v, g = (rng.normal(size=shape) for shape in shapes)
        mask = causal_mask(3, past=2) & (np.arange(5) >= np.array(padding)[:, None, None, None])
        wanted = pulled(q, k, v, as_mask(mask), g)
        for row, n in enumerate(padding):
            k[row, :, :n], v[row, :, :n] = np.nan, np.inf
        for got, value in zip(compiled(q, k, v, as_mask(mask), g), wanted, strict=True):
            np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("how", ["eager", "numpy", "llvm"])
@pytest.mark.parametrize("mask", [None, np.ones((3, 0), bool)])
def test_without_a_key_every_query_gets_zeros(how, mask):
    if how == "llvm":
        pytest.importorskip("llvmlite")

    def pulled(q, k, v, g):
        out, pull = minigrad.vjp(lambda q, k, v: scaled_dot_product_attention(q, k, v, mask), q, k, v)
        return out, *pull(g)

    call = pulled if how == "eager" else minigrad.compile(pulled, backend=how)
    q, k, v = sample(2, 4, 3, 6), sample(2, 2, 0, 6), sample(2, 2, 0, 5)
    out, dq, dk, dv = call(q, k, v, sample(2, 4, 3, 5))
    assert np.array_equal(out, np.zeros((2, 4, 3, 5)))
    assert np.array_equal(dq, np.zeros_like(q))
    assert (dk.shape, dv.shape) == (k.shape, v.shape)


def test_masked_key_of_nan_leaves_the_other_value():
    k, v = np.array([[1.0, 2], [np.nan, np.nan]]), np.array([[3.0, 4], [5, 6]])
    out = scaled_dot_product_attention(np.ones((3, 2)), k, v, np.array([True, False]))
    assert np.array_equal(out, [v[0]] * 3)


# ---- one causal head -----------------------------------------------------------------------------


def head(seed=0):
    return sample(5, 5, seed=seed), *(sample(5, 3, seed=seed + n) for n in (19, 37, 59))


def test_causal_attention_looks_only_backwards_and_its_weights_are_a_distribution():
    x, wq, wk, wv = head()
    weights = causal_attention_weights(x, wq, wk)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-12)
    assert np.all(weights[~np.tri(5, dtype=bool)] == 0)
    assert weights[0, 0] == 1
    assert np.array_equal(causal_attention(x, wq, wk, wv), weights @ (x @ wv))
    wanted = attention_by_loops((x @ wq)[None], (x @ wk)[None], (x @ wv)[None], causal_mask(5)[None])
    np.testing.assert_allclose(causal_attention(x, wq, wk, wv), wanted[0], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_a_batch_each_sequence_gets_what_it_gets_alone(dtype):
    x = sample(3, 5, 5, seed=7).astype(dtype)
    wq, wk, wv = (w.astype(dtype) for w in head()[1:])
    y, weights = causal_attention(x, wq, wk, wv), causal_attention_weights(x, wq, wk)
    assert y.dtype == weights.dtype == dtype
    for b in range(3):
        assert np.array_equal(y[b], causal_attention(x[b], wq, wk, wv))
        assert np.array_equal(weights[b], causal_attention_weights(x[b], wq, wk))


# ---- the cache -----------------------------------------------------------------------------------

Q = np.array([[0.13, -0.13, 0.64, 0.1], [-0.54, 0.36, 1.3, 0.95], [-0.7, -1.27, -0.62, 0.04],
              [-2.33, -0.22, -1.25, -0.73], [-0.54, -0.32, 0.41, 1.04]])
K = np.array([[-0.13, 1.37, -0.67, 0.35], [0.9, 0.09, -0.74, -0.92], [-0.46, 0.22, -1.01, -0.21],
              [-0.16, 0.54, 0.21, 0.36], [-0.65, -0.13, 0.78, 1.49]])
V = np.array([[-1.26, 1.51, 1.35, 0.78], [0.26, -0.31, 1.46, 1.96], [1.8, 1.32, 0.36, -1.21],
              [0, 0.66, -1.29, 0.4], [0.43, 0.7, -1.18, -0.66]])
FULL = np.array([[-1.26, 1.51, 1.35, 0.78], [-0.9957824511, 1.193634251, 1.369121007, 0.9851162551],
                 [0.7094003691, 0.6424544234, 0.9727316817, 0.4357782761],
                 [0.7169060596, 0.4015478756, 0.8723940348, 0.6945056794],
                 [0.378491946, 0.7695438925, -0.3023144723, -0.09089297918]])
SPLITS = [(5,), (3, 2), (1, 1, 1, 1, 1), (4, 1), (2, 3)]


@pytest.mark.parametrize("split", SPLITS)
def test_cached_and_chunked_decoding_give_the_published_rows(split):
    keys, rows, past = np.zeros((0, 4)), [], 0
    for length in split:
        new = slice(past, past + length)
        table = rope_table(length, 4, offset=past, dtype=np.float64)
        keys = np.concatenate([keys, rotate_half_split(K[new], *table)])
        q = rotate_half_split(Q[new], *table)
        rows.append(scaled_dot_product_attention(q, keys, V[: past + length], causal_mask(length, past)))
        past += length
    np.testing.assert_allclose(np.concatenate(rows), FULL, rtol=1e-8)


def test_a_mask_aligned_at_the_top_left_gives_the_wrong_rows():
    table = rope_table(5, 4, dtype=np.float64)
    q, k = rotate_half_split(Q, *table), rotate_half_split(K, *table)
    wrong = [[-1.26, 1.51, 1.35, 0.78], [-0.4766450273, 0.5720354932, 1.406690162, 1.388130834]]
    top_left = np.tri(2, 5, dtype=bool)
    np.testing.assert_allclose(scaled_dot_product_attention(q[3:], k, V, top_left), wrong, rtol=1e-8)
    right = scaled_dot_product_attention(q[3:], k, V, causal_mask(2, past=3))
    assert np.max(np.abs(right - wrong)) > 0.5


def test_after_eviction_the_position_counts_all_tokens_not_the_slots():
    """A rolling cache of the last 3 of 10 tokens: the next query is at position 10."""
    q, k, v = sample(11, 4, seed=1), sample(11, 4, seed=2), sample(11, 4, seed=3)
    table = rope_table(11, 4, dtype=np.float64)
    keys = rotate_half_split(k, *table)
    full = scaled_dot_product_attention(rotate_half_split(q, *table), keys, v, sliding_window_mask(11, 4))
    cached = slice(7, 11)

    def next_row(position):
        query = rotate_half_split(q[10:], *rope_table(1, 4, offset=position, dtype=np.float64))
        return scaled_dot_product_attention(query, keys[cached], v[cached])

    np.testing.assert_allclose(next_row(10), full[10:], rtol=1e-12)
    assert np.max(np.abs(next_row(3) - full[10])) > 1e-2


def test_a_float64_mask_leaves_float32_scores_float32():
    x, mask = sample(3, 3).astype(np.float32), np.where(causal_mask(3), 0.0, -np.inf)
    assert masked_softmax(x, mask).dtype == np.float32
    assert scaled_dot_product_attention(x, x, x, mask).dtype == np.float32


# ---- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: attention_scores(sample(3, 4), sample(5, 6)), ShapeError,
     r"attention_scores: q should be \(..., T, D\) and k \(..., S, D\) with one D, got \(3, 4\) and \("),
    (lambda: attention_scores(sample(3, 2, 4), sample(2, 5, 4)), ShapeError,
     r"attention_scores: the heads of q should be a multiple of those of k, got 3 in q .* and 2 in k"),
    (lambda: scaled_dot_product_attention(sample(3, 4), sample(5, 4), sample(4, 4)), ShapeError,
     r"scaled_dot_product_attention: v should have the axes of k \(5, 4\) but the last, got \(4, 4\)"),
    (lambda: masked_softmax(sample(3, 5), causal_mask(4)), ShapeError,
     r"masked_softmax: mask should broadcast to the scores \(3, 5\), got \(4, 4\)"),
    (lambda: masked_softmax(sample(3, 5), np.ones((1, 3, 5), bool)), ShapeError,
     r"masked_softmax: .*\(3, 5\), got \(1, 3, 5\)"),
    (lambda: masked_softmax(sample(3, 5), np.ones((3, 5), int)), DtypeError,
     r"masked_softmax: mask should be bool .*got int64; if 1 means attend: mask\.astype\(bool\)"),
    (lambda: scaled_dot_product_attention(*(sample(2, 3, 4),) * 3, causal_mask(3, past=1)), ShapeError,
     r"scaled_dot_product_attention: mask should broadcast to the scores \(2, 3, 3\), got \(3, 4\)"),
])
def test_errors_say_what_was_wanted_and_what_came(call, error, message):
    with pytest.raises(error, match=message):
        call()
