"""Rotary embedding: published numbers, and the properties that define it."""

import numpy as np
import pytest

from minigrad.errors import DtypeError, ShapeError
from minigrad_nn.layers import RangeError
from minigrad_nn.rope import rope_at, rope_frequencies, rope_table, rotate_half_split, rotate_interleaved

ROTATIONS = [rotate_half_split, rotate_interleaved]
X = np.array([1.0, 2, 3, 4])


def sample(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_frequencies():
    np.testing.assert_allclose(rope_frequencies(4), [1, 0.01], rtol=1e-15)
    np.testing.assert_allclose(rope_frequencies(8, 500000.0), 500000.0 ** -np.array([0, 0.25, 0.5, 0.75]))
    assert rope_frequencies(4, 10000).dtype == np.float64


@pytest.mark.parametrize(("rotate", "position", "wanted"), [
    (rotate_half_split, 1, [-1.984110649, 1.959900667, 2.462377902, 4.019799668]),
    (rotate_half_split, 3, [-1.413352521, 1.879118067, -2.828857482, 4.058191135]),
    (rotate_interleaved, 1, [-1.142639664, 1.922075597, 2.959850668, 4.029799502]),
    (rotate_interleaved, 3, [-1.272232513, -1.838864985, 2.8786681, 4.088186636]),
])
def test_published_numbers_of_both_pairings(rotate, position, wanted):
    at = rope_at(position, 4, dtype=np.float64)
    np.testing.assert_allclose(rotate(X, *at), wanted, rtol=5e-10)
    table = rope_table(1, 4, offset=position, dtype=np.float64)
    np.testing.assert_allclose(rotate(X[None], *table), [wanted], rtol=5e-10)
    other = rotate_interleaved if rotate is rotate_half_split else rotate_half_split
    assert np.max(np.abs(other(X, *at) - wanted)) > 0.1


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_position_zero_is_the_identity_and_norms_are_kept(rotate):
    x = sample(2, 3, 7, 8)
    y = rotate(x, *rope_table(7, 8, dtype=np.float64))
    assert np.array_equal(y[..., 0, :], x[..., 0, :])
    np.testing.assert_allclose(np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-14)


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_scores_depend_on_the_distance_only(rotate):
    q, k = sample(1, 8), sample(1, 8, seed=1)

    def score(m, n):
        return rotate(q, *rope_at([m], 8, dtype=np.float64)) @ rotate(k, *rope_at([n], 8, dtype=np.float64)).T

    np.testing.assert_allclose(score(9, 4), score(1005, 1000), rtol=1e-12)
    assert abs(score(9, 4) - score(4, 9)) > 1e-3


def test_one_pairing_is_the_other_with_the_channels_sorted():
    x, table = sample(3, 5, 8), rope_table(5, 8, dtype=np.float64)
    order = np.arange(8).reshape(4, 2).T.ravel()  # 0 2 4 6 1 3 5 7
    assert np.array_equal(rotate_interleaved(x, *table)[..., order], rotate_half_split(x[..., order], *table))


def test_the_table_continues_at_an_offset():
    whole, part = rope_table(9, 6), rope_table(4, 6, offset=5)
    for all_rows, rows in zip(whole, part, strict=True):
        assert rows.dtype == np.float32
        assert np.array_equal(all_rows[5:], rows)


def test_the_angle_is_computed_in_float64():
    position, frequencies = 100_000, 10000.0 ** -(np.arange(0, 64, 2) / 64)
    wanted = np.sin(position * frequencies)
    in_float32 = np.sin(np.float32(position) * frequencies.astype(np.float32))
    _, sin = rope_table(1, 64, offset=position)
    np.testing.assert_allclose(sin[0], wanted, atol=1e-7, rtol=0)
    assert np.max(np.abs(in_float32 - wanted)) > 1e-3


def test_positions_may_differ_from_row_to_row_of_a_batch():
    x = sample(2, 3, 5, 8)  # (B, H, T, D)
    positions = np.array([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])
    cos, sin = rope_at(positions[:, None], 8, dtype=np.float64)
    assert cos.shape == (2, 1, 5, 4)
    together = rotate_half_split(x, cos, sin)
    for b in range(2):
        alone = rotate_half_split(x[b], *rope_at(positions[b], 8, dtype=np.float64))
        assert np.array_equal(together[b], alone)


@pytest.mark.parametrize("rotate", ROTATIONS)
def test_dtype_and_input_are_kept(rotate):
    x = sample(2, 5, 8).astype(np.float32)
    before = x.copy()
    y = rotate(x, *rope_table(5, 8))
    assert y.dtype == np.float32
    assert np.array_equal(x, before)
    assert np.array_equal(y[1], rotate(x[1], *rope_table(5, 8)))


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: rope_table(3, 5), ShapeError, r"rope_frequencies: head_dim should be even.*got 5"),
    (lambda: rope_frequencies(4, 0.0), RangeError, r"rope_frequencies: theta should be positive, got 0\.0"),
    (lambda: rope_at(np.array([0.5]), 4), DtypeError, r"rope_at: positions should be integers, got float64"),
    (lambda: rotate_half_split(sample(3, 5), *rope_table(3, 4)), ShapeError,
     r"rotate_half_split: .* with an even D, got cos \(3, 2\) and sin \(3, 2\) for x \(3, 5\)"),
    (lambda: rotate_half_split(sample(3, 4), *rope_table(9, 4)), ShapeError,
     r"rotate_half_split: cos and sin should be \(..., T, D/2\).*got cos \(9, 2\) .* for x \(3, 4\)"),
    (lambda: rotate_interleaved(sample(3, 4), *rope_table(1, 4)), ShapeError,
     r"rotate_interleaved: .*got cos \(1, 2\) and sin \(1, 2\) for x \(3, 4\)"),
    (lambda: rotate_half_split(sample(3, 4), rope_table(3, 4)[0], rope_table(1, 4)[1]), ShapeError,
     r"got cos \(3, 2\) and sin \(1, 2\)"),
])
def test_errors_say_what_was_wanted_and_what_came(call, error, message):
    with pytest.raises(error, match=message):
        call()
