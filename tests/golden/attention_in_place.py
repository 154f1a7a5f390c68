import numpy as np


def attention_in_place_adjoint(g, q, k, v, mask):
    """Adjoint of attention_in_place (golden_files.py).

    g (2, 3, 4), q (2, 3, 4), k (2, 3, 4), v (2, 3, 4), mask (3, 3) bool -> dq (2, 3, 4), dk (2, 3, 4),
    dv (2, 3, 4); float64
    """
    # golden_files.py  s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    s = q @ np.swapaxes(k, -1, -2) / 2.0                              # (2, 3, 3)
    # golden_files.py  s[:, ~mask] = -1e9
    invert = ~mask                                                    # (3, 3) bool
    s[:, invert] = -1e9
    # golden_files.py  s -= np.max(s, axis=-1, keepdims=True)
    s_2 = s - np.max(s, axis=-1, keepdims=True)                       # (2, 3, 3)
    # golden_files.py  p = np.exp(s)
    p = np.exp(s_2)                                                   # (2, 3, 3)
    # golden_files.py  p /= np.sum(p, axis=-1, keepdims=True)
    p_2 = p / np.sum(p, axis=-1, keepdims=True)                       # (2, 3, 3)

    # adjoint of golden_files.py  return p @ v
    dp_2 = g @ np.swapaxes(v, -1, -2)                                 # (2, 3, 3)
    dv = np.swapaxes(p_2, -1, -2) @ g                                 # (2, 3, 4)
    # adjoint of golden_files.py
    ds_2 = p_2 * (dp_2 - np.sum(dp_2 * p_2, axis=-1, keepdims=True))  # (2, 3, 3)
    # adjoint of golden_files.py
    ds_2[:, invert] = 0
    # adjoint of golden_files.py
    dproduct = ds_2 / 2.0                                             # (2, 3, 3)
    dq = dproduct @ k                                                 # (2, 3, 4)
    dk = np.swapaxes(dproduct, -1, -2) @ q                            # (2, 3, 4)
    return dq, dk, dv
