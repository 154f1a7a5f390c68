"""Masks: who may look where, position by position."""

import numpy as np
import pytest

from minigrad.errors import DtypeError, ShapeError
from minigrad_nn.layers import RangeError
from minigrad_nn.masks import additive_mask, causal_mask, padding_mask, position_ids, sliding_window_mask


@pytest.mark.parametrize(("length", "past"), [(5, 0), (1, 0), (1, 7), (3, 2), (0, 3)])
def test_causal_mask_sees_the_past_and_itself(length, past):
    mask = causal_mask(length, past)
    assert mask.dtype == bool
    assert mask.shape == (length, length + past)
    wanted = [[j <= i + past for j in range(length + past)] for i in range(length)]
    assert mask.tolist() == wanted


def test_sliding_window_counts_the_query_itself():
    right = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    one_too_many = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    mask = sliding_window_mask(5, 2)
    assert mask.dtype == bool
    assert mask.astype(int).tolist() == right
    assert mask.astype(int).tolist() != one_too_many
    assert np.array_equal(sliding_window_mask(5, 1), np.eye(5, dtype=bool))
    assert np.array_equal(sliding_window_mask(5, 9), causal_mask(5))


def test_sliding_window_with_a_past_continues_the_full_mask():
    assert np.flatnonzero(sliding_window_mask(1, 3, past=7)).tolist() == [5, 6, 7]
    assert np.array_equal(sliding_window_mask(3, 4, past=6), sliding_window_mask(9, 4)[6:])


def test_padding_mask_has_an_axis_for_heads_and_one_for_queries():
    mask = padding_mask(np.array([[9, 9, 4, 2], [1, 9, 3, 5]]), 9)
    assert mask.shape == (2, 1, 1, 4)
    assert mask[:, 0, 0].tolist() == [[False, False, True, True], [True, False, True, True]]
    assert (causal_mask(4) & mask).shape == (2, 1, 4, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_additive_mask_is_zero_or_minus_infinity(dtype):
    added = additive_mask(causal_mask(2), dtype)
    assert added.dtype == dtype
    assert added.tolist() == [[0, -np.inf], [0, 0]]


def test_position_ids_count_real_tokens_only():
    attended = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ids = position_ids(attended)
    assert ids.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert ids.dtype == np.int64
    assert (ids[:, -1] + 1).tolist() == [3, 5]
    assert np.array_equal(position_ids(attended.astype(bool)), ids)


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: causal_mask(2, past=-1), RangeError, r"causal_mask: .*not be negative, got 2 and -1"),
    (lambda: sliding_window_mask(4, 2.5), RangeError, r"sliding_window_mask: window .* whole, got 2.5"),
    (lambda: position_ids(np.array([[0, 17, 4]])), RangeError, r"position_ids: attended .* got 17"),
    (lambda: position_ids(additive_mask(np.eye(2, dtype=bool))), RangeError, r"position_ids: attended .* got -inf"),
    (lambda: sliding_window_mask(4, 0), RangeError, r"sliding_window_mask: window .* at least 1.*got 0"),
    (lambda: padding_mask(np.zeros(4, int), 0), ShapeError,
     r"padding_mask: tokens should be \(B, S\), got \(4,\)"),
    (lambda: additive_mask(np.ones((2, 2))), DtypeError, r"additive_mask: mask should be bool.*got float64"),
])
def test_errors_say_what_was_wanted_and_what_came(call, error, message):
    with pytest.raises(error, match=message):
        call()
