import numpy as np


def causal_attention_adjoint(g, x, wq, wk, wv):
    """Adjoint of causal_attention (attention.py).

    g (2, 3, 4), x (2, 3, 6), wq (6, 4), wk (6, 4), wv (6, 4) -> dx (2, 3, 6), dwq (6, 4), dwk (6, 4),
    dwv (6, 4); float64
    """
    # layers.py  return x @ weight
    q = x @ wq                                                 # (2, 3, 4)
    k = x @ wk                                                 # (2, 3, 4)
    v = x @ wv                                                 # (2, 3, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = q @ np.swapaxes(k, -1, -2) * 0.5                  # (2, 3, 3)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(np.tri(3, dtype=bool), scores, -np.inf)  # (2, 3, 3)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)               # (2, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))      # (2, 3, 3)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                  # (2, 3, 1)
    # attention.py  return e / (total + (total == 0))
    weights = e / (total + (total == 0))                       # (2, 3, 3)

    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dweights = g @ np.swapaxes(v, -1, -2)                      # (2, 3, 3)
    dv = np.swapaxes(weights, -1, -2) @ g                      # (2, 3, 4)
    # adjoint of attention.py
    dhidden = weights * (dweights - np.sum(dweights * weights, axis=-1, keepdims=True))  # (2, 3, 3)
    # adjoint of attention.py
    dscores = np.where(np.tri(3, dtype=bool), dhidden, 0)      # (2, 3, 3)
    # adjoint of attention.py
    dproduct = 0.5 * dscores                                   # (2, 3, 3)
    dq = dproduct @ k                                          # (2, 3, 4)
    dk = np.swapaxes(dproduct, -1, -2) @ q                     # (2, 3, 4)
    # adjoint of layers.py
    dwv = np.reshape(x, (-1, 6)).T @ np.reshape(dv, (-1, 4))   # (6, 4)
    dwk = np.reshape(x, (-1, 6)).T @ np.reshape(dk, (-1, 4))   # (6, 4)
    dx = dv @ wv.T + dk @ wk.T + dq @ wq.T                     # (2, 3, 6)
    dwq = np.reshape(x, (-1, 6)).T @ np.reshape(dq, (-1, 4))   # (6, 4)
    return dx, dwq, dwk, dwv
