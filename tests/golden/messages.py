import numpy as np


def messages_adjoint(g, h, source, target):
    """Adjoint of messages (golden_files.py).

    g (4, 3), h (4, 3), source (3,) int64, target (3,) int64 -> dh (4, 3); float64
    """
    # golden_files.py
    m = np.zeros_like(h)        # (4, 3)
    # golden_files.py
    np.add.at(m, target, h[source])
    # golden_files.py  return np.tanh(h + m)
    out = np.tanh(h + m)        # (4, 3)

    # adjoint of golden_files.py
    dm_2 = g * (1 - out * out)  # (4, 3)
    # adjoint of golden_files.py
    dh = np.copy(dm_2)          # (4, 3)
    np.add.at(dh, source, dm_2[target])
    return dh
