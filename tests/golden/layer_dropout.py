import numpy as np


def dropout_adjoint(g, x, keep):
    """Adjoint of dropout (golden_files.py).

    g (2, 3, 6), x (2, 3, 6) -> dx (2, 3, 6); float64
    keep (2, 3, 6) bool: constants of dropout; `emit_adjoint(...).constants` has them.
    """
    # adjoint of layers.py  return np.where(keep, x, 0) * (0.0 if rate == 1 else 1 / (1 - float(rate)))
    dx = np.where(keep, 10 / 7 * g, 0)  # (2, 3, 6)
    return dx
