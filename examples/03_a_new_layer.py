"""A new layer, forward only: a gated causal convolution. Its backward pass is nobody's work."""

import numpy as np

import minigrad
from minigrad_nn import layers
from minigrad_nn.optim import adamw


def short_convolution(x, kernel, gate):
    """Each channel mixes its last K steps, and is let through by a gate.

        out[t] = silu(x[t] @ gate) * sum over k of kernel[k] * x[t - k]

    x (..., T, C), kernel (K, C), gate (C, C) -> (..., T, C)
    """
    length = x.shape[-2]
    before = [(0, 0)] * (x.ndim - 2) + [(kernel.shape[0] - 1, 0), (0, 0)]
    padded = np.pad(x, before)                                          # (..., K - 1 + T, C)
    shifted = [padded[..., len(kernel) - 1 - k:, :][..., :length, :] for k in range(len(kernel))]
    return layers.silu(x @ gate) * sum(kernel[k] * xk for k, xk in enumerate(shifted))


def loss(params, x, y):
    """Mean squared error against what another layer of the same form made of x."""
    return np.mean((short_convolution(x, **params) - y) ** 2)


rng = np.random.default_rng(3)
teacher = {"kernel": rng.normal(size=(3, 4)), "gate": rng.normal(size=(4, 4))}
params = minigrad.tree.map(lambda w: w + 0.3 * rng.normal(size=w.shape), teacher)
x = rng.normal(size=(16, 12, 4))
y = short_convolution(x, **teacher)

optimiser = adamw(0.02, weight_decay=0)
state = optimiser.init(params)
for step in range(301):
    value, grads = minigrad.value_and_grad(loss, params, x, y)
    params, state = optimiser.update(grads, state, params)
    if step % 100 == 0:
        print(f"step {step:3}   loss {value:.2e}")

# The gradient was good enough to find the other layer's weights.
furthest = max(np.abs(params[name] - teacher[name]).max() for name in teacher)
print(f"furthest weight from the teacher's: {furthest:.1e}")
assert furthest < 0.01
