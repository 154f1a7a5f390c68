import numpy as np


def multi_head_with_dropout_adjoint(g, x, weights, mask, keep):
    """Adjoint of multi_head_with_dropout (golden_files.py).

    g (2, 3, 6), x (2, 3, 6), weights["k"] (6, 8), weights["o"] (16, 6), weights["q"] (6, 16),
    weights["v"] (6, 8), mask (3, 3) bool -> dx (2, 3, 6), dweights_k (6, 8), dweights_o (16, 6),
    dweights_q (6, 16), dweights_v (6, 8); float64
    keep (2, 4, 3, 3) bool: constants of multi_head_with_dropout; `emit_adjoint(...).constants` has them.
    """
    # attention.py  return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2 ...
    q = np.swapaxes(np.reshape(x @ weights["q"], (2, 3, 4, 4)), -2, -3)  # (2, 4, 3, 4)
    k = np.swapaxes(np.reshape(x @ weights["k"], (2, 3, 2, 4)), -2, -3)  # (2, 2, 3, 4)
    v = np.swapaxes(np.reshape(x @ weights["v"], (2, 3, 2, 4)), -2, -3)  # (2, 2, 3, 4)
    # attention.py  seen = np.any(np.atleast_2d(allowed), axis=-2)
    seen = np.any(mask, axis=-2)                                         # (3,) bool
    # attention.py  return np.where(seen[..., None], x, 0)
    k_2 = np.where(seen[..., None], k, 0)                                # (2, 2, 3, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                            # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k_2, -1, -2) * 0.5                # (2, 2, 6, 3)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(mask, np.reshape(scores, (2, 4, 3, 3)), -np.inf)   # (2, 4, 3, 3)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                         # (2, 4, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))                # (2, 4, 3, 3)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                            # (2, 4, 3, 1)
    # attention.py  return e / (total + (total == 0))
    masked_softmax = e / (total + (total == 0))                          # (2, 4, 3, 3)
    # layers.py  return np.where(keep, x, 0) * (0.0 if rate == 1 else 1 / (1 - float(rate)))
    weights_2 = np.where(keep, masked_softmax, 0) * (10 / 7)             # (2, 4, 3, 3)
    # attention.py
    v_2 = np.where(seen[..., None], v, 0)                                # (2, 2, 3, 4)
    # attention.py
    fold_groups_2 = np.reshape(weights_2, (2, 2, 6, 3))                  # (2, 2, 6, 3)
    # attention.py  x = np.swapaxes(x, -2, -3)
    x_2 = np.swapaxes(np.reshape(fold_groups_2 @ v_2, (2, 4, 3, 4)), -2, -3)  # (2, 3, 4, 4)

    # adjoint of layers.py  return x @ weight
    dout = g @ weights["o"].T                                            # (2, 3, 16)
    dweights_o = np.reshape(x_2, (6, 16)).T @ np.reshape(g, (-1, 6))     # (16, 6)
    # adjoint of attention.py  return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    dx_2 = np.reshape(dout, x_2.shape)                                   # (2, 3, 4, 4)
    # adjoint of attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    dproduct = np.reshape(np.swapaxes(dx_2, -2, -3), (2, 2, 6, 4))       # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv_2 = np.swapaxes(fold_groups_2, -1, -2) @ dproduct                 # (2, 2, 3, 4)
    # adjoint of attention.py
    dweights_2 = np.reshape(dproduct @ np.swapaxes(v_2, -1, -2), weights_2.shape)  # (2, 4, 3, 3)
    # adjoint of attention.py
    dv = np.where(seen[..., None], dv_2, 0)                              # (2, 2, 3, 4)
    # adjoint of layers.py
    dmasked_softmax = np.where(keep, 10 / 7 * dweights_2, 0)             # (2, 4, 3, 3)
    # adjoint of attention.py
    total_2 = np.sum(dmasked_softmax * masked_softmax, axis=-1, keepdims=True)  # (2, 4, 3, 1)
    # adjoint of attention.py
    dhidden = masked_softmax * (dmasked_softmax - total_2)               # (2, 4, 3, 3)
    # adjoint of attention.py
    dscores = np.reshape(np.where(mask, dhidden, 0), scores.shape)       # (2, 2, 6, 3)
    # adjoint of attention.py
    dproduct_2 = 0.5 * dscores                                           # (2, 2, 6, 3)
    dk_2 = np.swapaxes(dproduct_2, -1, -2) @ fold_groups                 # (2, 2, 3, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct_2 @ k_2, q.shape)                           # (2, 4, 3, 4)
    # adjoint of attention.py
    dk = np.where(seen[..., None], dk_2, 0)                              # (2, 2, 3, 4)
    # adjoint of layers.py
    dweights_v = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dv, -2, -3), (6, 8))  # (6, 8)
    product = np.reshape(np.swapaxes(dv, -2, -3), (2, 3, 8)) @ weights["v"].T  # (2, 3, 6)
    product_2 = np.reshape(np.swapaxes(dk, -2, -3), (2, 3, 8)) @ weights["k"].T  # (2, 3, 6)
    dweights_k = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dk, -2, -3), (6, 8))  # (6, 8)
    product_3 = np.reshape(np.swapaxes(dq, -2, -3), (2, 3, 16)) @ weights["q"].T  # (2, 3, 6)
    dx = product + product_2 + product_3                                 # (2, 3, 6)
    dweights_q = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dq, -2, -3), (6, 16))  # (6, 16)
    return dx, {"k": dweights_k, "o": dweights_o, "q": dweights_q, "v": dweights_v}
