import numpy as np


def windows_adjoint(g, x, w):
    """Adjoint of windows (golden_files.py).

    g (2, 7), x (2, 9), w (3,) -> dx (2, 9), dw (3,); float64
    """
    # adjoint of golden_files.py  return np.lib.stride_tricks.sliding_window_view(x, 3, axis=1) @ w
    dsliding_window_view = g[..., None] * w  # (2, 7, 3)
    product = g[..., None] * np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)  # (2, 7, 3)
    dw = np.sum(product, axis=(0, 1))        # (3,)
    dx = np.zeros_like(x)                    # (2, 9)
    dx[:, :7] = dsliding_window_view[..., 0]
    dx[:, 1:8] += dsliding_window_view[..., 1]
    dx[:, 2:] += dsliding_window_view[..., 2]
    return dx, dw
