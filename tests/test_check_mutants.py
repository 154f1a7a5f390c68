"""A sample of the mutation study: reference adjoints, broken in one line, are caught and the line is named.

The whole study is benchmarks/mutation_study.py: every adjoint, every single-line change.
"""

import warnings
import zlib

import numpy as np
import pytest

import mutants
from adjoint_rows import ROWS, Sample
from minigrad.check import check_adjoint
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
    assert named >= len(changed) - 1


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
