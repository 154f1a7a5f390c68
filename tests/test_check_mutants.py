"""A sample of the mutation study: reference adjoints, broken in one line, are caught and the line is named.

The whole study is benchmarks/mutation_study.py: every adjoint, every single-line change.
"""

import inspect
import warnings
import zlib

import numpy as np
import pytest

import mutants
from adjoint_rows import ROWS, Sample
from minigrad.check import check_adjoint, compare_adjoints
from minigrad.errors import AdjointMismatch
from minigrad_nn import adjoints

# One row for each adjoint that the table calls without a wrapper; the costly ones are left to the study.
SAMPLED = {
    "rms_norm": "rms_norm",
    "layer_norm": "layer_norm",
    "silu": "silu",
    "gelu_tanh": "gelu_tanh",
    "softmax": "softmax",
    "log_softmax": "log_softmax",
    "linear": "linear, with a bias",
    "swiglu": "swiglu",
    "embedding": "embedding",
    "cross_entropy": "cross_entropy",
    "rotate_half_split": "rotate_half_split",
    "attention_scores": "attention_scores",
    "masked_softmax": "masked_softmax, causal",
    "repeat_kv": "repeat_kv",
}


def sample_of(adjoint, count):
    """A few mutants, the same on every run, that change the values of the row."""
    every = sorted(mutants.mutants(adjoint), key=lambda m: zlib.crc32(str(m).encode()))
    return every[:count]


def gradients(adjoint, row):
    moving, fixed = row.make(Sample())
    g = np.asarray(np.random.default_rng(0).normal(size=np.shape(row.forward(*moving, **fixed))))
    try:
        found = adjoint(g, *moving, **fixed)
    except Exception:  # a mutant may raise anything
        return None
    return found if isinstance(found, tuple) else (found,)


def same(a, b):
    """Whether two results agree but for rounding: some changes have no effect."""
    if a is None or b is None or len(a) != len(b) or any(np.shape(x) != np.shape(y) for x, y in zip(a, b, strict=True)):
        return False
    return all(np.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.filterwarnings("ignore")
def test_mutants_are_caught(name):
    row, adjoint = ROWS[SAMPLED[name]], getattr(adjoints, f"{name}_adjoint")
    moving, fixed = row.make(Sample())
    wanted = gradients(adjoint, row)
    changed = [m for m in sample_of(adjoint, 8) if not same(gradients(m.function, row), wanted)][:4]
    assert changed
    named = 0
    for mutant in changed:
        with pytest.raises(AdjointMismatch) as caught:
            check_adjoint(row.forward, mutant.function, *moving, **fixed)
        culprit = caught.value.report.culprit
        named += culprit is not None and culprit.line.line == mutant.line
    assert named == len(changed)


def test_mutants_keep_their_lines_and_differ_from_the_original():
    found = list(mutants.mutants(adjoints.rms_norm_adjoint))
    assert len(found) > 40
    assert len({str(m) for m in found}) > 0.8 * len(found)
    first = adjoints.rms_norm_adjoint.__code__.co_firstlineno
    assert {m.function.__code__.co_firstlineno for m in found} == {first}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row = ROWS["rms_norm"]
        assert same(gradients(adjoints.rms_norm_adjoint, row), gradients(adjoints.rms_norm_adjoint, row))
        assert not all(same(gradients(m.function, row), gradients(adjoints.rms_norm_adjoint, row)) for m in found)


# ---- kinds of mistakes whose line was not named once: adjoints that are wrong in the line that says so ----------


def standardised(x):
    mean = np.mean(x, axis=0)
    var = np.var(x, axis=0)
    return (x - mean) / np.sqrt(var + 1e-5)


def forgets_a_factor(g, x):
    """No variable between dscale and dvar is known; but dvar is right, so a 2 in the line of dscale is no cure."""
    centred = x - x.mean(axis=0)
    std = np.sqrt(np.mean(centred**2, axis=0) + 1e-5)
    dscale = np.sum(g * centred, axis=0)
    dvar = -0.5 * dscale / std**3
    dcentred = g / std + centred * dvar / len(x)  # wrong
    return dcentred - dcentred.mean(axis=0)


def scaled(x, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def norm(x, eps=1e-6):
    return np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def forgets_an_option(g, x, *, eps):
    r = norm(x)  # wrong
    xhat = x / r
    return (g - xhat * np.mean(g * xhat, axis=-1, keepdims=True)) / r


def recurrent(x, h, w):
    for t in range(3):
        h = np.tanh(x[t] + h @ w)
    return h


def remembers_something_else(g, x, h, w):
    """What is wrong in one turn of a loop is wrong in what the next turn reads: the list that it is put in tells."""
    states = [h]
    for t in range(3):
        states.append(np.tanh(x[t] - states[-1] @ w))  # wrong
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for t in reversed(range(3)):
        da = g * (1 - states[t + 1] ** 2)
        dx[t] = da
        dw += states[t].T @ da
        g = da @ w.T
    return dx, g, dw


def product(a, b):
    return a @ np.swapaxes(b, -1, -2)


def forgets_to_turn(g, a, b):
    turned = np.swapaxes(a, -1, -2) @ g
    return g @ b, turned  # wrong


WIDE = np.random.default_rng(3).normal(size=(5, 4))
STEPS = np.random.default_rng(4).normal(size=(3, 2, 4)) / 2
STACKED = np.random.default_rng(5).normal(size=(2, 3, 4)), np.random.default_rng(6).normal(size=(2, 5, 4))
KINDS = {
    "what leads to something right": (standardised, forgets_a_factor, (WIDE,), {}),
    "an option": (scaled, forgets_an_option, (WIDE,), {"eps": 0.3}),
    "a list in a loop": (recurrent, remembers_something_else, (STEPS, WIDE[:2], WIDE[:4] / 3), {}),
    "axes to be interchanged": (product, forgets_to_turn, STACKED, {}),
}


@pytest.mark.parametrize(("forward", "adjoint", "args", "options"), KINDS.values(), ids=KINDS)
def test_the_wrong_line_is_named(forward, adjoint, args, options):
    lines, first = inspect.getsourcelines(adjoint)
    with pytest.raises(AdjointMismatch) as caught:
        compare_adjoints(forward, adjoint, *args, **options)
    culprit = caught.value.report.culprit
    assert lines[culprit.line.line - first].endswith("# wrong\n"), str(caught.value)


def test_an_adjoint_whose_edits_do_not_end_is_reported():
    """`total < 1` with another variable holds for ever; a list may come to hold itself."""

    def forward(x):
        return np.sin(x)

    def adjoint(g, x):
        kept, total = [], 0.0
        kept.append(kept)
        while total < 1:
            total += 0.5
        return g * np.sin(x) * total

    with pytest.raises(AdjointMismatch) as caught:
        compare_adjoints(forward, adjoint, WIDE)
    assert caught.value.report.culprit is not None
