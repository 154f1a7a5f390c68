"""A gradient: write a function in plain NumPy and ask for its value and its gradient."""

import numpy as np

import minigrad


def loss(line, x, y):
    """Mean squared distance of the points from the line y = slope x + offset."""
    slope, offset = line
    return np.mean((slope * x + offset - y) ** 2)


x = np.array([0.0, 1.0, 2.0, 3.0])
y = np.array([1.0, 3.0, 5.0, 7.0])
line = np.zeros(2)

value, gradient = minigrad.value_and_grad(loss, line, x, y)
print(f"at {line}: loss {value}, gradient {gradient}")

# The same gradient, derived with pencil and paper: 2 mean(error x) and 2 mean(error).
error = line[0] * x + line[1] - y
assert np.allclose(gradient, [2 * np.mean(error * x), 2 * np.mean(error)], rtol=1e-14)

# Follow it downhill.
for _ in range(300):
    line = line - 0.1 * minigrad.grad(loss, line, x, y)
print(f"after 300 steps: slope {line[0]:.6f}, offset {line[1]:.6f}")
assert np.allclose(line, [2, 1], atol=1e-6)
