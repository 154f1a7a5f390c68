import numpy as np


def two_layers_adjoint(g, x, W1, b1, W2, b2):
    """Adjoint of two_layers (golden_files.py).

    g (5, 2), x (5, 3), W1 (3, 4), b1 (4,), W2 (4, 2), b2 (2,) -> dx (5, 3), dW1 (3, 4), db1 (4,), dW2 (4, 2),
    db2 (2,); float64
    """
    # golden_files.py  h = np.maximum(0, np.dot(x, W1) + b1)
    added = x @ W1 + b1                               # (5, 4)
    h = np.maximum(0, added)                          # (5, 4)

    # adjoint of golden_files.py  scores = np.dot(h, W2) + b2
    db2 = np.sum(g, axis=0)                           # (2,)
    dh = g @ W2.T                                     # (5, 4)
    dW2 = h.T @ g                                     # (4, 2)
    # adjoint of golden_files.py
    dadded = dh * ((added > 0) + 0.5 * (added == 0))  # (5, 4)
    db1 = np.sum(dadded, axis=0)                      # (4,)
    dx = dadded @ W1.T                                # (5, 3)
    dW1 = x.T @ dadded                                # (3, 4)
    return dx, dW1, db1, dW2, db2
