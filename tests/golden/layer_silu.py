import numpy as np


def silu_adjoint(g, x):
    """Adjoint of silu (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # layers.py  return 0.5 + 0.5 * np.tanh(0.5 * x)
    tanh = np.tanh(0.5 * x)                                     # (2, 3, 6)

    # adjoint of layers.py
    dx = g * (0.5 + 0.5 * tanh + 0.25 * x * (1 - tanh * tanh))  # (2, 3, 6)
    return dx
