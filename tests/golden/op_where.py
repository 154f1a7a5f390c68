import numpy as np


def f_adjoint(g, x):
    """Adjoint of <lambda> (golden_files.py).

    g (4,), x (4,) -> dx (4,); float64
    """
    # golden_files.py  "op_where": (lambda x: np.where(x > 0, np.exp(x), 2 * x), args(normal(4))),
    greater = x > 0                                                         # (4,) bool

    # adjoint of golden_files.py
    dx = 2 * np.where(greater, 0, g) + np.where(greater, g, 0) * np.exp(x)  # (4,)
    return dx
