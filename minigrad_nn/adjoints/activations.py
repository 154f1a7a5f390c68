"""Adjoints of the pointwise nonlinearities and of the softmaxes along the last axis.

For a pointwise y = f(x) the adjoint is g f'(x), and each docstring derives f'. Everything has the shape of x.
"""

import math

import numpy as np

ROOT_2_OVER_PI = math.sqrt(2 / math.pi)
ROOT_HALF = math.sqrt(0.5)
CUBIC = 0.044715                                                    # of the tanh form of GELU

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), written so that no x overflows."""
    return 0.5 * (1 + np.tanh(0.5 * x))


def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x)"""
    return x * sigmoid(x)


def softmax(x: np.ndarray) -> np.ndarray:
    """exp(x) over its sum along the last axis, shifted by the maximum so that exp stays finite."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def relu_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.relu`: the slope is 1 above 0, 0 below, and 0 at 0 by convention."""
    return np.where(x > 0, g, 0)


def relu_squared_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.relu_squared`: d max(x, 0)**2 = 2 max(x, 0) dx, continuous at 0.

    So et al. 2021, arXiv:2109.08668
    """
    return g * 2 * np.maximum(x, 0)


def sigmoid_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.sigmoid`.

    s = 1 / (1 + e) with e = exp(-x):   s' = e / (1 + e)**2 = s (1 - s),   and 1 - s(x) is s(-x).
    """
    return g * sigmoid(x) * sigmoid(-x)


def silu_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.silu`: (x s)' = s + x s (1 - s).     Elfwing et al. 2017, arXiv:1702.03118"""
    s = sigmoid(x)
    return g * s * (1 + x * sigmoid(-x))


def gelu_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.gelu`.

    y = x P(x) with P the normal distribution, P = (1 + erf(x / sqrt 2)) / 2, whose derivative is the density
    p = exp(-x*x/2) / sqrt(2 pi):   y' = P + x p.
    Hendrycks & Gimpel 2016, arXiv:1606.08415
    """
    distribution = 0.5 * (1 + erf(x * ROOT_HALF).astype(x.dtype))
    density = 0.5 * ROOT_2_OVER_PI * np.exp(-0.5 * x * x)
    return g * (distribution + x * density)


def gelu_tanh_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.gelu_tanh`.

    y = x (1 + t) / 2 with t = tanh(u), u = c (x + a x**3):
    y' = (1 + t) / 2 + x (1 - t*t) u' / 2,   u' = c (1 + 3 a x*x).
    """
    t = np.tanh(ROOT_2_OVER_PI * (x + CUBIC * x * x * x))
    slope = ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x)                # du/dx
    return g * 0.5 * (1 + t + x * (1 - t * t) * slope)


def softmax_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.softmax`.   g (..., C), x (..., C) -> dx (..., C)

    log p = x - logsumexp(x) and d logsumexp = p . dx, so dp = p (dx - p . dx). This map is symmetric in i
    and j: its matrix is diag(p) - p p'. So g comes back through it too,  dx = p (g - p . g).
    """
    p = softmax(x)
    return p * (g - (p * g).sum(-1, keepdims=True))


def log_softmax_adjoint(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.log_softmax`.   g (..., C), x (..., C) -> dx (..., C)

    d log p_i = dx_i - p . dx, so dx_j collects g_j from its own output and -p_j g_i from every output i:
    dx = g - p sum(g).
    """
    return g - softmax(x) * g.sum(-1, keepdims=True)
