import numpy as np


def causal_attention_weights_adjoint(g, x, wq, wk):
    """Adjoint of causal_attention_weights (attention.py).

    g (2, 3, 3), x (2, 3, 6), wq (6, 4), wk (6, 4) -> dx (2, 3, 6), dwq (6, 4), dwk (6, 4); float64
    """
    # layers.py  return x @ weight
    linear = x @ wq                                                  # (2, 3, 4)
    linear_2 = x @ wk                                                # (2, 3, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = linear @ np.swapaxes(linear_2, -1, -2) * 0.5            # (2, 3, 3)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(np.tri(3, dtype=bool), scores, -np.inf)        # (2, 3, 3)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                     # (2, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))            # (2, 3, 3)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                        # (2, 3, 1)
    # attention.py  return e / (total + (total == 0))
    out = e / (total + (total == 0))                                 # (2, 3, 3)

    # adjoint of attention.py
    dhidden = out * (g - np.sum(g * out, axis=-1, keepdims=True))    # (2, 3, 3)
    # adjoint of attention.py
    dscores = np.where(np.tri(3, dtype=bool), dhidden, 0)            # (2, 3, 3)
    # adjoint of attention.py
    dproduct = 0.5 * dscores                                         # (2, 3, 3)
    dlinear = dproduct @ linear_2                                    # (2, 3, 4)
    dlinear_2 = np.swapaxes(dproduct, -1, -2) @ linear               # (2, 3, 4)
    # adjoint of layers.py
    dwk = np.reshape(x, (-1, 6)).T @ np.reshape(dlinear_2, (-1, 4))  # (6, 4)
    dx = dlinear_2 @ wk.T + dlinear @ wq.T                           # (2, 3, 6)
    dwq = np.reshape(x, (-1, 6)).T @ np.reshape(dlinear, (-1, 4))    # (6, 4)
    return dx, dwq, dwk
