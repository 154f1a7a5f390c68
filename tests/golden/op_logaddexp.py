import numpy as np


def logaddexp_adjoint(g, x1, x2):
    """Adjoint of logaddexp.

    g (3,), x1 (3,), x2 (3,) -> dx1 (3,), dx2 (3,); float64
    """
    out = np.logaddexp(x1, x2)                                            # (3,)

    equal = x1 == out                                                     # (3,) bool
    exp = np.exp(np.where(equal, 0, x1 - np.where(equal, 0, out)))        # (3,)
    dx1 = g * np.where(x1 == -np.inf, 0, exp)                             # (3,)
    equal_2 = x2 == out                                                   # (3,) bool
    exp_2 = np.exp(np.where(equal_2, 0, x2 - np.where(equal_2, 0, out)))  # (3,)
    dx2 = g * np.where(x2 == -np.inf, 0, exp_2)                           # (3,)
    return dx1, dx2
