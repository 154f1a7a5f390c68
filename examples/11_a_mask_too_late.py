"""A mask that is applied after the softmax, in the backward pass only: right wherever nothing is masked.

The last line of the backward pass looks wrong, and is not. The report goes back to the first that is.
"""

import numpy as np

import minigrad.check
from minigrad.errors import AdjointMismatch


def masked_attention(scores, values, mask):
    """Weights over the allowed scores only: scores (T, S), values (S, D), mask (T, S) -> (T, D)."""
    hidden = np.where(mask, scores, -1e9)
    e = np.exp(hidden - np.max(hidden, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    return weights @ values


def masked_attention_backward(g, scores, values, mask):
    """Takes the softmax of everything and masks it afterwards: rows no longer sum to one."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = np.where(mask, e / e.sum(axis=-1, keepdims=True), 0)
    dvalues = weights.T @ g
    dweights = g @ values.T
    dscores = weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
    return dscores, dvalues


rng = np.random.default_rng(11)
scores, values = rng.normal(size=(4, 4)), rng.normal(size=(4, 3))
everything, causal = np.ones((4, 4), dtype=bool), np.tri(4, dtype=bool)

# An example in which nothing is masked says nothing about the mask.
minigrad.check.compare_adjoints(masked_attention, masked_attention_backward, scores, values, everything)

try:
    minigrad.check.check_adjoint(masked_attention, masked_attention_backward, scores, values, causal)
except AdjointMismatch as error:
    report = error.report
    print(report)

# The first wrong line is the one before: the numerator is not masked, so the sum below it is that of everything.
assert [c.name for c in report.comparisons if not c.right] == ["scores", "values"]
assert report.culprit.line.text.startswith("e = np.exp(scores - ")
assert report.culprit.why == "should be e of the forward"
assert report.culprit.cure.startswith("`np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask` in place of ")


def mended(g, scores, values, mask):
    """Masks the numerator, as the report says: the rest stays as it was."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    weights = e / e.sum(axis=-1, keepdims=True)
    dvalues = weights.T @ g
    dweights = g @ values.T
    dscores = weights * (dweights - (dweights * weights).sum(axis=-1, keepdims=True))
    return dscores, dvalues


minigrad.check.check_adjoint(masked_attention, mended, scores, values, causal)
print("\nwith the mask before the sum: right")
