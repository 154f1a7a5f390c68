"""Choosing tokens, and continuing a text with and without the cache."""

import itertools

import numpy as np
import pytest

from minigrad import tree
from minigrad_nn import generate as module
from minigrad_nn.generate import (
    SamplingError,
    choose,
    continuations,
    draw,
    generate,
    generate_batch,
    top_k,
    top_p,
)
from minigrad_nn.init import init
from minigrad_nn.layers import embedding, rms_norm
from minigrad_nn.masks import sliding_window_mask
from minigrad_nn.model import Config, block
from minigrad_nn.rope import rope_table

CONFIG = Config(
    vocab_size=11, n_layer=2, width=12, n_head=4, n_kv_head=2, head_dim=6, hidden=10, context=8, tied=False
)


@pytest.fixture
def params():
    """A float64 model whose choices depend clearly on what it has read."""
    rng = np.random.default_rng(0)
    return tree.map(lambda p: p + 0.5 * rng.normal(size=p.shape), init(CONFIG, rng, np.float64))


def kept(scores):
    return np.flatnonzero(np.isfinite(scores)).tolist()


# ---- top-k and top-p ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "wanted"), [
    (1, [3]), (2, [3, 5]), (3, [2, 3, 5]), (6, [0, 1, 2, 3, 4, 5]), (100, [0, 1, 2, 3, 4, 5]),
])
def test_top_k_keeps_the_k_largest(k, wanted):
    scores = np.array([-2, -1, 0, 0.8, 0, 0.1])
    assert kept(top_k(scores, k)) == wanted
    np.testing.assert_array_equal(top_k(scores, k)[wanted], scores[wanted])


def test_top_k_keeps_exactly_k_of_tied_tokens_the_first():
    assert kept(top_k(np.array([1.0, 3, 3, 2]), 1)) == [1]
    assert kept(top_k(np.array([1.0, 3, 3, 3, 2]), 2)) == [1, 2]


def test_top_k_treats_each_row_alone_and_lets_minus_infinity_be():
    rows = np.array([[[1.0, 2, 3], [3, 2, 1]], [[2, -np.inf, -np.inf], [1, 3, 2]]])
    assert [kept(row) for row in top_k(rows, 2).reshape(-1, 3)] == [[1, 2], [0, 1], [0], [1, 2]]


@pytest.mark.parametrize("k", [0, -1])
def test_top_k_needs_at_least_one(k):
    with pytest.raises(SamplingError, match="wanted k >= 1"):
        top_k(np.zeros(3), k)


@pytest.mark.parametrize(("p", "wanted"), [
    (0.8, [0.375, 0, 0, 0.625]),                        # 0.5 + 0.3 is enough; a third is the usual fault
    (0.5, [0, 0, 0, 1]),
    (0.51, [0.375, 0, 0, 0.625]),
    (0.81, [1 / 3, 1 / 9, 0, 5 / 9]),
    (1, [0.3, 0.1, 0.1, 0.5]),
    (1e-9, [0, 0, 0, 1]),
])
def test_top_p_keeps_the_fewest_tokens_that_reach_p_in_their_places(p, wanted):
    np.testing.assert_allclose(top_p(np.array([0.3, 0.1, 0.1, 0.5]), p), wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_top_p_is_reached_as_exact_sums_reach_it(dtype):
    tenths = np.full(10, 0.1, dtype)
    assert [np.count_nonzero(top_p(tenths, n / 10)) for n in range(1, 10)] == list(range(1, 10))


def test_top_k_of_whole_numbers():
    np.testing.assert_array_equal(top_k(np.array([1, 3, 2], np.uint8), 2), [-np.inf, 3, 2])


def test_top_p_of_one_keeps_even_what_rounding_would_lose():
    tiny = np.array([1 - 1e-20, 1e-20])
    np.testing.assert_array_equal(top_p(tiny, 1.0), tiny)


def test_top_p_treats_each_row_alone():
    rows = np.array([[0.3, 0.1, 0.1, 0.5], [0.97, 0.01, 0.01, 0.01]])
    np.testing.assert_allclose(top_p(rows, 0.8), [[0.375, 0, 0, 0.625], [1, 0, 0, 0]], rtol=1e-12)


@pytest.mark.parametrize("p", [0.0, -0.1, 1.5, np.nan])
def test_top_p_is_a_probability(p):
    with pytest.raises(SamplingError, match="wanted 0 < p <= 1"):
        top_p(np.array([0.5, 0.5]), p)


# ---- drawing -----------------------------------------------------------------------------------------------


class Levels:
    """Stands for a Generator that draws given numbers."""

    def __init__(self, level):
        self.level = level

    def random(self, shape):
        return np.full(shape, self.level)


@pytest.mark.parametrize(("level", "wanted"), [
    (0.0, 1), (0.29, 1), (0.31, 2), (0.999, 2), (1 - 2**-53, 2), (1.0, 2),
])
def test_a_token_of_probability_zero_is_never_drawn(level, wanted):
    assert draw(np.array([0.0, 0.3, 0.7, 0.0]), Levels(level)) == wanted


def test_tokens_are_drawn_as_often_as_they_are_probable():
    probabilities = np.array([[0.2, 0.5, 0.3], [0.0, 0.1, 0.9]])
    drawn = draw(np.broadcast_to(probabilities, (20_000, 2, 3)), np.random.default_rng(0))
    assert drawn.shape == (20_000, 2)
    for row, wanted in enumerate(probabilities):
        np.testing.assert_allclose(np.bincount(drawn[:, row], minlength=3) / 20_000, wanted, atol=0.012)


def test_temperature_sharpens_and_flattens():
    scores = np.broadcast_to(np.log([0.2, 0.8]), (20_000, 2))
    for temperature, wanted in [(0.5, 0.64 / 0.68), (1.0, 0.8), (2.0, 2 / 3)]:
        drawn = choose(scores, np.random.default_rng(1), temperature)
        assert np.mean(drawn) == pytest.approx(wanted, abs=0.012)


def test_temperature_zero_takes_the_first_of_the_largest_and_draws_nothing():
    assert choose(np.array([[1.0, 3, 3], [5, 5, 0]]), None, 0).tolist() == [1, 0]


def test_the_filters_are_applied_in_their_order():
    scores = np.log(np.array([0.3, 0.1, 0.1, 0.5]))
    several = np.broadcast_to(scores, (500, 4))
    rng = np.random.default_rng(0)
    assert set(choose(several, rng, k=3)) == {0, 1, 3}
    assert set(choose(several, rng, p=0.75)) == {0, 3}
    # among three the first two have 0.8 / 0.9: p = 0.85 needs no third
    assert set(choose(several, rng, k=3, p=0.85)) == {0, 3}


def test_a_tiny_temperature_neither_overflows_nor_fails():
    assert choose(np.array([800.0, -800.0, 799.0], np.float32), np.random.default_rng(0), 1e-4) == 0
    for temperature in (1e-300, 1e-310, 5e-324):  # 800 divided by the second is infinite
        for k, p in ((None, None), (2, None), (None, 0.9)):
            logits = np.array([[1.0, -np.inf, 800.0], [-800.0, -801.0, -np.inf]])
            chosen = choose(logits, np.random.default_rng(0), temperature, k, p)
            assert np.array_equal(chosen, [2, 0])


def test_the_last_of_many_tokens_is_drawn_in_half_precision():
    class Nearly:
        def random(self, shape):
            return np.full(shape, 1 - 1e-9)

    assert draw(np.full((1, 3000), 1 / 3000, np.float16), Nearly()) == 2999  # a sum in float16 stops before it


@pytest.mark.parametrize(("how", "says"), [
    ({"temperature": -1.0}, r"temperature should be 0 \(greedy\) or positive and finite, got -1.0"),
    ({"temperature": np.nan}, "temperature should be 0"),
    ({"temperature": np.inf}, "temperature should be 0"),
    ({"rng": None}, "pass a numpy Generator, or temperature 0"),
    ({"k": 0}, "k >= 1"),
    ({"k": 2.0}, "k >= 1, a whole number, got 2.0"),
    ({"p": 2.0}, "0 < p <= 1"),
])
def test_impossible_sampling_is_refused(how, says):
    with pytest.raises(SamplingError, match=says):
        choose(np.zeros(3), **{"rng": np.random.default_rng(0), **how})


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("row", [[0, np.nan], [-np.inf, -np.inf], [0, np.inf]])
def test_logits_without_a_finite_largest_are_refused(row, temperature):
    with pytest.raises(SamplingError, match=f"should be finite, got {np.max(row)}"):
        choose(np.array([[1.0, 2.0], row]), np.random.default_rng(0), temperature)


@pytest.mark.parametrize("how", [{"k": 0}, {"p": 2.0}])
def test_the_filters_are_checked_where_nothing_is_drawn(how):
    with pytest.raises(SamplingError, match="wanted"):
        choose(np.zeros(3), None, 0, **how)


# ---- continuing --------------------------------------------------------------------------------------------


def slowly(params, prompt, n_tokens, rng=None, temperature=0.0):
    """Continue by running everything again for each token, in a window of `context` tokens."""
    dropped, ids = list(prompt[:-CONFIG.context]), list(prompt[-CONFIG.context:])
    for _ in range(n_tokens):
        mask = sliding_window_mask(len(ids), CONFIG.context)
        rope = rope_table(len(ids), CONFIG.head_dim, CONFIG.theta, dtype=np.float64)
        x = embedding(params["embedding"], np.array(ids))
        for layer in params["blocks"]:
            x, _ = block(x, layer, CONFIG.head_dim, mask, rope)
        scores = rms_norm(x[-1], params["norm"]) @ params["head"]
        ids.append(int(choose(scores, rng, temperature)))
    return dropped + ids


@pytest.mark.parametrize("length", [1, 3, 6, 7, 8, 9, 12])
def test_the_cache_changes_nothing_inside_the_context_and_past_it(params, length):
    prompt = np.random.default_rng(length).integers(11, size=length)
    assert generate(params, prompt, CONFIG, 14, temperature=0).tolist() == slowly(params, prompt, 14)
    got = generate(params, prompt, CONFIG, 40, np.random.default_rng(9))
    assert got.tolist() == slowly(params, prompt, 40, np.random.default_rng(9), 1.0)
    assert len(set(got[length:])) > 5


def test_each_new_token_costs_one_position_and_sees_one_context(params, monkeypatch):
    seen, decode = [], module.decode

    def watching(params, ids, config, cache, real):
        scores, after = decode(params, ids, config, cache, real)
        seen.append((ids.shape[1], range(after.position - after.held, after.position)))
        return scores, after

    monkeypatch.setattr(module, "decode", watching)
    ids = generate(params, np.array([1, 2, 3, 4, 5, 6]), CONFIG, 5, temperature=0)
    assert len(ids) == 11
    assert seen == [(6, range(6)), (1, range(7)), (1, range(8)), (1, range(1, 9)), (1, range(2, 10))]


def test_past_the_context_the_last_tokens_are_used_never_the_first(params):
    tail = np.array([5, 3, 9, 1, 0, 7, 2, 8])
    for start in ([], [4], [6, 6, 6, 10]):
        got = generate(params, np.array([*start, *tail]), CONFIG, 4, temperature=0)
        assert got[len(start):].tolist() == slowly(params, tail, 4)


def test_two_prompts_one_after_the_other_are_as_fresh(params):
    first, second = np.array([1, 2, 3]), np.array([4, 5])
    fresh = generate(params, second, CONFIG, 6, temperature=0)
    generate(params, first, CONFIG, 6, temperature=0)
    np.testing.assert_array_equal(generate(params, second, CONFIG, 6, temperature=0), fresh)
    interleaved = zip(continuations(params, first[None], CONFIG, temperature=0),
                      continuations(params, second[None], CONFIG, temperature=0), strict=True)
    got = [int(b[0]) for _, b in itertools.islice(interleaved, 6)]
    assert got == fresh[2:].tolist()


def test_prompts_of_several_lengths_go_on_as_each_does_alone(params):
    rng = np.random.default_rng(2)
    prompts = [rng.integers(11, size=length) for length in (1, 5, 3, 10)]
    together = generate_batch(params, prompts, CONFIG, 9, temperature=0)
    assert [row.tolist() for row in together] == [slowly(params, prompt, 9) for prompt in prompts]


def test_the_same_seed_gives_the_same_text_and_another_another(params):
    def text(seed):
        return generate(params, np.array([1]), CONFIG, 20, np.random.default_rng(seed)).tolist()
    assert text(0) == text(0) != text(1)


def test_generation_stops_after_the_end_token_and_keeps_it(params):
    prompts = [np.array([1, 2, 3]), np.array([4]), np.array([9, 9])]
    free = generate_batch(params, prompts, CONFIG, 10, temperature=0)
    end = int(free[0][5])                                           # the third new token of the first row
    stopped = generate_batch(params, prompts, CONFIG, 10, temperature=0, end_token=end)
    for prompt, row, whole in zip(prompts, stopped, free, strict=True):
        new = whole[len(prompt):].tolist()
        wanted = new[: new.index(end) + 1] if end in new else new
        assert row.tolist() == prompt.tolist() + wanted
    assert len(stopped[0]) < len(free[0])
    assert {len(row) - len(prompt) for row, prompt in zip(stopped, prompts, strict=True)} != {10}


def test_an_end_token_in_the_prompt_stops_nothing(params):
    prompt = np.array([7, 10, 1])
    free = generate(params, prompt, CONFIG, 5, temperature=0)
    for end in set(prompt) - set(free[3:]):
        np.testing.assert_array_equal(generate(params, prompt, CONFIG, 5, temperature=0, end_token=end), free)
    assert set(prompt) - set(free[3:])


@pytest.mark.parametrize("prompt", [np.array([1.5, 2.0]), np.array([[1, 2]]), [True, False]])
def test_prompts_that_are_no_rows_of_integers_are_refused(params, prompt):
    with pytest.raises(SamplingError, match=r"a prompt should be \(T,\) integers"):
        generate(params, prompt, CONFIG, 1, temperature=0)


def test_no_new_tokens_returns_the_prompt_and_runs_nothing():
    assert generate(None, np.array([3, 1]), CONFIG, 0).tolist() == [3, 1]
    assert generate_batch(None, [], CONFIG, 5) == []


@pytest.mark.parametrize(("prompt", "n_tokens", "says"), [
    (np.array([], np.int64), 3, "a prompt is empty"),
    (np.array([1]), -1, "n_tokens should be at least 0, got -1"),
])
def test_nothing_to_continue_and_negative_lengths_are_refused(params, prompt, n_tokens, says):
    with pytest.raises(SamplingError, match=says):
        generate(params, prompt, CONFIG, n_tokens, temperature=0)


def test_prompts_without_a_batch_axis_are_refused(params):
    with pytest.raises(SamplingError, match=r"prompts should be \(B, T\).*got \(2,\)"):
        next(continuations(params, np.array([1, 2]), CONFIG, temperature=0))
