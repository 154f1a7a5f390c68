"""Second order: the backward pass is ordinary code, so a gradient can be differentiated again."""

import numpy as np

import minigrad


def loss(w, x, y):
    """Logistic regression with a little weight decay; y is -1 or 1."""
    return np.mean(np.log1p(np.exp(-y * (x @ w)))) + 0.05 * np.sum(w * w)


def hessian_times(w, v, x, y):
    """The Hessian times v, without the Hessian: the gradient of the slope along v."""
    return minigrad.grad(lambda w: np.sum(minigrad.grad(loss, w, x, y) * v), w)


rng = np.random.default_rng(5)
x = rng.normal(size=(40, 3))
y = np.sign(x @ np.array([1.0, -2.0, 0.5]) + 0.5 * rng.normal(size=40))
w = np.zeros(3)

# The Hessian by hand: x' diag(p (1 - p)) x / n + 0.1.
p = 1 / (1 + np.exp(-(x @ w)))
by_hand = x.T @ ((p * (1 - p))[:, None] * x) / len(x) + 0.1 * np.eye(3)
generated = np.stack([hessian_times(w, v, x, y) for v in np.eye(3)])
print("Hessian:", generated.round(4), sep="\n")
assert np.allclose(generated, by_hand, rtol=1e-12)

# Newton's method: each step doubles the digits of the answer.
sizes = []
for step in range(6):
    gradient = minigrad.grad(loss, w, x, y)
    sizes.append(np.linalg.norm(gradient))
    print(f"step {step}   w {w.round(6)}   |gradient| {sizes[-1]:.1e}")
    w = w - np.linalg.solve(np.stack([hessian_times(w, v, x, y) for v in np.eye(3)]), gradient)
assert sizes[-1] < 1e-12
assert sizes[3] < sizes[2] ** 1.5
