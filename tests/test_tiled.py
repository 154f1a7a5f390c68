"""Tiled attention against the plain one, and what it keeps in memory."""

import tracemalloc

import numpy as np
import pytest

import minigrad
from minigrad.errors import ShapeError
from minigrad_nn.attention import scaled_dot_product_attention
from minigrad_nn.masks import causal_mask
from minigrad_nn.tiled import tiled_attention
from numeric import relative_error


def qkv(heads=4, kv_heads=2, length=11, keys=11, width=6, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    shapes = (2, heads, length, width), (2, kv_heads, keys, width), (2, kv_heads, keys, width)
    return tuple(rng.standard_normal(s).astype(dtype) for s in shapes)


@pytest.mark.parametrize(("queries", "keys"), [(4, 3), (11, 11), (1, 1), (5, 100), (128, 512)])
@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_plain_attention_with_its_gradients(queries, keys, causal):
    q, k, v = qkv()
    mask = causal_mask(11) if causal else None
    wanted, pull_wanted = minigrad.vjp(lambda *a: scaled_dot_product_attention(*a, mask), q, k, v)
    got, pull = minigrad.vjp(lambda *a: tiled_attention(*a, causal, queries, keys), q, k, v)
    assert relative_error(got, wanted) < 1e-13
    g = np.random.default_rng(1).standard_normal(wanted.shape)
    for a, b in zip(pull(g), pull_wanted(g), strict=True):
        assert relative_error(a, b) < 1e-12


def test_queries_after_a_past():
    q, k, v = qkv(length=3, keys=11)
    wanted = scaled_dot_product_attention(q, k, v, causal_mask(3, past=8))
    assert relative_error(tiled_attention(q, k, v, True, 2, 4), wanted) < 1e-13


def test_large_scores_stay_finite_and_float32_stays_float32():
    q, k, v = qkv(dtype=np.float32)
    out = tiled_attention(q * 1e4, k, v, queries=4, keys=3)
    assert np.isfinite(out).all()
    assert out.dtype == np.float32


def test_memory_grows_with_the_length_not_its_square():
    def peak(length):
        q, k, v = (x[0] for x in qkv(heads=1, kv_heads=1, length=length, keys=length, width=8, dtype=np.float32))
        g = np.ones_like(q)
        tracemalloc.start()
        _, pull = minigrad.vjp(lambda *a: tiled_attention(*a, True, 32, 64), q, k, v)
        pull(g)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(64)
    assert peak(1024) < 3 * peak(512)


def test_a_program_grows_with_the_length_not_its_square():
    def equations(length):
        q, k, v = (x[0] for x in qkv(heads=1, kv_heads=1, length=length, keys=length, width=2, dtype=np.float32))
        return len(minigrad.trace(tiled_attention, q, k, v).equations)

    assert equations(8192) < 2.1 * equations(4096)


def test_compiled_the_results_of_a_block_are_not_computed_again():
    """Of the two products of a tile going forward, the second run needs one; the adjoint has four."""
    q, k, v = qkv(heads=2, length=12, keys=12)
    g = np.random.default_rng(1).standard_normal((2, 2, 12, 6))

    def step(g, q, k, v):
        out, pull = minigrad.vjp(lambda *a: tiled_attention(*a, True, 4, 4), q, k, v)
        return out, *pull(g)

    compiled = minigrad.compile(step, backend="numpy")
    for a, b in zip(compiled(g, q, k, v), step(g, q, k, v), strict=True):
        assert relative_error(a, b) < 1e-14
    tiles = 6
    assert sum(eq.op.name == "np.matmul" for eq in compiled.program.equations) == 7 * tiles


def test_refuses_what_cannot_be():
    q, k, v = qkv(length=5, keys=4)
    with pytest.raises(ShapeError, match="causal queries need a key each"):
        tiled_attention(q, k, v)
    with pytest.raises(ShapeError, match="at least 1 x 1, got 0 x 256"):
        tiled_attention(q, k, v, False, queries=0)
