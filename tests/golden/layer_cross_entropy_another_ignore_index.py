import numpy as np


def cross_entropy_adjoint(g, logits, targets):
    """Adjoint of cross_entropy (layers.py).

    g (), logits (2, 3, 3), targets (2, 3) int64 -> dlogits (2, 3, 3); float64
    """
    # layers.py  kept = targets != ignore_index
    kept = targets != 1                                                 # (2, 3) bool
    # layers.py  logits, targets = np.where(kept[..., None], logits, 0), np.where(kept, targets, 0)
    logits_2 = np.where(kept[..., None], logits, 0)                     # (2, 3, 3)
    targets_2 = np.where(kept, targets, 0)                              # (2, 3) int64
    # layers.py  shifted = logits - np.max(stop_gradient(logits), axis=-1, keepdims=True)
    shifted = logits_2 - np.max(logits_2, axis=-1, keepdims=True)       # (2, 3, 3)
    # layers.py  return np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)) - chosen
    exp = np.exp(shifted)                                               # (2, 3, 3)

    # adjoint of layers.py  return np.sum(losses) / np.maximum(np.sum(kept), 1).astype(losses.dtype)
    ratio = g / np.maximum(np.sum(kept), 1).astype(np.float64)          # ()
    # adjoint of layers.py  losses = np.where(kept[..., None], _row_losses(logits, targets), 0)
    drow_losses = np.where(kept[..., None], ratio, 0)                   # (2, 3, 1)
    # adjoint of layers.py  chosen = np.take_along_axis(shifted, targets[..., None], axis=-1)
    dshifted = drow_losses * exp / np.sum(exp, axis=-1, keepdims=True)  # (2, 3, 3)
    dshifted[np.arange(2)[:, None, None], np.arange(3)[None, :, None], targets_2[..., None]] -= drow_losses
    # adjoint of layers.py
    dlogits = np.where(kept[..., None], dshifted, 0)                    # (2, 3, 3)
    return dlogits
