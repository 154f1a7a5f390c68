import numpy as np


def softmax_adjoint(g, x):
    """Adjoint of softmax (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # layers.py  e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))         # (2, 3, 6)
    # layers.py  return e / np.sum(e, axis=-1, keepdims=True)
    out = e / np.sum(e, axis=-1, keepdims=True)               # (2, 3, 6)

    # adjoint of layers.py
    dx = out * (g - np.sum(g * out, axis=-1, keepdims=True))  # (2, 3, 6)
    return dx
