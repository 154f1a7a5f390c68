import numpy as np


def masked_softmax_adjoint(g, scores):
    """Adjoint of masked_softmax (attention.py).

    g (2, 3, 5), scores (2, 3, 5) -> dscores (2, 3, 5); float64
    """
    # layers.py  e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))    # (2, 3, 5)
    # layers.py  return e / np.sum(e, axis=-1, keepdims=True)
    out = e / np.sum(e, axis=-1, keepdims=True)                    # (2, 3, 5)

    # adjoint of layers.py
    dscores = out * (g - np.sum(g * out, axis=-1, keepdims=True))  # (2, 3, 5)
    return dscores
