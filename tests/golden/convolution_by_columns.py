import numpy as np


def convolution_by_columns_adjoint(g, x, W, b):
    """Adjoint of convolution_by_columns (golden_files.py).

    g (2, 5, 3, 3), x (2, 3, 4, 4), W (5, 3, 2, 2), b (5,) -> dx (2, 3, 4, 4), dW (5, 3, 2, 2), db (5,);
    float64
    """
    # golden_files.py  cols = np.zeros_like(x, shape=(n, c, k, k, ho, wo))
    cols = np.zeros_like(x, shape=(2, 3, 2, 2, 3, 3))                        # (2, 3, 2, 2, 3, 3)
    # golden_files.py  cols[:, :, i, j] = x[:, :, i : i + ho, j : j + wo]
    cols[:, :, 0, 0] = x[:, :, 0:3, 0:3]
    cols[:, :, 0, 1] = x[:, :, 0:3, 1:4]
    cols[:, :, 1, 0] = x[:, :, 1:4, 0:3]
    cols[:, :, 1, 1] = x[:, :, 1:4, 1:4]

    # adjoint of golden_files.py  return out.reshape(n, ho, wo, f).transpose(0, 3, 1, 2)
    transposed = np.transpose(g, (0, 2, 3, 1))                               # (2, 3, 3, 5)
    dout = np.reshape(transposed, (-1, 5))                                   # (18, 5)
    # adjoint of golden_files.py  out = rows @ W.reshape(f, -1).T + b
    db = np.sum(dout, axis=0)                                                # (5,)
    drows = dout @ np.reshape(W, (5, 12))                                    # (18, 12)
    reshaped = np.reshape(np.transpose(cols, (0, 4, 5, 1, 2, 3)), (18, 12))  # (18, 12)
    dW = np.reshape(np.reshape(transposed, (-1, 5)).T @ reshaped, W.shape)   # (5, 3, 2, 2)
    # adjoint of golden_files.py  rows = cols.transpose(0, 4, 5, 1, 2, 3).reshape(n * ho * wo, -1)
    dcols_2 = np.transpose(np.reshape(drows, (2, 3, 3, 3, 2, 2)), (0, 3, 4, 5, 1, 2))  # (2, 3, 2, 2, 3, 3)
    # adjoint of golden_files.py
    dx = np.zeros_like(x)                                                    # (2, 3, 4, 4)
    dx[:, :, 1:, 1:] = dcols_2[:, :, 1, 1]
    dx[:, :, 1:, :3] += dcols_2[:, :, 1, 0]
    dx[:, :, :3, 1:] += dcols_2[:, :, 0, 1]
    dx[:, :, :3, :3] += dcols_2[:, :, 0, 0]
    return dx, dW, db
