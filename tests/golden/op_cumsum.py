import numpy as np


def cumsum_adjoint(g, a):
    """Adjoint of cumsum.

    g (2, 3), a (2, 3) -> da (2, 3); float64
    """
    da = np.cumsum(g[:, ::-1], axis=1)[:, ::-1]  # (2, 3)
    return da
