import numpy as np


def prod_adjoint(g, a):
    """Adjoint of prod.

    g (), a (3,) -> da (3,); float64
    """
    cumprod = np.cumprod(a[..., :-1], axis=-1)                               # (2,)
    cumprod_2 = np.cumprod(a[..., :0:-1], axis=-1)                           # (2,)
    part = np.concatenate([np.array([1.0]), cumprod_2], axis=-1)[..., ::-1]  # (3,)
    da = g * np.concatenate([np.array([1.0]), cumprod], axis=-1) * part      # (3,)
    return da
