import numpy as np


def attention_with_dropout_adjoint(g, q, k, v, mask, keep):
    """Adjoint of attention_with_dropout (golden_files.py).

    g (2, 4, 3, 4), q (2, 4, 3, 4), k (2, 2, 5, 4), v (2, 2, 5, 4), mask (3, 5) bool -> dq (2, 4, 3, 4),
    dk (2, 2, 5, 4), dv (2, 2, 5, 4); float64
    keep (2, 4, 3, 5) bool: constants of attention_with_dropout; `emit_adjoint(...).constants` has them.
    """
    # attention.py  seen = np.any(np.atleast_2d(allowed), axis=-2)
    seen = np.any(mask, axis=-2)                                         # (5,) bool
    # attention.py  return np.where(seen[..., None], x, 0)
    k_2 = np.where(seen[..., None], k, 0)                                # (2, 2, 5, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                            # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k_2, -1, -2) * 0.5                # (2, 2, 6, 5)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(mask, np.reshape(scores, (2, 4, 3, 5)), -np.inf)   # (2, 4, 3, 5)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                         # (2, 4, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))                # (2, 4, 3, 5)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                            # (2, 4, 3, 1)
    # attention.py  return e / (total + (total == 0))
    masked_softmax = e / (total + (total == 0))                          # (2, 4, 3, 5)
    # layers.py  return np.where(keep, x, 0) * (0.0 if rate == 1 else 1 / (1 - float(rate)))
    weights = np.where(keep, masked_softmax, 0) * (10 / 7)               # (2, 4, 3, 5)
    # attention.py
    v_2 = np.where(seen[..., None], v, 0)                                # (2, 2, 5, 4)

    # adjoint of attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    dx = np.reshape(g, (2, 2, 6, 4))                                     # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv_2 = np.swapaxes(np.reshape(weights, (2, 2, 6, 5)), -1, -2) @ dx   # (2, 2, 5, 4)
    # adjoint of attention.py
    dweights = np.reshape(dx @ np.swapaxes(v_2, -1, -2), weights.shape)  # (2, 4, 3, 5)
    # adjoint of attention.py
    dv = np.where(seen[..., None], dv_2, 0)                              # (2, 2, 5, 4)
    # adjoint of layers.py
    dmasked_softmax = np.where(keep, 10 / 7 * dweights, 0)               # (2, 4, 3, 5)
    # adjoint of attention.py
    total_2 = np.sum(dmasked_softmax * masked_softmax, axis=-1, keepdims=True)  # (2, 4, 3, 1)
    # adjoint of attention.py
    dhidden = masked_softmax * (dmasked_softmax - total_2)               # (2, 4, 3, 5)
    # adjoint of attention.py
    dscores = np.reshape(np.where(mask, dhidden, 0), scores.shape)       # (2, 2, 6, 5)
    # adjoint of attention.py
    dproduct = 0.5 * dscores                                             # (2, 2, 6, 5)
    dk_2 = np.swapaxes(dproduct, -1, -2) @ fold_groups                   # (2, 2, 5, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct @ k_2, q.shape)                             # (2, 4, 3, 4)
    # adjoint of attention.py
    dk = np.where(seen[..., None], dk_2, 0)                              # (2, 2, 5, 4)
    return dq, dk, dv
