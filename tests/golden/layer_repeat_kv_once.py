import numpy as np


def repeat_kv_adjoint(g, x):
    """Adjoint of repeat_kv (attention.py).

    g (2, 2, 5, 4), x (2, 2, 5, 4) -> dx (2, 2, 5, 4); float64
    """
    dx = np.copy(g)  # (2, 2, 5, 4)
    return dx
