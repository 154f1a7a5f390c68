"""Functions that NumPy lacks."""

import math

import numpy as np

from minigrad.op import Op

__all__ = ["erf"]

_erf = np.frompyfunc(math.erf, 1, 1)


def _erf_value(x):
    dtype = np.result_type(x, np.float16) if not isinstance(x, float) else np.float64
    return np.asarray(_erf(x)).astype(dtype)[()]


erf = Op(_erf_value, "x", (lambda g, x: g * (2 / math.sqrt(math.pi) * np.exp(-x * x)),), "minigrad.erf", kind="elementwise")
