import numpy as np


def multi_head_attention_adjoint(g, x, weights):
    """Adjoint of multi_head_attention (golden_files.py).

    g (2, 3, 6), x (2, 3, 6), weights["k"] (6, 8), weights["o"] (16, 6), weights["q"] (6, 16),
    weights["v"] (6, 8) -> dx (2, 3, 6), dweights_k (6, 8), dweights_o (16, 6), dweights_q (6, 16),
    dweights_v (6, 8); float64
    """
    # attention.py  return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2 ...
    q = np.swapaxes(np.reshape(x @ weights["q"], (2, 3, 4, 4)), -2, -3)     # (2, 4, 3, 4)
    k = np.swapaxes(np.reshape(x @ weights["k"], (2, 3, 2, 4)), -2, -3)     # (2, 2, 3, 4)
    v = np.swapaxes(np.reshape(x @ weights["v"], (2, 3, 2, 4)), -2, -3)     # (2, 2, 3, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                               # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k, -1, -2) * 0.5                     # (2, 2, 6, 3)
    # attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    unfold_groups = np.reshape(scores, (2, 4, 3, 3))                        # (2, 4, 3, 3)
    # layers.py  e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    e = np.exp(unfold_groups - np.max(unfold_groups, axis=-1, keepdims=True))  # (2, 4, 3, 3)
    # layers.py  return e / np.sum(e, axis=-1, keepdims=True)
    weights_2 = e / np.sum(e, axis=-1, keepdims=True)                       # (2, 4, 3, 3)
    # attention.py
    fold_groups_2 = np.reshape(weights_2, (2, 2, 6, 3))                     # (2, 2, 6, 3)
    # attention.py  x = np.swapaxes(x, -2, -3)
    x_2 = np.swapaxes(np.reshape(fold_groups_2 @ v, (2, 4, 3, 4)), -2, -3)  # (2, 3, 4, 4)

    # adjoint of layers.py  return x @ weight
    dout = g @ weights["o"].T                                               # (2, 3, 16)
    dweights_o = np.reshape(x_2, (6, 16)).T @ np.reshape(g, (-1, 6))        # (16, 6)
    # adjoint of attention.py  return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    dx_2 = np.reshape(dout, x_2.shape)                                      # (2, 3, 4, 4)
    # adjoint of attention.py
    dproduct = np.reshape(np.swapaxes(dx_2, -2, -3), (2, 2, 6, 4))          # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv = np.swapaxes(fold_groups_2, -1, -2) @ dproduct                      # (2, 2, 3, 4)
    # adjoint of attention.py
    dweights_2 = np.reshape(dproduct @ np.swapaxes(v, -1, -2), weights_2.shape)  # (2, 4, 3, 3)
    # adjoint of layers.py
    difference = dweights_2 - np.sum(dweights_2 * weights_2, axis=-1, keepdims=True)  # (2, 4, 3, 3)
    # adjoint of attention.py
    dscores = np.reshape(weights_2 * difference, scores.shape)              # (2, 2, 6, 3)
    # adjoint of attention.py
    dproduct_2 = 0.5 * dscores                                              # (2, 2, 6, 3)
    dk = np.swapaxes(dproduct_2, -1, -2) @ fold_groups                      # (2, 2, 3, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct_2 @ k, q.shape)                                # (2, 4, 3, 4)
    # adjoint of layers.py
    dweights_v = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dv, -2, -3), (6, 8))  # (6, 8)
    product = np.reshape(np.swapaxes(dv, -2, -3), (2, 3, 8)) @ weights["v"].T  # (2, 3, 6)
    product_2 = np.reshape(np.swapaxes(dk, -2, -3), (2, 3, 8)) @ weights["k"].T  # (2, 3, 6)
    dweights_k = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dk, -2, -3), (6, 8))  # (6, 8)
    product_3 = np.reshape(np.swapaxes(dq, -2, -3), (2, 3, 16)) @ weights["q"].T  # (2, 3, 6)
    dx = product + product_2 + product_3                                    # (2, 3, 6)
    dweights_q = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dq, -2, -3), (6, 16))  # (6, 16)
    return dx, {"k": dweights_k, "o": dweights_o, "q": dweights_q, "v": dweights_v}
