import numpy as np


def layer_norm_adjoint(g, x, weight, bias):
    """Adjoint of layer_norm (layers.py).

    g (2, 3, 6), x (2, 3, 6), weight (6,), bias (6,) -> dx (2, 3, 6), dweight (6,), dbias (6,); float64
    """
    eps = 1e-5
    # layers.py
    centred = x - np.mean(x, axis=-1, keepdims=True)               # (2, 3, 6)
    # layers.py
    variance = np.mean(centred * centred, axis=-1, keepdims=True)  # (2, 3, 1)
    # layers.py  return centred / np.sqrt(variance + eps) * weight + bias
    root = np.sqrt(variance + eps)                                 # (2, 3, 1)
    ratio = centred / root                                         # (2, 3, 6)

    # adjoint of layers.py
    dbias = np.sum(g, axis=(0, 1))                                 # (6,)
    dratio = g * weight                                            # (2, 3, 6)
    dweight = np.sum(g * ratio, axis=(0, 1))                       # (6,)
    # adjoint of layers.py
    dcentred = (dratio - ratio * np.mean(dratio * ratio, axis=-1, keepdims=True)) / root  # (2, 3, 6)
    # adjoint of layers.py
    dx = dcentred - np.mean(dcentred, axis=-1, keepdims=True)      # (2, 3, 6)
    return dx, dweight, dbias
