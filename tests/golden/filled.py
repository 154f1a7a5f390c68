import numpy as np


def filled_adjoint(g, x):
    """Adjoint of filled (golden_files.py).

    g (), x (4,) -> dx (4,); float64
    """
    # adjoint of golden_files.py  return np.sum(y) + y[0]
    dy = np.copy(np.broadcast_to(g, (4,)))  # (4,)
    dy[0] += g
    # adjoint of golden_files.py  y[1:] = x[:-1] ** 2
    dx = np.copy(dy)                        # (4,)
    dx[:-1] += 2 * dy[1:] * x[:-1]
    # adjoint of golden_files.py  y[0] = 2 * x[1]
    dx[1] += 2 * dy[0]
    return dx
