import numpy as np


def convolution_adjoint(g, x, w, b):
    """Adjoint of convolution (golden_files.py).

    g (3,), x (4,), w (2,), b () -> dx (4,), dw (2,), db (); float64
    """
    # adjoint of golden_files.py  out[i] = np.sum(x[i : i + k] * w) + b
    dout = np.copy(g)                                           # (3,)
    dout[2] = 0
    dout_2 = np.copy(dout)                                      # (3,)
    dout_2[1] = 0
    dx = np.zeros(4)                                            # (4,)
    dx[2:4] = g[2] * w
    dx[1:3] += dout[1] * w
    db = g[2] + dout[1] + dout_2[0]                             # ()
    dw = g[2] * x[2:4] + dout[1] * x[1:3] + dout_2[0] * x[0:2]  # (2,)
    dx[0:2] += dout_2[0] * w
    return dx, dw, db
