"""numpy.emath: the functions that turn to complex numbers where real ones have no result."""

import numpy as np
from numpy.lib import scimath

from minigrad.op import as_array, composite


def complex_if(x, outside):
    """Return x, as complex numbers if any of it is real and outside of where the function is real."""
    if np.any(np.isreal(x) & outside):
        return x.astype(np.complex64 if x.dtype in (np.float16, np.float32, np.complex64) else np.complex128)
    return x


def if_negative(x):
    """Return x, as complex numbers if any of it is negative."""
    x = as_array(x)
    return complex_if(x, np.less(np.real(x), 0))


def if_beyond_one(x):
    """Return x, as complex numbers if any of it is beyond -1 or 1."""
    x = as_array(x)
    return complex_if(x, np.greater(np.abs(x), 1))


composite(scimath.sqrt)(lambda x: np.sqrt(if_negative(x)))
composite(scimath.log)(lambda x: np.log(if_negative(x)))
composite(scimath.log2)(lambda x: np.log2(if_negative(x)))
composite(scimath.log10)(lambda x: np.log10(if_negative(x)))
composite(scimath.logn)(lambda n, x: np.log(if_negative(x)) / np.log(if_negative(n)))
composite(scimath.arccos)(lambda x: np.arccos(if_beyond_one(x)))
composite(scimath.arcsin)(lambda x: np.arcsin(if_beyond_one(x)))
composite(scimath.arctanh)(lambda x: np.arctanh(if_beyond_one(x)))


@composite(scimath.power)
def power(x, p):
    """x to the power of p; integers to a negative one are first made real."""
    p = as_array(p)
    return np.power(if_negative(x), p * 1.0 if np.any(np.less(np.real(p), 0)) else p)
