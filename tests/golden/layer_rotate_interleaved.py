import numpy as np


def rotate_interleaved_adjoint(g, x, cos, sin):
    """Adjoint of rotate_interleaved (rope.py).

    g (2, 4, 3, 4), x (2, 4, 3, 4), cos (3, 2), sin (3, 2) -> dx (2, 4, 3, 4), dcos (3, 2), dsin (3, 2);
    float64
    """
    # rope.py  x1, x2 = x[..., 0::2], x[..., 1::2]
    x1 = x[..., 0::2]                                            # (2, 4, 3, 2)
    x2 = x[..., 1::2]                                            # (2, 4, 3, 2)

    # adjoint of rope.py  return np.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).reshape( ...
    reshaped = np.reshape(g, (2, 4, 3, 2, 2))                    # (2, 4, 3, 2, 2)
    dx2 = reshaped[..., 1] * cos - reshaped[..., 0] * sin        # (2, 4, 3, 2)
    total = np.sum(reshaped[..., 1] * x1, axis=(0, 1))           # (3, 2)
    dsin = total - np.sum(reshaped[..., 0] * x2, axis=(0, 1))    # (3, 2)
    dx1 = reshaped[..., 1] * sin + reshaped[..., 0] * cos        # (2, 4, 3, 2)
    total_2 = np.sum(reshaped[..., 1] * x2, axis=(0, 1))         # (3, 2)
    dcos = total_2 + np.sum(reshaped[..., 0] * x1, axis=(0, 1))  # (3, 2)
    # adjoint of rope.py
    dx = np.zeros_like(x)                                        # (2, 4, 3, 4)
    dx[..., 1::2] = dx2
    dx[..., 0::2] = dx1
    return dx, dcos, dsin
