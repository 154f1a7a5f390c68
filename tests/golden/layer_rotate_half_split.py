import numpy as np


def rotate_half_split_adjoint(g, x, cos, sin):
    """Adjoint of rotate_half_split (rope.py).

    g (2, 4, 3, 4), x (2, 4, 3, 4), cos (3, 2), sin (3, 2) -> dx (2, 4, 3, 4), dcos (3, 2), dsin (3, 2);
    float64
    """
    # rope.py  x1, x2 = x[..., :half], x[..., half:]
    x1 = x[..., :2]                            # (2, 4, 3, 2)
    x2 = x[..., 2:]                            # (2, 4, 3, 2)

    # adjoint of rope.py  return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)
    dx2 = g[..., 2:] * cos - g[..., :2] * sin  # (2, 4, 3, 2)
    dsin = np.sum(g[..., 2:] * x1, axis=(0, 1)) - np.sum(g[..., :2] * x2, axis=(0, 1))  # (3, 2)
    dx1 = g[..., 2:] * sin + g[..., :2] * cos  # (2, 4, 3, 2)
    dcos = np.sum(g[..., 2:] * x2, axis=(0, 1)) + np.sum(g[..., :2] * x1, axis=(0, 1))  # (3, 2)
    # adjoint of rope.py
    dx = np.zeros_like(x)                      # (2, 4, 3, 4)
    dx[..., 2:] = dx2
    dx[..., :2] = dx1
    return dx, dcos, dsin
