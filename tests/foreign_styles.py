"""More layers in the styles of public code: what each does that others do not is in its first line.

As in foreign_layers.py, they know nothing of minigrad; tests/test_check_styles.py checks them as they stand.
"""

import numpy as np
from scipy import signal

# ---- numbers on the way ------------------------------------------------------------------------------------------


def filtered(x, w, b):
    """One step of a loop at a time, the bias turned into a Python number."""
    out = np.full(shape=(len(x) - len(w) + 1,), fill_value=0.0)
    for i in range(len(out)):
        out[i] = float(np.squeeze(np.sum(x[i : i + len(w)] * w))) + float(np.squeeze(b))
    return out, (x, w, b)


def filtered_backward(dout, cache):
    x, w, b = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for i, g in enumerate(dout):
        dw += g * x[i : i + len(w)]
        dx[i : i + len(w)] += g * w
    return dx, dw, np.full_like(b, dout.sum())


class Rescaled:
    """Divides by a number that is taken out of an array, and looks at its type."""

    def forward(self, x):
        scale = np.max(np.abs(x)).item()
        if not isinstance(scale, (int, float)):
            raise TypeError("scale must be a number")
        self.x, self.scale = x, scale
        return np.fromiter((v / scale for _, v in np.ndenumerate(x)), dtype=float).reshape(x.shape)

    def backward(self, g):
        dx = g / self.scale
        top = np.unravel_index(np.argmax(np.abs(self.x)), self.x.shape)
        dx[top] -= np.sign(self.x[top]) * np.sum(g * self.x) / self.scale**2
        return dx


class ScipyConvolution:
    """scipy.signal does the work."""

    def __init__(self, depth, channels, size):
        rng = np.random.default_rng(21)
        self.kernels = rng.standard_normal((depth, channels, size, size))
        self.biases = rng.standard_normal(depth)

    def forward(self, x):
        self.x = x
        out = [
            sum(signal.correlate2d(x[j], self.kernels[i, j], "valid") for j in range(len(x))) + self.biases[i]
            for i in range(len(self.kernels))
        ]
        return np.array(out)

    def backward(self, g):
        self.kernels_grad, dx = np.zeros_like(self.kernels), np.zeros_like(self.x)
        self.biases_grad = g.sum(axis=(1, 2))
        for i in range(len(self.kernels)):
            for j in range(len(self.x)):
                self.kernels_grad[i, j] = signal.correlate2d(self.x[j], g[i], "valid")
                dx[j] += signal.convolve2d(g[i], self.kernels[i, j], "full")
        return dx
