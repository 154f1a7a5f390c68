import numpy as np


def rmsnorm_adjoint(g, x):
    """Adjoint of rmsnorm (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    eps = 1e-8
    # layers.py  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)      # (2, 3, 1)
    out = x / root                                                    # (2, 3, 6)

    # adjoint of layers.py
    dx = (g - out * np.mean(g * out, axis=-1, keepdims=True)) / root  # (2, 3, 6)
    return dx
