import numpy as np


def repeat_kv_adjoint(g, x):
    """Adjoint of repeat_kv (attention.py).

    g (2, 6, 5, 4), x (2, 2, 5, 4) -> dx (2, 2, 5, 4); float64
    """
    # adjoint of attention.py  return x if groups == 1 else np.repeat(x, groups, axis=-3)
    dx = np.sum(np.reshape(g, (2, 2, 3, 5, 4)), axis=2)  # (2, 2, 5, 4)
    return dx
