"""The decoder model: against a plain loop, in pieces, padded, and its gradient against differences."""

import math
from dataclasses import replace

import numpy as np
import pytest

import minigrad
from minigrad import tree
from minigrad.errors import ShapeError
from minigrad_nn import model
from minigrad_nn.init import init, template
from minigrad_nn.layers import cross_entropy, embedding, rms_norm
from minigrad_nn.masks import sliding_window_mask
from minigrad_nn.model import Config, ConfigError, block, decode, logits, loss
from minigrad_nn.rope import rope_table
from numeric import assert_close, central_difference, inner, random_like, relative_error

SMALL = Config(vocab_size=11, n_layer=2, width=12, n_head=4, n_kv_head=2, head_dim=6, hidden=10, context=8)
VARIANTS = {
    "as it is": SMALL,
    "untied": replace(SMALL, tied=False),
    "without QK-norm": replace(SMALL, qk_norm=False),
    "one key head": replace(SMALL, n_kv_head=1),
    "a key head each": replace(SMALL, n_kv_head=4),
    "other constants": replace(SMALL, theta=100.0, norm_eps=1e-3),
}


def float64_params(config, seed=0):
    """Parameters with gains that are not 1, so that a forgotten gain shows."""
    rng = np.random.default_rng(seed)
    return tree.map(lambda p: p + 0.3 * rng.normal(size=p.shape), init(config, rng, np.float64))


def random_ids(config, *shape, seed=1):
    return np.random.default_rng(seed).integers(config.vocab_size, size=shape)


# ---- the forward function ----------------------------------------------------------------------------------


def plain_logits(params, ids, config):
    """One sequence, position by position and head by head, written from the papers."""
    def norm(x, gain):
        return x / math.sqrt((x @ x) / len(x) + config.norm_eps) * gain

    def rotate(x, position):
        half = config.head_dim // 2
        y = np.empty_like(x)
        for j in range(half):
            angle = position * config.theta ** (-2 * j / config.head_dim)
            a, b = x[j], x[j + half]
            y[j] = a * math.cos(angle) - b * math.sin(angle)
            y[j + half] = b * math.cos(angle) + a * math.sin(angle)
        return y

    def heads(x, weight, gain, position):
        split = (x @ weight).reshape(-1, config.head_dim)
        if gain is None:
            return split
        return np.array([rotate(norm(head, gain) if config.qk_norm else head, position) for head in split])

    stream = [params["embedding"][token] for token in ids]
    for layer in params["blocks"]:
        w, mlp = layer["attention"], layer["mlp"]
        normed = [norm(x, layer["attention_norm"]) for x in stream]
        q = [heads(x, w["q"], w.get("q_norm", 1), t) for t, x in enumerate(normed)]
        k = [heads(x, w["k"], w.get("k_norm", 1), t) for t, x in enumerate(normed)]
        v = [heads(x, w["v"], None, t) for t, x in enumerate(normed)]
        for t, x in enumerate(stream):
            out = []
            for head in range(config.n_head):
                shared = head // (config.n_head // config.n_kv_head)
                scores = [q[t][head] @ k[s][shared] / math.sqrt(config.head_dim) for s in range(t + 1)]
                weights = np.exp(scores) / np.sum(np.exp(scores))
                out.append(sum(weights[s] * v[s][shared] for s in range(t + 1)))
            h = x + np.concatenate(out) @ w["o"]
            inside = norm(h, layer["mlp_norm"])
            gate, up = inside @ mlp["gate"], inside @ mlp["up"]
            stream[t] = h + (gate / (1 + np.exp(-gate)) * up) @ mlp["down"]
    head = params["embedding"].T if config.tied else params["head"]
    return np.array([norm(x, params["norm"]) @ head for x in stream])


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_logits_are_those_of_a_plain_loop(config):
    params, ids = float64_params(config), random_ids(config, 3, 7)
    got = logits(params, ids, config)
    assert got.shape == (3, 7, config.vocab_size)
    for row, sequence in zip(got, ids, strict=True):
        np.testing.assert_allclose(row, plain_logits(params, sequence, config), rtol=1e-11, atol=1e-12)


def test_a_sequence_of_a_batch_gets_what_it_gets_alone():
    params, ids = float64_params(SMALL), random_ids(SMALL, 2, 3, 5)
    np.testing.assert_allclose(logits(params, ids, SMALL)[1, 2], logits(params, ids[1, 2], SMALL), rtol=1e-12)


def test_a_position_never_sees_a_later_one():
    params, ids = float64_params(SMALL), random_ids(SMALL, 1, 8)
    other = ids.copy()
    other[0, 5] = (other[0, 5] + 1) % SMALL.vocab_size
    before, after = logits(params, ids, SMALL)[0], logits(params, other, SMALL)[0]
    np.testing.assert_array_equal(before[:5], after[:5])
    assert np.all(np.any(before[5:] != after[5:], axis=-1))


def test_float32_stays_float32():
    params = init(SMALL, np.random.default_rng(0))
    ids = random_ids(SMALL, 2, 9)
    assert logits(params, ids[:, :-1], SMALL).dtype == np.float32
    value, grads = minigrad.value_and_grad(loss, params, ids[:, :-1], ids[:, 1:], SMALL)
    assert value.dtype == np.float32
    assert {leaf.dtype for leaf in tree.leaves(grads)} == {np.dtype(np.float32)}


def test_the_loss_is_the_cross_entropy_of_the_logits_with_ignored_targets_left_out():
    params, ids = float64_params(SMALL), random_ids(SMALL, 2, 5)
    targets = random_ids(SMALL, 2, 5, seed=2)
    targets[0, 1:] = -100
    wanted = cross_entropy(np.concatenate(logits(params, ids, SMALL))[[0, 5, 6, 7, 8, 9]],
                           targets.ravel()[[0, 5, 6, 7, 8, 9]])
    assert loss(params, ids, targets, SMALL) == pytest.approx(wanted, rel=1e-12)


def test_the_tables_are_made_once_per_length_not_once_per_layer_or_step(monkeypatch):
    made = []

    def counting(make):
        def made_once(*args, **kwargs):
            made.append(make.__name__)
            return make(*args, **kwargs)
        return made_once

    model._rope.cache_clear()
    model._causal.cache_clear()
    monkeypatch.setattr(model, "rope_table", counting(model.rope_table))
    monkeypatch.setattr(model, "causal_mask", counting(model.causal_mask))
    params = init(SMALL, np.random.default_rng(0))
    for seed in range(3):
        logits(params, random_ids(SMALL, 2, 5, seed=seed), SMALL)
    assert sorted(made) == ["causal_mask", "rope_table"]


# ---- its gradient ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_the_generated_gradient_is_that_of_central_differences(config):
    params = float64_params(config)
    ids, targets = random_ids(config, 2, 5), random_ids(config, 2, 5, seed=2)
    value, grads = minigrad.value_and_grad(loss, params, ids, targets, config)
    assert value == pytest.approx(loss(params, ids, targets, config), rel=1e-13)
    rng = np.random.default_rng(3)
    for _ in range(3):
        direction = random_like(params, rng)
        wanted = central_difference(lambda p: loss(p, ids, targets, config), (params,), (direction,), step=1e-4)
        assert relative_error(inner(grads, direction), wanted) < 1e-6


def test_every_parameter_gets_a_gradient():
    params, ids = float64_params(SMALL), random_ids(SMALL, 4, 9)
    _, grads = minigrad.value_and_grad(loss, params, ids[:, :-1], ids[:, 1:], SMALL)
    assert tree.structure(grads) == tree.structure(params)
    assert all(np.any(leaf) for leaf in tree.leaves(grads))


def test_the_gradient_of_a_tied_weight_is_the_sum_over_both_uses():
    untied = replace(SMALL, tied=False)
    params, ids, targets = float64_params(SMALL), random_ids(SMALL, 2, 5), random_ids(SMALL, 2, 5, seed=2)
    _, once = minigrad.value_and_grad(loss, params, ids, targets, SMALL)
    split = params | {"head": params["embedding"].T.copy()}
    _, twice = minigrad.value_and_grad(loss, split, ids, targets, untied)
    assert_close(once["embedding"], twice["embedding"] + twice["head"].T, 1e-12)
    assert_close(once["blocks"], twice["blocks"], 1e-12)


# ---- piece by piece ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [[8], [3, 5], [7, 1], [1] * 8, [2, 1, 4, 1], [6, 6], [0, 3, 0, 2]])
def test_decoding_in_pieces_equals_the_full_pass(pieces):
    params, ids = float64_params(SMALL), random_ids(SMALL, 3, sum(pieces))
    full = logits(params, ids, SMALL)
    got, cache = [], None
    for piece in np.split(ids, np.cumsum(pieces)[:-1], axis=1):
        scores, cache = decode(params, piece, SMALL, cache)
        got.append(scores)
    np.testing.assert_allclose(np.concatenate(got, axis=1), full, rtol=1e-12, atol=1e-12)
    assert {part.shape for pair in cache.layers for part in pair} == {(3, 2, sum(pieces), 6)}
    assert cache.held == cache.position == sum(pieces)


def test_decoding_leaves_the_cache_it_was_given_alone():
    params, ids = float64_params(SMALL), random_ids(SMALL, 1, 6)
    _, cache = decode(params, ids[:, :4], SMALL)
    before = [part.copy() for part in tree.leaves(cache.layers)]
    first, _ = decode(params, ids[:, 4:], SMALL, cache)
    again, _ = decode(params, ids[:, 4:], SMALL, cache)
    np.testing.assert_array_equal(first, again)
    for old, new in zip(before, tree.leaves(cache.layers), strict=True):
        np.testing.assert_array_equal(old, new)


def masked_logits(params, ids, config, mask):
    """The full pass in which each position sees what the mask says."""
    rope = rope_table(ids.shape[-1], config.head_dim, config.theta, dtype=np.float64)
    x = embedding(params["embedding"], ids)
    for layer in params["blocks"]:
        x, _ = block(x, layer, config.head_dim, mask, rope)
    return rms_norm(x, params["norm"]) @ params["embedding"].T


def test_after_eviction_positions_go_on_counting():
    """The last 3 of 10 tokens are held: the next one is at position 10, not 3."""
    params, ids = float64_params(SMALL), random_ids(SMALL, 2, 14)
    _, cache = decode(params, ids[:, :4], SMALL)
    got = []
    for t in range(4, 14):
        cache = cache.last(3)
        assert (cache.held, cache.position) == (3, t)
        scores, cache = decode(params, ids[:, t : t + 1], SMALL, cache)
        got.append(scores)
    wanted = masked_logits(params, ids, SMALL, sliding_window_mask(14, 4))
    np.testing.assert_allclose(np.concatenate(got, axis=1), wanted[:, 4:], rtol=1e-12, atol=1e-12)


def test_several_tokens_after_eviction_see_what_is_held_and_each_other_backwards():
    params, ids = float64_params(SMALL), random_ids(SMALL, 2, 9)
    _, cache = decode(params, ids[:, :5], SMALL)
    got, _ = decode(params, ids[:, 5:], SMALL, cache.last(2))
    mask = np.tri(9, dtype=bool)
    mask[5:, :3] = False
    np.testing.assert_allclose(got, masked_logits(params, ids, SMALL, mask)[:, 5:], rtol=1e-12, atol=1e-12)


def test_a_cache_shorter_than_the_window_is_kept_whole():
    _, cache = decode(float64_params(SMALL), random_ids(SMALL, 1, 3), SMALL)
    assert cache.last(3) is cache
    assert cache.last(0).held == 0


def test_a_prompt_padded_on_the_left_gets_the_logits_it_gets_alone():
    params = float64_params(SMALL)
    ids = np.array([[0, 0, 4, 7, 2], [3, 1, 5, 9, 10]])
    real = np.array([[False, False, True, True, True], [True] * 5])
    padded, cache = decode(params, ids, SMALL, real=real)
    assert np.isfinite(padded).all()
    np.testing.assert_allclose(padded[0, 2:], logits(params, ids[0, 2:], SMALL), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(padded[1], logits(params, ids[1], SMALL), rtol=1e-12, atol=1e-12)

    # the next positions are 3 and 5: each row counts its own tokens
    new = np.array([[6, 8], [8, 6]])
    more, _ = decode(params, new, SMALL, cache, np.pad(real, ((0, 0), (0, 2)), constant_values=True))
    whole = [np.concatenate([ids[0, 2:], new[0]]), np.concatenate([ids[1], new[1]])]
    for row, sequence in zip(more, whole, strict=True):
        np.testing.assert_allclose(row, logits(params, sequence, SMALL)[-2:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("real", [np.ones((1, 4), bool), np.ones((1, 5)), np.ones(5, bool)])
def test_what_does_not_say_which_tokens_are_real_is_refused(real):
    with pytest.raises(ShapeError, match=r"decode: real should be \(1, 5\) bool"):
        decode(float64_params(SMALL), random_ids(SMALL, 1, 5), SMALL, real=real)


# ---- sizes and first parameters ----------------------------------------------------------------------------


def test_the_default_sizes():
    config = Config(vocab_size=65)
    assert (config.hidden_size, config.q_size, config.kv_size) == (384, 128, 64)
    assert replace(config, head_dim=64).q_size == 2 * config.width


@pytest.mark.parametrize(("change", "says"), [
    ({"n_kv_head": 3}, r"n_head should be a multiple of n_kv_head; got 4 and 3"),
    ({"head_dim": 7}, "head_dim should be even, got 7"),
    ({"width": 0}, "width should be a positive integer, got 0"),
    ({"n_layer": 2.0}, r"n_layer should be a positive integer, got 2\.0"),
    ({"vocab_size": -1}, "vocab_size should be a positive integer"),
    ({"hidden": 0}, "hidden should be a positive integer or None, got 0"),
    ({"norm_eps": 0.0}, "theta and norm_eps should be positive"),
    ({"theta": math.nan}, "theta and norm_eps should be positive"),
    ({"theta": math.inf}, "theta and norm_eps should be positive and finite"),
    ({"tied": "no"}, "tied should be True or False, got 'no'"),
])
def test_sizes_that_make_no_model_are_refused(change, says):
    with pytest.raises(ConfigError, match=says):
        replace(SMALL, **change)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_init_has_the_shapes_of_the_template(config):
    params, like = init(config, np.random.default_rng(0)), template(config)
    assert tree.structure(params) == tree.structure(like)
    assert [p.shape for p in tree.leaves(params)] == [p.shape for p in tree.leaves(like)]
    assert {p.dtype for p in tree.leaves(params)} == {np.dtype(np.float32)}
    assert ("head" in params) is not config.tied
    assert ("q_norm" in params["blocks"][0]["attention"]) is config.qk_norm


def test_init_repeats_with_its_seed_and_shares_no_memory():
    first, second = init(SMALL, np.random.default_rng(5)), init(SMALL, np.random.default_rng(5))
    assert_close(first, second, 0.0)
    assert len({id(leaf) for leaf in tree.leaves(first)}) == len(tree.leaves(first))
    assert np.any(first["blocks"][0]["mlp"]["up"] != first["blocks"][1]["mlp"]["up"])


def test_init_begins_at_the_loss_of_guessing():
    config = Config(vocab_size=65)
    params = init(config, np.random.default_rng(0))
    ids = random_ids(config, 8, 65)
    assert loss(params, ids[:, :-1], ids[:, 1:], config) == pytest.approx(math.log(65), rel=0.2)


def test_the_block_runs_without_mask_and_without_rope():
    params = float64_params(SMALL)
    x = embedding(params["embedding"], random_ids(SMALL, 2, 4))
    out, (k, v) = block(x, params["blocks"][0], SMALL.head_dim)
    assert out.shape == x.shape
    assert k.shape == v.shape == (2, 2, 4, 6)
    # without a position every order of the tokens is the same set
    turned, _ = block(x[:, ::-1], params["blocks"][0], SMALL.head_dim)
    np.testing.assert_allclose(turned[:, ::-1], out, rtol=1e-12, atol=1e-12)
