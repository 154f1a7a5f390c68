import numpy as np


def relu_adjoint(g, x):
    """Adjoint of relu (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # adjoint of layers.py  return np.where(x <= 0, 0, x)
    dx = np.where(x <= 0, 0, g)  # (2, 3, 6)
    return dx
