import numpy as np


def clip_adjoint(g, a):
    """Adjoint of clip.

    g (4,), a (4,) -> da (4,); float64
    """
    da = np.where((a >= -0.5) & (a <= 0.5), g, 0)  # (4,)
    return da
