import numpy as np


def sort_adjoint(g, a):
    """Adjoint of sort.

    g (4,), a (4,) -> da (4,); float64
    """
    da = np.zeros_like(a)  # (4,)
    np.add.at(da, np.argsort(a, kind="stable"), g)
    return da
