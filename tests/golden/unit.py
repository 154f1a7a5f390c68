import numpy as np


def unit_adjoint(g, x):
    """Adjoint of unit (golden_files.py).

    g (2, 3), x (2, 3) -> dx (2, 3); float64
    """
    # golden_files.py  return x / np.linalg.norm(x, axis=-1, keepdims=True)
    norm = np.linalg.norm(x, axis=-1, keepdims=True)         # (2, 1)
    out = x / norm                                           # (2, 3)

    # adjoint of golden_files.py
    product = out * np.sum(g * out, axis=-1, keepdims=True)  # (2, 3)
    dx = g / norm - product / np.where(norm == 0, 1, norm)   # (2, 3)
    return dx
