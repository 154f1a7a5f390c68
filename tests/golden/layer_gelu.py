import math

import numpy as np


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype)


def gelu_adjoint(g, x):
    """Adjoint of gelu (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    # adjoint of layers.py  return 0.5 * x * (1 + erf(x * (1 / math.sqrt(2))))
    product = 1 / math.sqrt(2 * math.pi) * x * np.exp(-0.5 * x * x)  # (2, 3, 6)
    dx = g * (product + 0.5 * (1 + erf(x * (1 / math.sqrt(2)))))     # (2, 3, 6)
    return dx
