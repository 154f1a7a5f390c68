import numpy as np


def attention_scores_adjoint(g, q, k):
    """Adjoint of attention_scores (attention.py).

    g (2, 4, 3, 5), q (2, 4, 3, 4), k (1, 5, 4) -> dq (2, 4, 3, 4), dk (1, 5, 4); float64
    """
    # adjoint of attention.py  return x.reshape(*leading, heads * groups, length // groups, width)
    dscores = np.reshape(g, (2, 1, 12, 5))                                   # (2, 1, 12, 5)
    # adjoint of attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.s ...
    product = 0.5 * dscores                                                  # (2, 1, 12, 5)
    product_2 = np.swapaxes(np.reshape(q, (2, 1, 12, 4)), -1, -2) @ product  # (2, 1, 4, 5)
    dk = np.swapaxes(np.sum(product_2, axis=0), -1, -2)                      # (1, 5, 4)
    # adjoint of attention.py  return x.reshape(*leading, heads // groups, groups * length, width)
    dq = np.reshape(product @ k, q.shape)                                    # (2, 4, 3, 4)
    return dq, dk
