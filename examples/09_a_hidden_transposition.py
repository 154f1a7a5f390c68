"""dK is transposed, and a reshape hides it: the shapes fit, the loss goes down, the gradient is wrong.

The bug is found from the report alone: it says what the wrong gradient looks like, and names the line.
"""

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


# Training with it works, so nobody notices: the other gradients are right, and the values learn around the keys.
rng = np.random.default_rng(9)
q, k, v, target = (rng.normal(size=(2, 5, 4)) for _ in range(4))
params, losses = [q, k, v], []
for _ in range(50):
    error = attention(*params) - target
    losses.append(np.mean(error**2))
    params = [p - 0.5 * dp for p, dp in zip(params, attention_backward(error, *params), strict=True)]
assert losses[-1] < 0.5 * losses[0]
print(f"the loss goes from {losses[0]:.2f} to {losses[-1]:.2f}, and yet:\n")

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
    """The same, with the axes interchanged that the reshape has run together."""
    dq, dk, dv = attention_backward(g, q, k, v)
    sequences, time, width = k.shape
    return dq, dk.reshape(sequences, width, time).transpose(0, 2, 1), dv


minigrad.check.check_adjoint(attention, mended, q, k, v)
print("\nwith the transposition in the place of the reshape: right")
