import numpy as np


def matmul_adjoint(g, x1, x2):
    """Adjoint of matmul.

    g (3, 2, 3, 2), x1 (2, 3, 6), x2 (3, 1, 6, 2) -> dx1 (2, 3, 6), dx2 (3, 1, 6, 2); float64
    """
    dx1 = np.sum(g @ np.swapaxes(x2, -1, -2), axis=0)                 # (2, 3, 6)
    dx2 = np.sum(np.swapaxes(x1, -1, -2) @ g, axis=1, keepdims=True)  # (3, 1, 6, 2)
    return dx1, dx2
