import numpy as np


def attention_scores_adjoint(g, q, k):
    """Adjoint of attention_scores (attention.py).

    g (2, 4, 3, 5), q (2, 4, 3, 4), k (2, 4, 5, 4) -> dq (2, 4, 3, 4), dk (2, 4, 5, 4); float64
    """
    # adjoint of attention.py  scores = (fold_groups(q, groups) @ np.swapaxes(k, -1, -2)) * (1 / math.s ...
    product = 0.5 * g                      # (2, 4, 3, 5)
    dq = product @ k                       # (2, 4, 3, 4)
    dk = np.swapaxes(product, -1, -2) @ q  # (2, 4, 5, 4)
    return dq, dk
