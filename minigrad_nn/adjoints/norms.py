"""Adjoints of the normalisations.          C channels   (...) any leading axes

All rest on one fact. For xhat = x * r with r = (mean(x*x) + eps)**-1/2 the differential is

    dr    = -r**3 mean(x dx)
    dxhat = r dx + x dr = r (dx - xhat mean(xhat dx))

a symmetric map, so g comes back through the same map: it loses its component along xhat and is scaled by r.
"""

import numpy as np

from minigrad_nn.adjoints.broadcast import like


def reciprocal_rms(x: np.ndarray, eps: float) -> np.ndarray:
    """1 / sqrt(mean(x*x) + eps) of the last axis, kept: (..., C) -> (..., 1)"""
    return 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    """The forward values, for the adjoints that contain a norm."""
    return x * reciprocal_rms(x, eps) * weight


def rmsnorm_adjoint(g: np.ndarray, x: np.ndarray, eps: float = 1e-8) -> np.ndarray:
    """Adjoint of `layers.rmsnorm`.   g (..., C), x (..., C) -> dx (..., C)

    dx = r (g - xhat mean(g xhat)): a change of length along x is what the forward does not see.
    Zhang & Sennrich 2019, arXiv:1910.07467
    """
    r = reciprocal_rms(x, eps)
    xhat = x * r
    return like(r * (g - xhat * (g * xhat).mean(-1, keepdims=True)), x)


def rms_norm_adjoint(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, eps: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Adjoint of `layers.rms_norm`.   g (..., C), x (..., C), weight (C,) -> dx (..., C), dweight (C,)

    The output is xhat * weight. So dweight sums g xhat, and g weight goes on back through x -> xhat.
    """
    xhat = x * reciprocal_rms(x, eps)
    return rmsnorm_adjoint(g * weight, x, eps), like(g * xhat, weight)


def zero_centred_rms_norm_adjoint(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, eps: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Adjoint of `layers.zero_centred_rms_norm`.   g (..., C) -> dx (..., C), dweight (C,)

    RMSNorm with the gain 1 + weight, and d(1 + weight) = dweight. The work is done in float32 at least,
    like the forward's, and each gradient cast to the dtype of its input.
    """
    wide = np.result_type(x.dtype, np.float32)
    dx, dgain = rms_norm_adjoint(g.astype(wide), x.astype(wide), 1 + weight.astype(wide), eps)
    return like(dx, x), like(dgain, weight)


def layer_norm_adjoint(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `layers.layer_norm`.   g (..., C) -> dx (..., C), dweight (C,), dbias (C,)

    LayerNorm is RMSNorm of the centred x. Back through the norm, g weight loses its component along xhat;
    back through centring, a symmetric projection, it loses its mean.     Ba et al. 2016, arXiv:1607.06450
    """
    centred = x - x.mean(-1, keepdims=True)
    xhat = centred * reciprocal_rms(centred, eps)
    dcentred = rmsnorm_adjoint(g * weight, centred, eps)
    dx = dcentred - dcentred.mean(-1, keepdims=True)
    return like(dx, x), like(g * xhat, weight), like(g, bias)
