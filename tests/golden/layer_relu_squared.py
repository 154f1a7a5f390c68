import numpy as np


def relu_squared_adjoint(g, x):
    """Adjoint of relu_squared (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # layers.py
    positive = np.maximum(x, 0)                  # (2, 3, 6)

    # adjoint of layers.py  return positive * positive
    dpositive = 2 * g * positive                 # (2, 3, 6)
    # adjoint of layers.py
    dx = dpositive * ((x > 0) + 0.5 * (x == 0))  # (2, 3, 6)
    return dx
