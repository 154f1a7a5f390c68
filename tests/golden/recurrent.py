import numpy as np


def forward_adjoint(g, x, h, Wx, Wh, b):
    """Adjoint of forward (golden_files.py).

    g (2, 4), x (2, 2, 3), h (2, 4) -> dx (2, 2, 3), dh (2, 4); float64
    Wx (3, 4), Wh (4, 4), b (4,): constants of forward; `emit_adjoint(...).constants` has them.
    """
    # golden_files.py  h = np.tanh(x[:, t] @ self.Wx + h @ self.Wh + self.b)
    h_2 = np.tanh(x[:, 0] @ Wx + h @ Wh + b)    # (2, 4)
    h_3 = np.tanh(x[:, 1] @ Wx + h_2 @ Wh + b)  # (2, 4)

    # adjoint of golden_files.py
    dadded = g * (1 - h_3 * h_3)                # (2, 4)
    dh_2 = dadded @ Wh.T                        # (2, 4)
    dadded_2 = dh_2 * (1 - h_2 * h_2)           # (2, 4)
    dh = dadded_2 @ Wh.T                        # (2, 4)
    dx = np.zeros_like(x)                       # (2, 2, 3)
    dx[:, 1] = dadded @ Wx.T
    dx[:, 0] = dadded_2 @ Wx.T
    return dx, dh
