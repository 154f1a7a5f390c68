import numpy as np


def sigmoid_adjoint(g, x):
    """Adjoint of sigmoid (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # layers.py  return 0.5 + 0.5 * np.tanh(0.5 * x)
    tanh = np.tanh(0.5 * x)            # (2, 3, 6)

    # adjoint of layers.py
    dx = 0.25 * g * (1 - tanh * tanh)  # (2, 3, 6)
    return dx
