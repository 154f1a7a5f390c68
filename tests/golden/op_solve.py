import numpy as np


def solve_adjoint(g, a, b):
    """Adjoint of solve.

    g (3,), a (3, 3), b (3,) -> da (3, 3), db (3,); float64
    """
    db = np.linalg.solve(a.T, g[..., None])[..., 0]            # (3,)
    da = -db[..., None] * np.linalg.solve(a, b)[..., None, :]  # (3, 3)
    return da, db
