import numpy as np


def zero_centred_rms_norm_adjoint(g, x, weight):
    """Adjoint of zero_centred_rms_norm (layers.py).

    g (2, 3, 6), x (2, 3, 6), weight (6,) -> dx (2, 3, 6), dweight (6,); float64
    """
    eps = 1e-6
    # layers.py  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)  # (2, 3, 1)
    rmsnorm = x / root                                            # (2, 3, 6)

    # adjoint of layers.py  return rmsnorm(x, eps) * (1 + weight)
    drmsnorm = g * (1 + weight)                                   # (2, 3, 6)
    dweight = np.sum(g * rmsnorm, axis=(0, 1))                    # (6,)
    # adjoint of layers.py
    dx = (drmsnorm - rmsnorm * np.mean(drmsnorm * rmsnorm, axis=-1, keepdims=True)) / root  # (2, 3, 6)
    return dx, dweight
