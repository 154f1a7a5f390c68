import numpy as np


def attention_with_dropout_adjoint(g, q, k, v):
    """Adjoint of attention_with_dropout (golden_files.py).

    g (2, 4, 3, 4), q (2, 4, 3, 4), k (2, 2, 5, 4), v (2, 2, 5, 4) -> dq (2, 4, 3, 4), dk (2, 2, 5, 4),
    dv (2, 2, 5, 4); float64
    """
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                          # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k, -1, -2) * 0.5                # (2, 2, 6, 5)
    # attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    unfold_groups = np.reshape(scores, (2, 4, 3, 5))                   # (2, 4, 3, 5)
    # layers.py  e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    e = np.exp(unfold_groups - np.max(unfold_groups, axis=-1, keepdims=True))  # (2, 4, 3, 5)
    # layers.py  return e / np.sum(e, axis=-1, keepdims=True)
    weights = e / np.sum(e, axis=-1, keepdims=True)                    # (2, 4, 3, 5)

    # adjoint of attention.py
    dx = np.reshape(g, (2, 2, 6, 4))                                   # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv = np.swapaxes(np.reshape(weights, (2, 2, 6, 5)), -1, -2) @ dx   # (2, 2, 5, 4)
    # adjoint of attention.py
    dweights = np.reshape(dx @ np.swapaxes(v, -1, -2), weights.shape)  # (2, 4, 3, 5)
    # adjoint of layers.py
    difference = dweights - np.sum(dweights * weights, axis=-1, keepdims=True)  # (2, 4, 3, 5)
    # adjoint of attention.py
    dscores = np.reshape(weights * difference, scores.shape)           # (2, 2, 6, 5)
    # adjoint of attention.py
    dproduct = 0.5 * dscores                                           # (2, 2, 6, 5)
    dk = np.swapaxes(dproduct, -1, -2) @ fold_groups                   # (2, 2, 5, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct @ k, q.shape)                             # (2, 4, 3, 4)
    return dq, dk, dv
