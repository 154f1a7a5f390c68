import numpy as np


def linear_adjoint(g, x, weight, bias):
    """Adjoint of linear (layers.py).

    g (2, 3, 7), x (2, 3, 6), weight (6, 7), bias (7,) -> dx (2, 3, 6), dweight (6, 7), dbias (7,); float64
    """
    # adjoint of layers.py  return x @ weight + bias
    dbias = np.sum(g, axis=(0, 1))                               # (7,)
    dx = g @ weight.T                                            # (2, 3, 6)
    dweight = np.reshape(x, (-1, 6)).T @ np.reshape(g, (-1, 7))  # (6, 7)
    return dx, dweight, dbias
