import numpy as np


def batch_norm_adjoint(g, x, gamma, beta):
    """Adjoint of batch_norm (golden_files.py).

    g (5, 3), x (5, 3), gamma (3,), beta (3,) -> dx (5, 3), dgamma (3,), dbeta (3,); float64
    """
    eps = 1e-5
    # golden_files.py
    mu = np.mean(x, axis=0)                                                 # (3,)
    # golden_files.py
    var = np.var(x, axis=0)                                                 # (3,)
    # golden_files.py  xhat = (x - mu) / np.sqrt(var + eps)
    root = np.sqrt(var + eps)                                               # (3,)
    xhat = (x - mu) / root                                                  # (5, 3)

    # adjoint of golden_files.py  return gamma * xhat + beta
    dbeta = np.sum(g, axis=0)                                               # (3,)
    dgamma = np.sum(g * xhat, axis=0)                                       # (3,)
    dxhat = g * gamma                                                       # (5, 3)
    # adjoint of golden_files.py
    ddifference = dxhat / root                                              # (5, 3)
    # adjoint of golden_files.py
    difference = ddifference - xhat * np.mean(dxhat * xhat, axis=0) / root  # (5, 3)
    # adjoint of golden_files.py
    dx = difference - np.mean(ddifference, axis=0)                          # (5, 3)
    return dx, dgamma, dbeta
