import numpy as np


def linear_adjoint(g, x, weight, bias):
    """Adjoint of linear (layers.py).

    g (7,), x (6,), weight (6, 7), bias (7,) -> dx (6,), dweight (6, 7), dbias (7,); float64
    """
    # adjoint of layers.py  return x @ weight + bias
    dx = weight @ g                   # (6,)
    dweight = x[..., None] * g[None]  # (6, 7)
    dbias = np.copy(g)                # (7,)
    return dx, dweight, dbias
