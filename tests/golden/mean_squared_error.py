def mean_squared_error_adjoint(g, pred, target):
    """Adjoint of mean_squared_error (golden_files.py).

    g (), pred (5, 3), target (5, 3) -> dpred (5, 3), dtarget (5, 3); float64
    """
    # adjoint of golden_files.py  return np.mean((pred - target) ** 2)
    product = 2 * g * (pred - target)  # (5, 3)
    dpred = product / 15               # (5, 3)
    dtarget = -product / 15            # (5, 3)
    return dpred, dtarget
