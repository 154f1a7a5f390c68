import numpy as np


def rotation_in_place_adjoint(g, x, cos, sin):
    """Adjoint of rotation_in_place (golden_files.py).

    g (2, 4, 6), x (2, 4, 6), cos (4, 3), sin (4, 3) -> dx (2, 4, 6), dcos (4, 3), dsin (4, 3); float64
    """
    # adjoint of golden_files.py  out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    dx = np.zeros_like(x)                                         # (2, 4, 6)
    dx[..., 1::2] = g[..., 1::2] * cos
    dx[..., 0::2] = g[..., 1::2] * sin
    total = np.sum(g[..., 1::2] * x[..., 0::2], axis=0)           # (4, 3)
    # adjoint of golden_files.py  out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    dsin = total - np.sum(g[..., 0::2] * x[..., 1::2], axis=0)    # (4, 3)
    dx[..., 1::2] -= g[..., 0::2] * sin
    # adjoint of golden_files.py
    total_2 = np.sum(g[..., 1::2] * x[..., 1::2], axis=0)         # (4, 3)
    # adjoint of golden_files.py
    dcos = total_2 + np.sum(g[..., 0::2] * x[..., 0::2], axis=0)  # (4, 3)
    dx[..., 0::2] += g[..., 0::2] * cos
    return dx, dcos, dsin
