import numpy as np


def matmul_adjoint(g, x1, x2):
    """Adjoint of matmul.

    g (2, 3, 5), x1 (2, 3, 4), x2 (4, 5) -> dx1 (2, 3, 4), dx2 (4, 5); float64
    """
    dx1 = g @ x2.T                                            # (2, 3, 4)
    dx2 = np.reshape(x1, (-1, 4)).T @ np.reshape(g, (-1, 5))  # (4, 5)
    return dx1, dx2
