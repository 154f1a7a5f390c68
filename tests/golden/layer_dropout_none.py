import numpy as np


def dropout_adjoint(g, x):
    """Adjoint of dropout (golden_files.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    """
    dx = np.copy(g)  # (2, 3, 6)
    return dx
