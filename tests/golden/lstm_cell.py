import numpy as np


def lstm_cell_adjoint(g, x, h, c, Wx, Wh, b):
    """Adjoint of lstm_cell (golden_files.py).

    g[0] (2, 4), g[1] (2, 4), x (2, 3), h (2, 4), c (2, 4), Wx (3, 16), Wh (4, 16), b (16,) -> dx (2, 3),
    dh (2, 4), dc (2, 4), dWx (3, 16), dWh (4, 16), db (16,); float64
    """
    # golden_files.py  i, f, o, u = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    added = x @ Wx + h @ Wh + b                           # (2, 16)
    i = added[:, 0:4]                                     # (2, 4)
    f = added[:, 4:8]                                     # (2, 4)
    o = added[:, 8:12]                                    # (2, 4)
    u = added[:, 12:16]                                   # (2, 4)
    # golden_files.py  c = 1 / (1 + np.exp(-f)) * c + 1 / (1 + np.exp(-i)) * np.tanh(u)
    exp = np.exp(-f)                                      # (2, 4)
    ratio = 1 / (1 + exp)                                 # (2, 4)
    product = ratio * c                                   # (2, 4)
    exp_2 = np.exp(-i)                                    # (2, 4)
    ratio_2 = 1 / (1 + exp_2)                             # (2, 4)
    tanh = np.tanh(u)                                     # (2, 4)
    product_2 = ratio_2 * tanh                            # (2, 4)
    c_2 = product + product_2                             # (2, 4)
    # golden_files.py  return np.tanh(c) / (1 + np.exp(-o)), c
    tanh_2 = np.tanh(c_2)                                 # (2, 4)
    exp_3 = np.exp(-o)                                    # (2, 4)
    added_2 = 1 + exp_3                                   # (2, 4)

    # adjoint of golden_files.py
    do = g[0] * exp_3 * (tanh_2 / added_2) / added_2      # (2, 4)
    dc_2 = g[1] + g[0] * (1 - tanh_2 * tanh_2) / added_2  # (2, 4)
    # adjoint of golden_files.py
    dtanh = dc_2 * ratio_2                                # (2, 4)
    du = dtanh * (1 - tanh * tanh)                        # (2, 4)
    di = dtanh * exp_2 * product_2                        # (2, 4)
    dc = dc_2 * ratio                                     # (2, 4)
    df = dc * exp * product                               # (2, 4)
    # adjoint of golden_files.py
    dadded = np.zeros_like(added)                         # (2, 16)
    dadded[:, 12:] = du
    dadded[:, 8:12] = do
    dadded[:, 4:8] = df
    dadded[:, :4] = di
    db = np.sum(dadded, axis=0)                           # (16,)
    dh = dadded @ Wh.T                                    # (2, 4)
    dWh = h.T @ dadded                                    # (4, 16)
    dx = dadded @ Wx.T                                    # (2, 3)
    dWx = x.T @ dadded                                    # (3, 16)
    return dx, dh, dc, dWx, dWh, db
