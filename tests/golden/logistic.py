import numpy as np


def logistic_adjoint(g, w, X, y):
    """Adjoint of logistic (golden_files.py).

    g (), w (3,), X (5, 3), y (5,) -> dw (3,), dX (5, 3); float64
    """
    # golden_files.py
    z = X @ w                                                      # (5,)
    # golden_files.py  p = 1 / (1 + np.exp(-z))
    exp = np.exp(-z)                                               # (5,)
    added = 1 + exp                                                # (5,)
    p = 1 / added                                                  # (5,)

    # adjoint of golden_files.py
    dz = -g * p * exp * (y / p - (1 - y) / (1 - p)) / (5 * added)  # (5,)
    # adjoint of golden_files.py
    dX = w * dz[..., None]                                         # (5, 3)
    dw = X.T @ dz                                                  # (3,)
    return dw, dX
