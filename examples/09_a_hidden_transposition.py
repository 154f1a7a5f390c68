"""dK is transposed, and a reshape hides it: the shapes fit, the loss goes down, the gradient is wrong."""

import numpy as np

import minigrad.check
from minigrad.errors import AdjointMismatch


def attention(q, k, v):
    """One head for each of two sequences: q, k, v (B, T, D) -> (B, T, D)."""
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    return weights @ v


def attention_backward(g, q, k, v):
    """The backward pass of somebody who had a shape that did not fit, and reshaped until it did."""
    scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ k.transpose(0, 2, 1) * scale
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    dv = weights.transpose(0, 2, 1) @ g
    dweights = g @ v.transpose(0, 2, 1)
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True))
    dq = dscores @ k * scale
    dk = (q.transpose(0, 2, 1) @ dscores * scale).reshape(k.shape)
    return dq, dk, dv


rng = np.random.default_rng(9)
q, k, v = (rng.normal(size=(2, 5, 4)) for _ in "qkv")
try:
    minigrad.check.check_adjoint(attention, attention_backward, q, k, v)
except AdjointMismatch as error:
    report = error.report
    print(report)

# What the report says: which gradient, what it looks like, which line.
wrong = {c.name: c.diagnosis for c in report.comparisons if not c.right}
assert list(wrong) == ["k"]
assert wrong["k"] == ["reshaped where it should be transposed: the right gradient with axes (1, 2) interchanged"]
assert report.culprit.line.text.startswith("dk = ")


def mended(g, q, k, v):
    """The same with dk transposed in the place of the reshape."""
    dq, dk, dv = attention_backward(g, q, k, v)
    rows, columns = k.shape[1:]
    return dq, dk.reshape(-1, columns, rows).transpose(0, 2, 1), dv


minigrad.check.check_adjoint(attention, mended, q, k, v)
print("\nwith the transposition in the place of the reshape: right")
