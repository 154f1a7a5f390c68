import numpy as np


def damped_adjoint(g, x):
    """Adjoint of damped (golden_files.py).

    g (2, 2, 3), x (2, 2, 3) -> dx (2, 2, 3); float64
    """
    # adjoint of golden_files.py  out[:, :, 0] *= 0.5
    dout = np.copy(g)      # (2, 2, 3)
    dout[:, :, 0] *= 0.5
    # adjoint of golden_files.py  out = np.sin(x)
    dx = dout * np.cos(x)  # (2, 2, 3)
    # adjoint of golden_files.py  out[0][1] += x[1][0]
    dx[1, 0] += g[0, 1]
    return dx
