import numpy as np


def matmul_adjoint(g, x1, x2):
    """Adjoint of matmul.

    g (2, 3), x1 (6,), x2 (2, 6, 3) -> dx1 (6,), dx2 (2, 6, 3); float64
    """
    dx1 = np.sum((x2 @ g[..., None])[..., 0], axis=0)  # (6,)
    dx2 = x1[..., None] * g[:, None]                   # (2, 6, 3)
    return dx1, dx2
