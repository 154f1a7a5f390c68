import numpy as np


def matmul_adjoint(g, x1, x2):
    """Adjoint of matmul.

    g (2, 3, 7), x1 (2, 3, 6), x2 (6, 7) -> dx1 (2, 3, 6), dx2 (6, 7); float64
    """
    dx1 = g @ x2.T                                            # (2, 3, 6)
    dx2 = np.reshape(x1, (-1, 6)).T @ np.reshape(g, (-1, 7))  # (6, 7)
    return dx1, dx2
