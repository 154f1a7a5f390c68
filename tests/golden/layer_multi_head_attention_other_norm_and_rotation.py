import numpy as np


def multi_head_attention_adjoint(g, x, weights, q_rope, k_rope):
    """Adjoint of multi_head_attention (golden_files.py).

    g (2, 3, 6), x (2, 3, 6), weights["k"] (6, 8), weights["k_norm"] (4,), weights["o"] (16, 6),
    weights["q"] (6, 16), weights["q_norm"] (4,), weights["v"] (6, 8), q_rope[0] (3, 2), q_rope[1] (3, 2),
    k_rope[0] (3, 2), k_rope[1] (3, 2) -> dx (2, 3, 6), dweights_k (6, 8), dweights_k_norm (4,),
    dweights_o (16, 6), dweights_q (6, 16), dweights_q_norm (4,), dweights_v (6, 8); float64
    """
    eps = 0.1
    # attention.py  return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2 ...
    split_heads = np.swapaxes(np.reshape(x @ weights["q"], (2, 3, 4, 4)), -2, -3)  # (2, 4, 3, 4)
    split_heads_2 = np.swapaxes(np.reshape(x @ weights["k"], (2, 3, 2, 4)), -2, -3)  # (2, 2, 3, 4)
    v = np.swapaxes(np.reshape(x @ weights["v"], (2, 3, 2, 4)), -2, -3)      # (2, 2, 3, 4)
    # layers.py  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    root = np.sqrt(np.mean(split_heads * split_heads, axis=-1, keepdims=True) + eps)  # (2, 4, 3, 1)
    rmsnorm = split_heads / root                                             # (2, 4, 3, 4)
    # layers.py  return rmsnorm(x, eps) * (1 + weight)
    added = 1 + weights["q_norm"]                                            # (4,)
    zero_centred_rms_norm = rmsnorm * added                                  # (2, 4, 3, 4)
    # layers.py
    root_2 = np.sqrt(np.mean(split_heads_2 * split_heads_2, axis=-1, keepdims=True) + eps)  # (2, 2, 3, 1)
    rmsnorm_2 = split_heads_2 / root_2                                       # (2, 2, 3, 4)
    # layers.py
    added_2 = 1 + weights["k_norm"]                                          # (4,)
    zero_centred_rms_norm_2 = rmsnorm_2 * added_2                            # (2, 2, 3, 4)
    # rope.py  x1, x2 = x[..., 0::2], x[..., 1::2]
    x1 = zero_centred_rms_norm[..., 0::2]                                    # (2, 4, 3, 2)
    x2 = zero_centred_rms_norm[..., 1::2]                                    # (2, 4, 3, 2)
    # rope.py  return np.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).reshape(x.shape)
    difference = x1 * q_rope[0] - x2 * q_rope[1]                             # (2, 4, 3, 2)
    stack = np.stack([difference, x2 * q_rope[0] + x1 * q_rope[1]], axis=-1)  # (2, 4, 3, 2, 2)
    q = np.reshape(stack, (2, 4, 3, 4))                                      # (2, 4, 3, 4)
    # rope.py
    x1_2 = zero_centred_rms_norm_2[..., 0::2]                                # (2, 2, 3, 2)
    x2_2 = zero_centred_rms_norm_2[..., 1::2]                                # (2, 2, 3, 2)
    # rope.py
    difference_2 = x1_2 * k_rope[0] - x2_2 * k_rope[1]                       # (2, 2, 3, 2)
    stack_2 = np.stack([difference_2, x2_2 * k_rope[0] + x1_2 * k_rope[1]], axis=-1)  # (2, 2, 3, 2, 2)
    k = np.reshape(stack_2, (2, 2, 3, 4))                                    # (2, 2, 3, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                                # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k, -1, -2) * 0.5                      # (2, 2, 6, 3)
    # attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    unfold_groups = np.reshape(scores, (2, 4, 3, 3))                         # (2, 4, 3, 3)
    # layers.py  e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    e = np.exp(unfold_groups - np.max(unfold_groups, axis=-1, keepdims=True))  # (2, 4, 3, 3)
    # layers.py  return e / np.sum(e, axis=-1, keepdims=True)
    weights_2 = e / np.sum(e, axis=-1, keepdims=True)                        # (2, 4, 3, 3)
    # attention.py
    fold_groups_2 = np.reshape(weights_2, (2, 2, 6, 3))                      # (2, 2, 6, 3)
    # attention.py  x = np.swapaxes(x, -2, -3)
    x_2 = np.swapaxes(np.reshape(fold_groups_2 @ v, (2, 4, 3, 4)), -2, -3)   # (2, 3, 4, 4)

    # adjoint of layers.py  return x @ weight
    dout = g @ weights["o"].T                                                # (2, 3, 16)
    dweights_o = np.reshape(x_2, (6, 16)).T @ np.reshape(g, (-1, 6))         # (16, 6)
    # adjoint of attention.py  return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    dx_2 = np.reshape(dout, x_2.shape)                                       # (2, 3, 4, 4)
    # adjoint of attention.py
    dproduct = np.reshape(np.swapaxes(dx_2, -2, -3), (2, 2, 6, 4))           # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv = np.swapaxes(fold_groups_2, -1, -2) @ dproduct                       # (2, 2, 3, 4)
    # adjoint of attention.py
    dweights_2 = np.reshape(dproduct @ np.swapaxes(v, -1, -2), weights_2.shape)  # (2, 4, 3, 3)
    # adjoint of layers.py
    difference_3 = dweights_2 - np.sum(dweights_2 * weights_2, axis=-1, keepdims=True)  # (2, 4, 3, 3)
    # adjoint of attention.py
    dscores = np.reshape(weights_2 * difference_3, scores.shape)             # (2, 2, 6, 3)
    # adjoint of attention.py
    dproduct_2 = 0.5 * dscores                                               # (2, 2, 6, 3)
    dk = np.swapaxes(dproduct_2, -1, -2) @ fold_groups                       # (2, 2, 3, 4)
    # adjoint of rope.py
    dstack_2 = np.reshape(dk, (2, 2, 3, 2, 2))                               # (2, 2, 3, 2, 2)
    dx2_2 = dstack_2[..., 1] * k_rope[0] - dstack_2[..., 0] * k_rope[1]      # (2, 2, 3, 2)
    dx1_2 = dstack_2[..., 1] * k_rope[1] + dstack_2[..., 0] * k_rope[0]      # (2, 2, 3, 2)
    # adjoint of rope.py
    dzero_centred_rms_norm_2 = np.zeros_like(zero_centred_rms_norm_2)        # (2, 2, 3, 4)
    dzero_centred_rms_norm_2[..., 1::2] = dx2_2
    dzero_centred_rms_norm_2[..., 0::2] = dx1_2
    # adjoint of rope.py
    dstack = np.reshape(dproduct_2 @ k, (2, 4, 3, 2, 2))                     # (2, 4, 3, 2, 2)
    dx2 = dstack[..., 1] * q_rope[0] - dstack[..., 0] * q_rope[1]            # (2, 4, 3, 2)
    dx1 = dstack[..., 1] * q_rope[1] + dstack[..., 0] * q_rope[0]            # (2, 4, 3, 2)
    # adjoint of rope.py
    dzero_centred_rms_norm = np.zeros_like(zero_centred_rms_norm)            # (2, 4, 3, 4)
    dzero_centred_rms_norm[..., 1::2] = dx2
    dzero_centred_rms_norm[..., 0::2] = dx1
    # adjoint of layers.py
    drmsnorm_2 = dzero_centred_rms_norm_2 * added_2                          # (2, 2, 3, 4)
    dweights_k_norm = np.sum(dzero_centred_rms_norm_2 * rmsnorm_2, axis=(0, 1, 2))  # (4,)
    # adjoint of layers.py
    product = rmsnorm_2 * np.mean(drmsnorm_2 * rmsnorm_2, axis=-1, keepdims=True)  # (2, 2, 3, 4)
    # adjoint of layers.py
    drmsnorm = dzero_centred_rms_norm * added                                # (2, 4, 3, 4)
    dweights_q_norm = np.sum(dzero_centred_rms_norm * rmsnorm, axis=(0, 1, 2))  # (4,)
    # adjoint of layers.py
    difference_4 = drmsnorm - rmsnorm * np.mean(drmsnorm * rmsnorm, axis=-1, keepdims=True)  # (2, 4, 3, 4)
    # adjoint of layers.py
    dweights_v = np.reshape(x, (-1, 6)).T @ np.reshape(np.swapaxes(dv, -2, -3), (6, 8))  # (6, 8)
    # adjoint of attention.py
    dreshaped = np.swapaxes((drmsnorm_2 - product) / root_2, -2, -3)         # (2, 3, 2, 4)
    # adjoint of layers.py
    product_2 = np.reshape(np.swapaxes(dv, -2, -3), (2, 3, 8)) @ weights["v"].T  # (2, 3, 6)
    dweights_k = np.reshape(x, (-1, 6)).T @ np.reshape(dreshaped, (6, 8))    # (6, 8)
    # adjoint of attention.py
    dreshaped_2 = np.swapaxes(difference_4 / root, -2, -3)                   # (2, 3, 4, 4)
    # adjoint of layers.py
    added_3 = product_2 + np.reshape(dreshaped, (2, 3, 8)) @ weights["k"].T  # (2, 3, 6)
    dx = added_3 + np.reshape(dreshaped_2, (2, 3, 16)) @ weights["q"].T      # (2, 3, 6)
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
    )
