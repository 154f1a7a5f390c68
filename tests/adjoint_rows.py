"""The table of tests/test_adjoints.py: each reference adjoint with its forward and a maker of arguments.

One row per adjoint and variant; the modes multiply by themselves. A row makes its arguments in the sizes, the
layout and the dtype of the mode it is run in.

T time   S source of keys   C width   F hidden   H heads   Hkv kv_heads   D head_dim
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from minigrad_nn import adjoints, attention, layers, model, rope
from numeric import central_difference, complex_step

# ---- the modes --------------------------------------------------------------------------------


def strided(x):
    """The same numbers seen through gaps, backwards, in Fortran order."""
    gaps = np.zeros([2 * n for n in reversed(x.shape)], x.dtype)
    view = gaps.T[(slice(None, None, -2),) * x.ndim]
    view[...] = x
    return view


@dataclass(frozen=True)
class Sample:
    """The sizes of one mode, and the arrays made in them from a fixed seed."""

    lead: tuple[int, ...] = (2,)
    time: int = 3
    source: int = 5
    width: int = 6
    hidden: int = 7
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 4
    layout: Callable = np.ascontiguousarray
    dtype: type = np.float64

    def __post_init__(self):
        object.__setattr__(self, "rng", np.random.default_rng(7))

    def array(self, *shape):
        """Normal numbers pushed 0.1 away from 0: from kinks, and from norms of almost nothing."""
        normal = self.rng.normal(size=shape).round(2)
        return self.layout((normal + np.copysign(0.1, normal)).astype(self.dtype))

    def x(self):
        return self.array(*self.lead, self.time, self.width)

    def q(self):
        return self.array(*self.lead, self.heads, self.time, self.head_dim)

    def kv(self):
        return self.array(*self.lead, self.kv_heads, self.source, self.head_dim)

    def scores(self):
        return self.array(*self.lead, self.time, self.source)

    def integers(self, high, *shape):
        return self.layout(self.rng.integers(high, size=shape))

    def mask(self, *shape):
        """Booleans, of which some rows forbid everything."""
        return self.layout((self.rng.random(shape) < 0.6) & (self.rng.random((*shape[:-1], 1)) < 0.8))

    def causal(self):
        """The last query sees every key: (T, S)"""
        return self.layout(np.tri(self.time, self.source, self.source - self.time, dtype=bool))

    def targets(self):
        """Classes below `hidden`, some of them ignored."""
        classes = self.rng.integers(self.hidden, size=(*self.lead, self.time))
        return self.layout(np.where(self.rng.random(classes.shape) < 0.3, -100, classes))

    def rope(self, length):
        angle = self.array(length, self.head_dim // 2)
        return self.layout(np.cos(angle)), self.layout(np.sin(angle))

    def attention_weights(self):
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {"q": self.array(self.width, query), "k": self.array(self.width, key),
                "v": self.array(self.width, key), "o": self.array(query, self.width)}

    def qk_norms(self):
        return {"q_norm": self.array(self.head_dim), "k_norm": self.array(self.head_dim)}

    def biases(self):
        query, key = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {"q_bias": self.array(query), "k_bias": self.array(key), "v_bias": self.array(key),
                "o_bias": self.array(self.width)}

    def block_params(self):
        mlp = {"gate": self.array(self.width, self.hidden), "up": self.array(self.width, self.hidden),
               "down": self.array(self.hidden, self.width)}
        weights = self.attention_weights() | self.qk_norms()
        return {"attention_norm": self.array(self.width), "attention": weights,
                "mlp_norm": self.array(self.width), "mlp": mlp}


MODES = {
    "ordinary": Sample,
    "no leading axes": partial(Sample, lead=()),
    "two leading axes": partial(Sample, lead=(3, 2)),
    "leading axes of size 1": partial(Sample, lead=(1, 2, 1)),
    "square": partial(Sample, lead=(4,), time=4, source=4, width=4, hidden=4, heads=1, kv_heads=1),
    "square heads": partial(Sample, lead=(4,), time=4, source=4, width=16, hidden=16, kv_heads=4),
    "one key head": partial(Sample, kv_heads=1),
    "one position": partial(Sample, time=1, source=1),
    "one channel": partial(Sample, width=1, hidden=1, head_dim=2),
    "all of size 1": partial(
        Sample, lead=(1,), time=1, source=1, width=1, hidden=1, heads=1, kv_heads=1, head_dim=2),
    "not contiguous": partial(Sample, layout=strided),
}

# ---- the rows ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A forward function, its adjoint, and a maker of (arguments that have a gradient, all others)."""

    forward: Callable
    adjoint: Callable
    make: Callable[[Sample], tuple[list, dict]]
    derivative: Callable = complex_step     # central_difference where the forward is not analytic


def args(*moving, **fixed):
    return list(moving), fixed


def first_of(function):
    """function, without the keys and values it returns besides."""
    return lambda *moving, **fixed: function(*moving, **fixed)[0]


def cross_attention(x, weights, context, **fixed):
    return attention.multi_head_attention(x, weights, context=context, **fixed)[0]


def cross_attention_adjoint(g, x, weights, context, **fixed):
    return adjoints.multi_head_attention_adjoint(g, x, weights, context=context, **fixed)


def seeded_dropout(x, rate, seed):
    return layers.dropout(x, rate, np.random.default_rng(seed))


def seeded_dropout_adjoint(g, x, rate, seed):
    return adjoints.dropout_adjoint(g, x, rate, np.random.default_rng(seed))


def seeded_attention(q, k, v, rate, seed, mask=None):
    return attention.attention_with_dropout(q, k, v, mask, rate=rate, rng=np.random.default_rng(seed))


def seeded_attention_adjoint(g, q, k, v, rate, seed, mask=None):
    rng = np.random.default_rng(seed)
    return adjoints.attention_with_dropout_adjoint(g, q, k, v, mask, rate=rate, rng=rng)


def dropping(seed):
    return partial(attention.attention_with_dropout, rate=0.3, rng=np.random.default_rng(seed))


def seeded_multi_head(x, weights, seed, **fixed):
    return attention.multi_head_attention(x, weights, attend=dropping(seed), **fixed)[0]


def seeded_multi_head_adjoint(g, x, weights, seed, **fixed):
    return adjoints.multi_head_attention_adjoint(g, x, weights, attend=dropping(seed), **fixed)


self_attention = first_of(attention.multi_head_attention)
block = first_of(model.block)
sdpa = attention.scaled_dot_product_attention
sdpa_adjoint = adjoints.scaled_dot_product_attention_adjoint
mha_adjoint = adjoints.multi_head_attention_adjoint

ROWS = {
    "rmsnorm": Row(layers.rmsnorm, adjoints.rmsnorm_adjoint, lambda s: args(s.x())),
    "rmsnorm, large eps": Row(layers.rmsnorm, adjoints.rmsnorm_adjoint, lambda s: args(s.x(), eps=0.5)),
    "rms_norm": Row(layers.rms_norm, adjoints.rms_norm_adjoint, lambda s: args(s.x(), s.array(s.width))),
    "zero_centred_rms_norm": Row(
        layers.zero_centred_rms_norm, adjoints.zero_centred_rms_norm_adjoint,
        lambda s: args(s.x(), s.array(s.width))),
    "layer_norm": Row(
        layers.layer_norm, adjoints.layer_norm_adjoint,
        lambda s: args(s.x(), s.array(s.width), s.array(s.width))),
    "relu": Row(layers.relu, adjoints.relu_adjoint, lambda s: args(s.x()), central_difference),
    "relu_squared": Row(
        layers.relu_squared, adjoints.relu_squared_adjoint, lambda s: args(s.x()), central_difference),
    "sigmoid": Row(layers.sigmoid, adjoints.sigmoid_adjoint, lambda s: args(s.x())),
    "silu": Row(layers.silu, adjoints.silu_adjoint, lambda s: args(s.x())),
    "gelu_tanh": Row(layers.gelu_tanh, adjoints.gelu_tanh_adjoint, lambda s: args(s.x())),
    "gelu": Row(layers.gelu, adjoints.gelu_adjoint, lambda s: args(s.x()), central_difference),
    "softmax": Row(layers.softmax, adjoints.softmax_adjoint, lambda s: args(s.x())),
    "log_softmax": Row(layers.log_softmax, adjoints.log_softmax_adjoint, lambda s: args(s.x())),
    "matmul": Row(np.matmul, adjoints.matmul_adjoint, lambda s: args(s.x(), s.array(s.width, s.hidden))),
    "matmul, batches on both sides": Row(
        np.matmul, adjoints.matmul_adjoint,
        lambda s: args(s.x(), s.array(3, *(1 for _ in s.lead), s.width, 2))),
    "matmul, a row": Row(
        np.matmul, adjoints.matmul_adjoint, lambda s: args(s.array(s.width), s.array(*s.lead, s.width, 3))),
    "linear": Row(layers.linear, adjoints.linear_adjoint, lambda s: args(s.x(), s.array(s.width, s.hidden))),
    "linear, with a bias": Row(
        layers.linear, adjoints.linear_adjoint,
        lambda s: args(s.x(), s.array(s.width, s.hidden), s.array(s.hidden))),
    "linear, one row": Row(
        layers.linear, adjoints.linear_adjoint,
        lambda s: args(s.array(s.width), s.array(s.width, s.hidden), s.array(s.hidden))),
    "swiglu": Row(
        layers.swiglu, adjoints.swiglu_adjoint,
        lambda s: args(s.x(), s.array(s.width, s.hidden), s.array(s.width, s.hidden),
                       s.array(s.hidden, s.width))),
    "embedding": Row(
        layers.embedding, adjoints.embedding_adjoint,
        lambda s: args(s.array(s.hidden, s.width), ids=s.integers(s.hidden, *s.lead, s.time))),
    "cross_entropy": Row(
        layers.cross_entropy, adjoints.cross_entropy_adjoint,
        lambda s: args(s.array(*s.lead, s.time, s.hidden), targets=s.targets())),
    "cross_entropy, another ignore_index": Row(
        layers.cross_entropy, adjoints.cross_entropy_adjoint,
        lambda s: args(s.array(*s.lead, s.time, 3), targets=s.integers(3, *s.lead, s.time), ignore_index=1)),
    "dropout": Row(seeded_dropout, seeded_dropout_adjoint, lambda s: args(s.x(), rate=0.3, seed=5)),
    "dropout, none": Row(seeded_dropout, seeded_dropout_adjoint, lambda s: args(s.x(), rate=0.0, seed=5)),
    "dropout, all": Row(seeded_dropout, seeded_dropout_adjoint, lambda s: args(s.x(), rate=1.0, seed=5)),
    "rotate_half_split": Row(
        rope.rotate_half_split, adjoints.rotate_half_split_adjoint, lambda s: args(s.q(), *s.rope(s.time))),
    "rotate_interleaved": Row(
        rope.rotate_interleaved, adjoints.rotate_interleaved_adjoint, lambda s: args(s.q(), *s.rope(s.time))),
    "attention_scores": Row(
        attention.attention_scores, adjoints.attention_scores_adjoint,
        lambda s: args(s.q(), s.array(*s.lead, s.heads, s.source, s.head_dim))),
    "attention_scores, keys shared by the batch": Row(
        attention.attention_scores, adjoints.attention_scores_adjoint,
        lambda s: args(s.q(), s.array(1, s.source, s.head_dim))),
    "masked_softmax": Row(
        attention.masked_softmax, adjoints.masked_softmax_adjoint, lambda s: args(s.scores())),
    "masked_softmax, causal": Row(
        attention.masked_softmax, adjoints.masked_softmax_adjoint,
        lambda s: args(s.scores(), mask=s.causal())),
    "masked_softmax, rows with nothing": Row(
        attention.masked_softmax, adjoints.masked_softmax_adjoint,
        lambda s: args(s.scores(), mask=s.mask(*s.lead, s.time, s.source))),
    "masked_softmax, additive": Row(
        attention.masked_softmax, adjoints.masked_softmax_adjoint,
        lambda s: args(s.scores(), mask=np.where(s.mask(s.time, s.source), s.scores(), s.dtype(-np.inf))),
        central_difference),                # a row of -inf + tiny i is not recognised as forbidden
    "attention_weights": Row(
        attention.attention_weights, adjoints.attention_weights_adjoint,
        lambda s: args(s.q(), s.array(*s.lead, s.heads, s.source, s.head_dim), mask=s.causal())),
    "repeat_kv": Row(attention.repeat_kv, adjoints.repeat_kv_adjoint, lambda s: args(s.kv(), groups=3)),
    "repeat_kv, once": Row(attention.repeat_kv, adjoints.repeat_kv_adjoint, lambda s: args(s.kv(), groups=1)),
    "scaled_dot_product_attention": Row(sdpa, sdpa_adjoint, lambda s: args(s.q(), s.kv(), s.kv())),
    "scaled_dot_product_attention, causal": Row(
        sdpa, sdpa_adjoint, lambda s: args(s.q(), s.kv(), s.kv(), mask=s.causal())),
    "scaled_dot_product_attention, a mask per head": Row(
        sdpa, sdpa_adjoint,
        lambda s: args(s.q(), s.kv(), s.kv(), mask=s.mask(*s.lead, s.heads, s.time, s.source))),
    "scaled_dot_product_attention, a padding mask": Row(
        sdpa, sdpa_adjoint, lambda s: args(s.q(), s.kv(), s.kv(), mask=s.mask(*s.lead, 1, 1, s.source))),
    "scaled_dot_product_attention, additive": Row(
        sdpa, sdpa_adjoint,
        lambda s: args(s.q(), s.kv(), s.kv(), mask=np.where(s.causal(), 0.0, -np.inf))),
    "attention_with_dropout": Row(
        seeded_attention, seeded_attention_adjoint,
        lambda s: args(s.q(), s.kv(), s.kv(), rate=0.3, seed=5, mask=s.causal())),
    "attention_with_dropout, none": Row(
        seeded_attention, seeded_attention_adjoint, lambda s: args(s.q(), s.kv(), s.kv(), rate=0.0, seed=5)),
    "causal_attention_weights": Row(
        attention.causal_attention_weights, adjoints.causal_attention_weights_adjoint,
        lambda s: args(s.x(), s.array(s.width, s.head_dim), s.array(s.width, s.head_dim))),
    "causal_attention": Row(
        attention.causal_attention, adjoints.causal_attention_adjoint,
        lambda s: args(s.x(), *(s.array(s.width, s.head_dim) for _ in "qkv"))),
    "multi_head_attention": Row(
        self_attention, mha_adjoint, lambda s: args(s.x(), s.attention_weights(), head_dim=s.head_dim)),
    "multi_head_attention, QK-norm, RoPE, biases, causal": Row(
        self_attention, mha_adjoint,
        lambda s: args(s.x(), s.attention_weights() | s.biases() | s.qk_norms(), head_dim=s.head_dim,
                       mask=np.tri(s.time, dtype=bool), q_rope=s.rope(s.time), k_rope=s.rope(s.time))),
    "multi_head_attention, other norm and rotation": Row(
        self_attention, mha_adjoint,
        lambda s: args(s.x(), s.attention_weights() | s.qk_norms(), head_dim=s.head_dim,
                       q_rope=s.rope(s.time), k_rope=s.rope(s.time), rotate=rope.rotate_interleaved,
                       norm=partial(layers.zero_centred_rms_norm, eps=0.1))),
    "multi_head_attention, cross, RoPE on keys only": Row(
        cross_attention, cross_attention_adjoint,
        lambda s: args(s.x(), s.attention_weights() | s.qk_norms(), s.array(*s.lead, s.source, s.width),
                       head_dim=s.head_dim, k_rope=s.rope(s.source), mask=s.mask(*s.lead, 1, 1, s.source))),
    "multi_head_attention, dropout, causal": Row(
        seeded_multi_head, seeded_multi_head_adjoint,
        lambda s: args(s.x(), s.attention_weights(), seed=5, head_dim=s.head_dim, mask=np.tri(s.time, dtype=bool))),
    "block": Row(
        block, adjoints.block_adjoint,
        lambda s: args(s.x(), s.block_params(), head_dim=s.head_dim, mask=np.tri(s.time, dtype=bool),
                       rope=s.rope(s.time))),
    "block, large eps": Row(
        block, adjoints.block_adjoint, lambda s: args(s.x(), s.block_params(), head_dim=s.head_dim, eps=0.1)),
}

# What a wrapper above stands for.
ADJOINT_OF_WRAPPER = {
    cross_attention_adjoint: adjoints.multi_head_attention_adjoint,
    seeded_dropout_adjoint: adjoints.dropout_adjoint,
    seeded_multi_head_adjoint: adjoints.multi_head_attention_adjoint,
    seeded_attention_adjoint: adjoints.attention_with_dropout_adjoint,
}
