import numpy as np


def std_adjoint(g, a):
    """Adjoint of std.

    g (3,), a (2, 3) -> da (2, 3); float64
    """
    out = np.std(a, axis=0)  # (3,)

    equal = out == 0         # (3,) bool
    da = np.where(equal, 0, g) * (a - np.mean(a, axis=0)) / (2 * np.where(equal, 1, out))  # (2, 3)
    return da
