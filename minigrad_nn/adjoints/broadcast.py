"""The last line of every adjoint: a gradient has the shape and the dtype of the input it belongs to."""

import numpy as np


def like(dx: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sum dx over the axes along which x was broadcast, and cast it to the dtype of x.

    An entry of x used at several places of the output gets the sum of what comes back from each of them.

    dx (anything x.shape broadcasts to) -> x.shape
    """
    added = dx.ndim - x.ndim
    stretched = [added + i for i, n in enumerate(x.shape) if n == 1 and dx.shape[added + i] != 1]
    summed = dx.sum((*range(added), *stretched), keepdims=True)
    return summed.reshape(x.shape).astype(x.dtype, copy=False)
