import numpy as np


def negative_log_likelihood_adjoint(g, scores, y):
    """Adjoint of negative_log_likelihood (golden_files.py).

    g (), scores (5, 3), y (5,) int64 -> dscores (5, 3); float64
    """
    # golden_files.py
    shifted = scores - np.max(scores, axis=1, keepdims=True)        # (5, 3)
    # golden_files.py  logp = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    exp = np.exp(shifted)                                           # (5, 3)

    # adjoint of golden_files.py  return -np.sum(logp[np.arange(len(y)), y]) / len(y)
    dlogp = np.zeros((5, 3))                                        # (5, 3)
    dlogp[np.arange(5), y] = -g / 5
    # adjoint of golden_files.py
    product = exp * np.sum(dlogp, axis=-1, keepdims=True)           # (5, 3)
    dscores = dlogp - product / np.sum(exp, axis=1, keepdims=True)  # (5, 3)
    return dscores
