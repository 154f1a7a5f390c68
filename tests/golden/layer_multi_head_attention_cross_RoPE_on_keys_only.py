import numpy as np


def cross_attention_adjoint(g, x, weights, context, k_rope, mask):
    """Adjoint of cross_attention (golden_files.py).

    g (2, 3, 6), x (2, 3, 6), weights["k"] (6, 8), weights["k_norm"] (4,), weights["o"] (16, 6),
    weights["q"] (6, 16), weights["q_norm"] (4,), weights["v"] (6, 8), context (2, 5, 6), k_rope[0] (5, 2),
    k_rope[1] (5, 2), mask (2, 1, 1, 5) bool -> dx (2, 3, 6), dweights_k (6, 8), dweights_k_norm (4,),
    dweights_o (16, 6), dweights_q (6, 16), dweights_q_norm (4,), dweights_v (6, 8), dcontext (2, 5, 6);
    float64
    """
    eps = 1e-6
    # attention.py  return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2 ...
    split_heads = np.swapaxes(np.reshape(x @ weights["q"], (2, 3, 4, 4)), -2, -3)  # (2, 4, 3, 4)
    split_heads_2 = np.swapaxes(np.reshape(context @ weights["k"], (2, 5, 2, 4)), -2, -3)  # (2, 2, 5, 4)
    v = np.swapaxes(np.reshape(context @ weights["v"], (2, 5, 2, 4)), -2, -3)  # (2, 2, 5, 4)
    # layers.py  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    root = np.sqrt(np.mean(split_heads * split_heads, axis=-1, keepdims=True) + eps)  # (2, 4, 3, 1)
    rmsnorm = split_heads / root                                            # (2, 4, 3, 4)
    # layers.py  return rmsnorm(x, eps) * weight
    q = rmsnorm * weights["q_norm"]                                         # (2, 4, 3, 4)
    # layers.py
    root_2 = np.sqrt(np.mean(split_heads_2 * split_heads_2, axis=-1, keepdims=True) + eps)  # (2, 2, 5, 1)
    rmsnorm_2 = split_heads_2 / root_2                                      # (2, 2, 5, 4)
    # layers.py
    rms_norm = rmsnorm_2 * weights["k_norm"]                                # (2, 2, 5, 4)
    # rope.py  x1, x2 = x[..., :half], x[..., half:]
    x1 = rms_norm[..., :2]                                                  # (2, 2, 5, 2)
    x2 = rms_norm[..., 2:]                                                  # (2, 2, 5, 2)
    # rope.py  return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)
    difference = x1 * k_rope[0] - x2 * k_rope[1]                            # (2, 2, 5, 2)
    k = np.concatenate([difference, x2 * k_rope[0] + x1 * k_rope[1]], axis=-1)  # (2, 2, 5, 4)
    # attention.py  seen = np.any(np.atleast_2d(allowed), axis=-2)
    seen = np.any(mask, axis=-2)                                            # (2, 1, 5) bool
    # attention.py  return np.where(seen[..., None], x, 0)
    k_2 = np.where(seen[..., None], k, 0)                                   # (2, 2, 5, 4)
    v_2 = np.where(seen[..., None], v, 0)                                   # (2, 2, 5, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                               # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k_2, -1, -2) * 0.5                   # (2, 2, 6, 5)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(mask, np.reshape(scores, (2, 4, 3, 5)), -np.inf)      # (2, 4, 3, 5)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                            # (2, 4, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))                   # (2, 4, 3, 5)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                               # (2, 4, 3, 1)
    # attention.py  return e / (total + (total == 0))
    weights_2 = e / (total + (total == 0))                                  # (2, 4, 3, 5)
    # attention.py
    fold_groups_2 = np.reshape(weights_2, (2, 2, 6, 5))                     # (2, 2, 6, 5)
    # attention.py  x = np.swapaxes(x, -2, -3)
    x_2 = np.swapaxes(np.reshape(fold_groups_2 @ v_2, (2, 4, 3, 4)), -2, -3)  # (2, 3, 4, 4)

    # adjoint of layers.py  return x @ weight
    dout = g @ weights["o"].T                                               # (2, 3, 16)
    dweights_o = np.reshape(x_2, (6, 16)).T @ np.reshape(g, (-1, 6))        # (16, 6)
    # adjoint of attention.py  return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    dx_2 = np.reshape(dout, x_2.shape)                                      # (2, 3, 4, 4)
    # adjoint of attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    dproduct = np.reshape(np.swapaxes(dx_2, -2, -3), (2, 2, 6, 4))          # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv_2 = np.swapaxes(fold_groups_2, -1, -2) @ dproduct                    # (2, 2, 5, 4)
    # adjoint of attention.py
    dweights_2 = np.reshape(dproduct @ np.swapaxes(v_2, -1, -2), weights_2.shape)  # (2, 4, 3, 5)
    # adjoint of attention.py
    difference_2 = dweights_2 - np.sum(dweights_2 * weights_2, axis=-1, keepdims=True)  # (2, 4, 3, 5)
    # adjoint of attention.py
    dhidden = weights_2 * difference_2                                      # (2, 4, 3, 5)
    # adjoint of attention.py
    dscores = np.reshape(np.where(mask, dhidden, 0), scores.shape)          # (2, 2, 6, 5)
    # adjoint of attention.py
    dproduct_2 = 0.5 * dscores                                              # (2, 2, 6, 5)
    dk_2 = np.swapaxes(dproduct_2, -1, -2) @ fold_groups                    # (2, 2, 5, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct_2 @ k_2, q.shape)                              # (2, 4, 3, 4)
    # adjoint of attention.py
    dv = np.where(seen[..., None], dv_2, 0)                                 # (2, 2, 5, 4)
    dk = np.where(seen[..., None], dk_2, 0)                                 # (2, 2, 5, 4)
    # adjoint of rope.py
    dx2 = dk[..., 2:] * k_rope[0] - dk[..., :2] * k_rope[1]                 # (2, 2, 5, 2)
    dx1 = dk[..., 2:] * k_rope[1] + dk[..., :2] * k_rope[0]                 # (2, 2, 5, 2)
    # adjoint of rope.py
    drms_norm = np.zeros_like(rms_norm)                                     # (2, 2, 5, 4)
    drms_norm[..., 2:] = dx2
    drms_norm[..., :2] = dx1
    # adjoint of layers.py
    drmsnorm_2 = drms_norm * weights["k_norm"]                              # (2, 2, 5, 4)
    dweights_k_norm = np.sum(drms_norm * rmsnorm_2, axis=(0, 1, 2))         # (4,)
    # adjoint of layers.py
    product = rmsnorm_2 * np.mean(drmsnorm_2 * rmsnorm_2, axis=-1, keepdims=True)  # (2, 2, 5, 4)
    # adjoint of layers.py
    drmsnorm = dq * weights["q_norm"]                                       # (2, 4, 3, 4)
    dweights_q_norm = np.sum(dq * rmsnorm, axis=(0, 1, 2))                  # (4,)
    # adjoint of layers.py
    difference_3 = drmsnorm - rmsnorm * np.mean(drmsnorm * rmsnorm, axis=-1, keepdims=True)  # (2, 4, 3, 4)
    # adjoint of layers.py
    transposed = np.reshape(context, (-1, 6)).T                             # (6, 10)
    dweights_v = transposed @ np.reshape(np.swapaxes(dv, -2, -3), (10, 8))  # (6, 8)
    # adjoint of attention.py
    dreshaped = np.swapaxes((drmsnorm_2 - product) / root_2, -2, -3)        # (2, 5, 2, 4)
    # adjoint of layers.py
    product_2 = np.reshape(np.swapaxes(dv, -2, -3), (2, 5, 8)) @ weights["v"].T  # (2, 5, 6)
    dcontext = product_2 + np.reshape(dreshaped, (2, 5, 8)) @ weights["k"].T  # (2, 5, 6)
    dweights_k = transposed @ np.reshape(dreshaped, (10, 8))                # (6, 8)
    # adjoint of attention.py
    dreshaped_2 = np.swapaxes(difference_3 / root, -2, -3)                  # (2, 3, 4, 4)
    # adjoint of layers.py
    dx = np.reshape(dreshaped_2, (2, 3, 16)) @ weights["q"].T               # (2, 3, 6)
    dweights_q = np.reshape(x, (-1, 6)).T @ np.reshape(dreshaped_2, (6, 16))  # (6, 16)
    return (
        dx,
        {
            "k": dweights_k,
            "k_norm": dweights_k_norm,
            "o": dweights_o,
            "q": dweights_q,
            "q_norm": dweights_q_norm,
            "v": dweights_v,
        },
        dcontext,
    )
