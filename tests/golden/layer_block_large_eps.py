import numpy as np


def block_adjoint(g, x, params):
    """Adjoint of block (golden_files.py).

    g (2, 3, 6), x (2, 3, 6), params["attention"]["k"] (6, 8), params["attention"]["k_norm"] (4,),
    params["attention"]["o"] (16, 6), params["attention"]["q"] (6, 16), params["attention"]["q_norm"] (4,),
    params["attention"]["v"] (6, 8), params["attention_norm"] (6,), params["mlp"]["down"] (7, 6),
    params["mlp"]["gate"] (6, 7), params["mlp"]["up"] (6, 7), params["mlp_norm"] (6,) -> dx (2, 3, 6),
    dparams_attention_k (6, 8), dparams_attention_k_norm (4,), dparams_attention_o (16, 6),
    dparams_attention_q (6, 16), dparams_attention_q_norm (4,), dparams_attention_v (6, 8),
    dparams_attention_norm (6,), dparams_mlp_down (7, 6), dparams_mlp_gate (6, 7), dparams_mlp_up (6, 7),
    dparams_mlp_norm (6,); float64
    """
    eps = 0.1
    # layers.py  return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)            # (2, 3, 1)
    rmsnorm = x / root                                                      # (2, 3, 6)
    # layers.py  return rmsnorm(x, eps) * weight
    source = rmsnorm * params["attention_norm"]                             # (2, 3, 6)
    # attention.py  return np.swapaxes(x.reshape(*x.shape[:-1], x.shape[-1] // head_dim, head_dim), -2 ...
    reshaped = np.reshape(source @ params["attention"]["q"], (2, 3, 4, 4))  # (2, 3, 4, 4)
    split_heads = np.swapaxes(reshaped, -2, -3)                             # (2, 4, 3, 4)
    reshaped_2 = np.reshape(source @ params["attention"]["k"], (2, 3, 2, 4))  # (2, 3, 2, 4)
    split_heads_2 = np.swapaxes(reshaped_2, -2, -3)                         # (2, 2, 3, 4)
    v = np.swapaxes(np.reshape(source @ params["attention"]["v"], (2, 3, 2, 4)), -2, -3)  # (2, 2, 3, 4)
    # layers.py
    root_2 = np.sqrt(np.mean(split_heads * split_heads, axis=-1, keepdims=True) + eps)  # (2, 4, 3, 1)
    rmsnorm_2 = split_heads / root_2                                        # (2, 4, 3, 4)
    # layers.py
    q = rmsnorm_2 * params["attention"]["q_norm"]                           # (2, 4, 3, 4)
    # layers.py
    root_3 = np.sqrt(np.mean(split_heads_2 * split_heads_2, axis=-1, keepdims=True) + eps)  # (2, 2, 3, 1)
    rmsnorm_3 = split_heads_2 / root_3                                      # (2, 2, 3, 4)
    # layers.py
    k = rmsnorm_3 * params["attention"]["k_norm"]                           # (2, 2, 3, 4)
    # attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    fold_groups = np.reshape(q, (2, 2, 6, 4))                               # (2, 2, 6, 4)
    # attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape ...
    scores = fold_groups @ np.swapaxes(k, -1, -2) * 0.5                     # (2, 2, 6, 3)
    # attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    unfold_groups = np.reshape(scores, (2, 4, 3, 3))                        # (2, 4, 3, 3)
    # layers.py  e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    e = np.exp(unfold_groups - np.max(unfold_groups, axis=-1, keepdims=True))  # (2, 4, 3, 3)
    # layers.py  return e / np.sum(e, axis=-1, keepdims=True)
    weights = e / np.sum(e, axis=-1, keepdims=True)                         # (2, 4, 3, 3)
    # attention.py
    fold_groups_2 = np.reshape(weights, (2, 2, 6, 3))                       # (2, 2, 6, 3)
    # attention.py  x = np.swapaxes(x, -2, -3)
    x_2 = np.swapaxes(np.reshape(fold_groups_2 @ v, (2, 4, 3, 4)), -2, -3)  # (2, 3, 4, 4)
    # attention.py  return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])
    out = np.reshape(x_2, (2, 3, 16))                                       # (2, 3, 16)
    # layers.py  return x @ weight
    attended = out @ params["attention"]["o"]                               # (2, 3, 6)
    # model.py
    h = x + attended                                                        # (2, 3, 6)
    # layers.py
    root_4 = np.sqrt(np.mean(h * h, axis=-1, keepdims=True) + eps)          # (2, 3, 1)
    rmsnorm_4 = h / root_4                                                  # (2, 3, 6)
    # layers.py
    rms_norm = rmsnorm_4 * params["mlp_norm"]                               # (2, 3, 6)
    # layers.py  return (silu(x @ w_gate) * (x @ w_up)) @ w_down
    product = rms_norm @ params["mlp"]["gate"]                              # (2, 3, 7)
    # layers.py  return 0.5 + 0.5 * np.tanh(0.5 * x)
    tanh = np.tanh(0.5 * product)                                           # (2, 3, 7)
    sigmoid = 0.5 + 0.5 * tanh                                              # (2, 3, 7)
    # layers.py  return x * sigmoid(x)
    silu = product * sigmoid                                                # (2, 3, 7)
    # layers.py
    product_2 = rms_norm @ params["mlp"]["up"]                              # (2, 3, 7)

    # adjoint of layers.py
    dproduct_3 = g @ params["mlp"]["down"].T                                # (2, 3, 7)
    dparams_mlp_down = np.reshape(silu * product_2, (-1, 7)).T @ np.reshape(g, (-1, 6))  # (7, 6)
    dproduct_2 = dproduct_3 * silu                                          # (2, 3, 7)
    transposed = np.reshape(rms_norm, (-1, 6)).T                            # (6, 6)
    dparams_mlp_up = transposed @ np.reshape(dproduct_2, (-1, 7))           # (6, 7)
    # adjoint of layers.py
    dproduct = dproduct_3 * product_2 * (sigmoid + 0.25 * product * (1 - tanh * tanh))  # (2, 3, 7)
    # adjoint of layers.py
    drms_norm = dproduct_2 @ params["mlp"]["up"].T + dproduct @ params["mlp"]["gate"].T  # (2, 3, 6)
    dparams_mlp_gate = transposed @ np.reshape(dproduct, (-1, 7))           # (6, 7)
    # adjoint of layers.py
    drmsnorm_4 = drms_norm * params["mlp_norm"]                             # (2, 3, 6)
    dparams_mlp_norm = np.sum(drms_norm * rmsnorm_4, axis=(0, 1))           # (6,)
    # adjoint of layers.py
    product_3 = rmsnorm_4 * np.mean(drmsnorm_4 * rmsnorm_4, axis=-1, keepdims=True)  # (2, 3, 6)
    dh = g + (drmsnorm_4 - product_3) / root_4                              # (2, 3, 6)
    # adjoint of layers.py
    dout = dh @ params["attention"]["o"].T                                  # (2, 3, 16)
    dparams_attention_o = np.reshape(x_2, (6, 16)).T @ np.reshape(dh, (-1, 6))  # (16, 6)
    # adjoint of attention.py
    dx_2 = np.reshape(dout, x_2.shape)                                      # (2, 3, 4, 4)
    # adjoint of attention.py
    dproduct_4 = np.reshape(np.swapaxes(dx_2, -2, -3), (2, 2, 6, 4))        # (2, 2, 6, 4)
    # adjoint of attention.py  return unfold_groups(fold_groups(weights, groups) @ v, groups)
    dv = np.swapaxes(fold_groups_2, -1, -2) @ dproduct_4                    # (2, 2, 3, 4)
    # adjoint of attention.py
    dweights = np.reshape(dproduct_4 @ np.swapaxes(v, -1, -2), weights.shape)  # (2, 4, 3, 3)
    # adjoint of layers.py
    difference = dweights - np.sum(dweights * weights, axis=-1, keepdims=True)  # (2, 4, 3, 3)
    # adjoint of attention.py
    dscores = np.reshape(weights * difference, scores.shape)                # (2, 2, 6, 3)
    # adjoint of attention.py
    dproduct_5 = 0.5 * dscores                                              # (2, 2, 6, 3)
    dk = np.swapaxes(dproduct_5, -1, -2) @ fold_groups                      # (2, 2, 3, 4)
    # adjoint of attention.py
    dq = np.reshape(dproduct_5 @ k, q.shape)                                # (2, 4, 3, 4)
    # adjoint of layers.py
    drmsnorm_3 = dk * params["attention"]["k_norm"]                         # (2, 2, 3, 4)
    dparams_attention_k_norm = np.sum(dk * rmsnorm_3, axis=(0, 1, 2))       # (4,)
    # adjoint of layers.py
    product_4 = rmsnorm_3 * np.mean(drmsnorm_3 * rmsnorm_3, axis=-1, keepdims=True)  # (2, 2, 3, 4)
    # adjoint of layers.py
    drmsnorm_2 = dq * params["attention"]["q_norm"]                         # (2, 4, 3, 4)
    dparams_attention_q_norm = np.sum(dq * rmsnorm_2, axis=(0, 1, 2))       # (4,)
    # adjoint of layers.py
    product_5 = rmsnorm_2 * np.mean(drmsnorm_2 * rmsnorm_2, axis=-1, keepdims=True)  # (2, 4, 3, 4)
    # adjoint of attention.py
    dlinear = np.reshape(np.swapaxes(dv, -2, -3), (2, 3, 8))                # (2, 3, 8)
    # adjoint of layers.py
    transposed_2 = np.reshape(source, (-1, 6)).T                            # (6, 6)
    dparams_attention_v = transposed_2 @ np.reshape(np.swapaxes(dv, -2, -3), (6, 8))  # (6, 8)
    # adjoint of attention.py
    dreshaped_2 = np.swapaxes((drmsnorm_3 - product_4) / root_3, -2, -3)    # (2, 3, 2, 4)
    # adjoint of layers.py
    product_6 = np.reshape(dreshaped_2, (2, 3, 8)) @ params["attention"]["k"].T  # (2, 3, 6)
    dparams_attention_k = transposed_2 @ np.reshape(dreshaped_2, (6, 8))    # (6, 8)
    # adjoint of attention.py
    dreshaped = np.swapaxes((drmsnorm_2 - product_5) / root_2, -2, -3)      # (2, 3, 4, 4)
    # adjoint of layers.py
    product_7 = np.reshape(dreshaped, (2, 3, 16)) @ params["attention"]["q"].T  # (2, 3, 6)
    dsource = dlinear @ params["attention"]["v"].T + product_6 + product_7  # (2, 3, 6)
    dparams_attention_q = transposed_2 @ np.reshape(dreshaped, (6, 16))     # (6, 16)
    # adjoint of layers.py
    drmsnorm = dsource * params["attention_norm"]                           # (2, 3, 6)
    dparams_attention_norm = np.sum(dsource * rmsnorm, axis=(0, 1))         # (6,)
    # adjoint of layers.py
    difference_2 = drmsnorm - rmsnorm * np.mean(drmsnorm * rmsnorm, axis=-1, keepdims=True)  # (2, 3, 6)
    dx = dh + difference_2 / root                                           # (2, 3, 6)
    return (
        dx,
        {
            "attention": {
                "k": dparams_attention_k,
                "k_norm": dparams_attention_k_norm,
                "o": dparams_attention_o,
                "q": dparams_attention_q,
                "q_norm": dparams_attention_q_norm,
                "v": dparams_attention_v,
            },
            "attention_norm": dparams_attention_norm,
            "mlp": {"down": dparams_mlp_down, "gate": dparams_mlp_gate, "up": dparams_mlp_up},
            "mlp_norm": dparams_mlp_norm,
        },
    )
