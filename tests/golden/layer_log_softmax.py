import numpy as np


def log_softmax_adjoint(g, x):
    """Adjoint of log_softmax (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # layers.py  shifted = x - np.max(stop_gradient(x), axis=-1, keepdims=True)
    shifted = x - np.max(x, axis=-1, keepdims=True)         # (2, 3, 6)
    # layers.py  return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    exp = np.exp(shifted)                                   # (2, 3, 6)

    # adjoint of layers.py
    product = exp * np.sum(g, axis=-1, keepdims=True)       # (2, 3, 6)
    dx = g - product / np.sum(exp, axis=-1, keepdims=True)  # (2, 3, 6)
    return dx
