import numpy as np


def f_adjoint(g, x, ids):
    """Adjoint of <lambda> (golden_files.py).

    g (2, 3), x (2, 3), ids (3,) int64 -> dx (2, 3); float64
    """
    # adjoint of golden_files.py  "op_take": (lambda x, ids: np.take(x, ids, axis=1), args(normal(2, 3 ...
    dx = np.zeros_like(x)  # (2, 3)
    np.add.at(dx, np.s_[:, ids], g)
    return dx
