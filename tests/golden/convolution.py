import numpy as np


def convolution_adjoint(g, x, w, b):
    """Adjoint of convolution (golden_files.py).

    g (3,), x (4,), w (2,), b () -> dx (4,), dw (2,), db (); float64
    """
    # adjoint of golden_files.py  out[i] = np.sum(x[i : i + k] * w) + b
    dx = np.zeros_like(x)                               # (4,)
    dx[2:4] = g[2] * w
    dx[1:3] += g[1] * w
    db = g[2] + g[1] + g[0]                             # ()
    dw = g[2] * x[2:4] + g[1] * x[1:3] + g[0] * x[0:2]  # (2,)
    dx[0:2] += g[0] * w
    return dx, dw, db
