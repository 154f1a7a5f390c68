import numpy as np


def masked_softmax_adjoint(g, scores, mask):
    """Adjoint of masked_softmax (attention.py).

    g (2, 3, 5), scores (2, 3, 5), mask (2, 3, 5) -> dscores (2, 3, 5); float64
    """
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = scores + mask                                         # (2, 3, 5)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                   # (2, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))          # (2, 3, 5)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                      # (2, 3, 1)
    # attention.py  return e / (total + (total == 0))
    out = e / (total + (total == 0))                               # (2, 3, 5)

    # adjoint of attention.py
    dscores = out * (g - np.sum(g * out, axis=-1, keepdims=True))  # (2, 3, 5)
    return dscores
