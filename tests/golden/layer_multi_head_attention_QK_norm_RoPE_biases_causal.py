import numpy as np


def multi_head_attention_adjoint(g, x, weights, mask, q_rope, k_rope):
    """Adjoint of multi_head_attention (golden_files.py).

    g (2, 3, 6), x (2, 3, 6), weights["k"] (6, 8), weights["k_bias"] (8,), weights["k_norm"] (4,),
    weights["o"] (16, 6), weights["o_bias"] (6,), weights["q"] (6, 16), weights["q_bias"] (16,),
    weights["q_norm"] (4,), weights["v"] (6, 8), weights["v_bias"] (8,), mask (3, 3) bool, q_rope[0] (3, 2),
    q_rope[1] (3, 2), k_rope[0] (3, 2), k_rope[1] (3, 2) -> dx (2, 3, 6), dweights_k (6, 8),
    dweights_k_bias (8,), dweights_k_norm (4,), dweights_o (16, 6), dweights_o_bias (6,), dweights_q (6, 16),
    dweights_q_bias (16,), dweights_q_norm (4,), dweights_v (6, 8), dweights_v_bias (8,); float64
    """
    eps = 1e-6
    # attention.py  return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2 ...
    reshaped = np.reshape(x @ weights["q"] + weights["q_bias"], (2, 3, 4, 4))  # (2, 3, 4, 4)
    split_heads = np.swapaxes(reshaped, -2, -3)                              # (2, 4, 3, 4)
    reshaped_2 = np.reshape(x @ weights["k"] + weights["k_bias"], (2, 3, 2, 4))  # (2, 3, 2, 4)
    split_heads_2 = np.swapaxes(reshaped_2, -2, -3)                          # (2, 2, 3, 4)
    v = np.swapaxes(np.reshape(x @ weights["v"] + weights["v_bias"], (2, 3, 2, 4)), -2, -3)  # (2, 2, 3, 4)
    # layers.py  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    root = np.sqrt(np.mean(split_heads * split_heads, axis=-1, keepdims=True) + eps)  # (2, 4, 3, 1)
    rmsnorm = split_heads / root                                             # (2, 4, 3, 4)
    # layers.py  return rmsnorm(x, eps) * weight
    rms_norm = rmsnorm * weights["q_norm"]                                   # (2, 4, 3, 4)
    # layers.py
    root_2 = np.sqrt(np.mean(split_heads_2 * split_heads_2, axis=-1, keepdims=True) + eps)  # (2, 2, 3, 1)
    rmsnorm_2 = split_heads_2 / root_2                                       # (2, 2, 3, 4)
    # layers.py
    rms_norm_2 = rmsnorm_2 * weights["k_norm"]                               # (2, 2, 3, 4)
    # rope.py  x1, x2 = x[..., :half], x[..., half:]
    x1 = rms_norm[..., :2]                                                   # (2, 4, 3, 2)
    x2 = rms_norm[..., 2:]                                                   # (2, 4, 3, 2)
    # rope.py  return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)
    difference = x1 * q_rope[0] - x2 * q_rope[1]                             # (2, 4, 3, 2)
    q = np.concatenate([difference, x2 * q_rope[0] + x1 * q_rope[1]], axis=-1)  # (2, 4, 3, 4)
    # rope.py
    x1_2 = rms_norm_2[..., :2]                                               # (2, 2, 3, 2)
    x2_2 = rms_norm_2[..., 2:]                                               # (2, 2, 3, 2)
    # rope.py
    difference_2 = x1_2 * k_rope[0] - x2_2 * k_rope[1]                       # (2, 2, 3, 2)
    k = np.concatenate([difference_2, x2_2 * k_rope[0] + x1_2 * k_rope[1]], axis=-1)  # (2, 2, 3, 4)
    # attention.py  seen = np.any(np.atleast_2d(allowed), axis=-2)
    seen = np.any(mask, axis=-2)                                             # (3,) bool
    # attention.py  return np.where(seen[..., None], x, 0)
    k_2 = np.where(seen[..., None], k, 0)                                    # (2, 2, 3, 4)
    v_2 = np.where(seen[..., None], v, 0)                                    # (2, 2, 3, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                                # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k_2, -1, -2) * 0.5                    # (2, 2, 6, 3)
    # attention.py  hidden = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.a ...
    hidden = np.where(mask, np.reshape(scores, (2, 4, 3, 3)), -np.inf)       # (2, 4, 3, 3)
    # attention.py  top = np.max(stop_gradient(hidden), axis=-1, keepdims=True)
    top = np.max(hidden, axis=-1, keepdims=True)                             # (2, 4, 3, 1)
    # attention.py
    e = np.exp(hidden - np.where(top == -np.inf, 0, top))                    # (2, 4, 3, 3)
    # attention.py
    total = np.sum(e, axis=-1, keepdims=True)                                # (2, 4, 3, 1)
    # attention.py  return e / (total + (total == 0))
    weights_2 = e / (total + (total == 0))                                   # (2, 4, 3, 3)
    # attention.py
    fold_groups_2 = np.reshape(weights_2, (2, 2, 6, 3))                      # (2, 2, 6, 3)
    # attention.py  x = np.swapaxes(x, -2, -3)
    x_2 = np.swapaxes(np.reshape(fold_groups_2 @ v_2, (2, 4, 3, 4)), -2, -3)  # (2, 3, 4, 4)

    # adjoint of layers.py  return x @ weight + bias
    dweights_o_bias = np.sum(g, axis=(0, 1))                                 # (6,)
    dout = g @ weights["o"].T                                                # (2, 3, 16)
    dweights_o = np.reshape(x_2, (6, 16)).T @ np.reshape(g, (-1, 6))         # (16, 6)
    # adjoint of attention.py  return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    dx_2 = np.reshape(dout, x_2.shape)                                       # (2, 3, 4, 4)
    # adjoint of attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    dproduct = np.reshape(np.swapaxes(dx_2, -2, -3), (2, 2, 6, 4))           # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv_2 = np.swapaxes(fold_groups_2, -1, -2) @ dproduct                     # (2, 2, 3, 4)
    # adjoint of attention.py
    dweights_2 = np.reshape(dproduct @ np.swapaxes(v_2, -1, -2), weights_2.shape)  # (2, 4, 3, 3)
    # adjoint of attention.py
    difference_3 = dweights_2 - np.sum(dweights_2 * weights_2, axis=-1, keepdims=True)  # (2, 4, 3, 3)
    # adjoint of attention.py
    dhidden = weights_2 * difference_3                                       # (2, 4, 3, 3)
    # adjoint of attention.py
    dscores = np.reshape(np.where(mask, dhidden, 0), scores.shape)           # (2, 2, 6, 3)
    # adjoint of attention.py
    dproduct_2 = 0.5 * dscores                                               # (2, 2, 6, 3)
    dk_2 = np.swapaxes(dproduct_2, -1, -2) @ fold_groups                     # (2, 2, 3, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct_2 @ k_2, q.shape)                               # (2, 4, 3, 4)
    # adjoint of attention.py
    dv = np.where(seen[..., None], dv_2, 0)                                  # (2, 2, 3, 4)
    dk = np.where(seen[..., None], dk_2, 0)                                  # (2, 2, 3, 4)
    # adjoint of rope.py
    dx2_2 = dk[..., 2:] * k_rope[0] - dk[..., :2] * k_rope[1]                # (2, 2, 3, 2)
    dx1_2 = dk[..., 2:] * k_rope[1] + dk[..., :2] * k_rope[0]                # (2, 2, 3, 2)
    # adjoint of rope.py
    drms_norm_2 = np.zeros_like(rms_norm_2)                                  # (2, 2, 3, 4)
    drms_norm_2[..., 2:] = dx2_2
    drms_norm_2[..., :2] = dx1_2
    # adjoint of rope.py
    dx2 = dq[..., 2:] * q_rope[0] - dq[..., :2] * q_rope[1]                  # (2, 4, 3, 2)
    dx1 = dq[..., 2:] * q_rope[1] + dq[..., :2] * q_rope[0]                  # (2, 4, 3, 2)
    # adjoint of rope.py
    drms_norm = np.zeros_like(rms_norm)                                      # (2, 4, 3, 4)
    drms_norm[..., 2:] = dx2
    drms_norm[..., :2] = dx1
    # adjoint of layers.py
    drmsnorm_2 = drms_norm_2 * weights["k_norm"]                             # (2, 2, 3, 4)
    dweights_k_norm = np.sum(drms_norm_2 * rmsnorm_2, axis=(0, 1, 2))        # (4,)
    # adjoint of layers.py
    product = rmsnorm_2 * np.mean(drmsnorm_2 * rmsnorm_2, axis=-1, keepdims=True)  # (2, 2, 3, 4)
    # adjoint of layers.py
    drmsnorm = drms_norm * weights["q_norm"]                                 # (2, 4, 3, 4)
    dweights_q_norm = np.sum(drms_norm * rmsnorm, axis=(0, 1, 2))            # (4,)
    # adjoint of layers.py
    difference_4 = drmsnorm - rmsnorm * np.mean(drmsnorm * rmsnorm, axis=-1, keepdims=True)  # (2, 4, 3, 4)
    # adjoint of attention.py
    dlinear = np.reshape(np.swapaxes(dv, -2, -3), (2, 3, 8))                 # (2, 3, 8)
    # adjoint of layers.py
    dweights_v_bias = np.sum(dlinear, axis=(0, 1))                           # (8,)
    dweights_v = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dv, -2, -3), (6, 8))  # (6, 8)
    # adjoint of attention.py
    dreshaped_2 = np.swapaxes((drmsnorm_2 - product) / root_2, -2, -3)       # (2, 3, 2, 4)
    dlinear_2 = np.reshape(dreshaped_2, (2, 3, 8))                           # (2, 3, 8)
    # adjoint of layers.py
    dweights_k_bias = np.sum(dlinear_2, axis=(0, 1))                         # (8,)
    dweights_k = np.reshape(x, (-1, 6)).T @ np.reshape(dreshaped_2, (6, 8))  # (6, 8)
    # adjoint of attention.py
    dreshaped = np.swapaxes(difference_4 / root, -2, -3)                     # (2, 3, 4, 4)
    dlinear_3 = np.reshape(dreshaped, (2, 3, 16))                            # (2, 3, 16)
    # adjoint of layers.py
    dweights_q_bias = np.sum(dlinear_3, axis=(0, 1))                         # (16,)
    dx = dlinear @ weights["v"].T + dlinear_2 @ weights["k"].T + dlinear_3 @ weights["q"].T  # (2, 3, 6)
    dweights_q = np.reshape(x, (-1, 6)).T @ np.reshape(dreshaped, (6, 16))   # (6, 16)
    return (
        dx,
        {
            "k": dweights_k,
            "k_bias": dweights_k_bias,
            "k_norm": dweights_k_norm,
            "o": dweights_o,
            "o_bias": dweights_o_bias,
            "q": dweights_q,
            "q_bias": dweights_q_bias,
            "q_norm": dweights_q_norm,
            "v": dweights_v,
            "v_bias": dweights_v_bias,
        },
    )
