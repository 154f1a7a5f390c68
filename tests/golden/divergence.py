import numpy as np


def divergence_adjoint(g, p, q):
    """Adjoint of divergence (golden_files.py).

    g (), p (4,), q (4,) -> dp (4,), dq (4,); float64
    """
    # golden_files.py  return np.sum(p * np.log(p / q))
    ratio = p / q                        # (4,)

    # adjoint of golden_files.py
    dratio = g * p / ratio               # (4,)
    dp = g * np.log(ratio) + dratio / q  # (4,)
    dq = -dratio * ratio / q             # (4,)
    return dp, dq
