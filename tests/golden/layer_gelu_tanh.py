import math

import numpy as np


def gelu_tanh_adjoint(g, x):
    """Adjoint of gelu_tanh (layers.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    scale = math.sqrt(2 / math.pi)
    # layers.py  return 0.5 * x * (1 + np.tanh(x * (scale + scale * 0.044715 * (x * x))))
    added = scale + 0.035677408136300125 * (x * x)  # (2, 3, 6)
    tanh = np.tanh(x * added)                       # (2, 3, 6)

    # adjoint of layers.py
    added_2 = x * (1 - tanh * tanh) * (added + 0.07135481627260025 * x * x) + 1 + tanh  # (2, 3, 6)
    dx = 0.5 * g * added_2                          # (2, 3, 6)
    return dx
