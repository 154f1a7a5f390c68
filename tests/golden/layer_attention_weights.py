import numpy as np


def attention_weights_adjoint(g, q, k, mask):
    """Adjoint of attention_weights (attention.py).

    g (2, 4, 3, 5), q (2, 4, 3, 4), k (2, 4, 5, 4), mask (3, 5) bool -> dq (2, 4, 3, 4), dk (2, 4, 5, 4);
    float64
    """
    # attention.py  seen = np.any(np.atleast_2d(allowed), axis=-2)
    seen = np.any(mask, axis=-2)                                   # (5,) bool
    # attention.py  return np.where(seen[..., None], x, 0)
    k_2 = np.where(seen[..., None], k, 0)                          # (2, 4, 5, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = q @ np.swapaxes(k_2, -1, -2) * 0.5                    # (2, 4, 3, 5)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(mask, scores, -np.inf)                       # (2, 4, 3, 5)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                   # (2, 4, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))          # (2, 4, 3, 5)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                      # (2, 4, 3, 1)
    # attention.py  return e / (total + (total == 0))
    out = e / (total + (total == 0))                               # (2, 4, 3, 5)

    # adjoint of attention.py
    dhidden = out * (g - np.sum(g * out, axis=-1, keepdims=True))  # (2, 4, 3, 5)
    # adjoint of attention.py
    dscores = np.where(mask, dhidden, 0)                           # (2, 4, 3, 5)
    # adjoint of attention.py
    dproduct = 0.5 * dscores                                       # (2, 4, 3, 5)
    dq = dproduct @ k_2                                            # (2, 4, 3, 4)
    dk_2 = np.swapaxes(dproduct, -1, -2) @ q                       # (2, 4, 5, 4)
    # adjoint of attention.py
    dk = np.where(seen[..., None], dk_2, 0)                        # (2, 4, 5, 4)
    return dq, dk
