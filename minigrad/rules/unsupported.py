"""What is not differentiated, each with the reason and a way out. Every other function of NumPy has a rule.

tests/test_coverage.py takes the list of functions from NumPy itself and proves that none is forgotten.
"""

from typing import Any

import numpy as np

from minigrad.op import REFUSED, available, refuse

WHOLE = "it takes whole numbers, which have no derivative: pass it plain arrays of integers"
FILE = "a file keeps numbers and no gradient: return what is to be saved from the loss (has_aux=True)"
LIKE = "with like=Tensor: make the array with np.zeros_like(t, shape=...), np.full_like or minigrad.array([...])"
COUNTS = "counts do not change with the data: np.histogram and np.bincount differentiate their weights"
UNKNOWN = "minigrad does not know this function; it may be newer than minigrad"
MEMORY = "it hands out the memory, which keeps no gradient: minigrad.stop_gradient(t) is the plain array"

refuse(WHOLE, np.gcd, np.lcm, np.left_shift, np.right_shift, np.bitwise_count, np.packbits, np.unpackbits)
refuse(WHOLE, np.ravel_multi_index, np.unravel_index)
refuse("dates have no derivative: pass it plain arrays", np.isnat, np.is_busday, np.busday_count, np.busday_offset)
refuse("dates have no derivative: pass it plain arrays", np.datetime_as_string)
refuse(COUNTS, np.histogram2d, np.histogramdd)
refuse("it is gone from later versions of NumPy: use np.isin", *available("in1d"))
refuse(FILE, np.save, np.savez, np.savez_compressed, np.savetxt)
refuse(LIKE, np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require)
refuse(LIKE, np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.tri, np.arange, np.fromfunction)
refuse(LIKE, np.fromiter, np.frombuffer, np.fromstring, np.fromfile, np.loadtxt, np.genfromtxt)

MODULES = {
    "numpy.strings": "text has no derivative",
    "numpy.char": "text has no derivative",
    "numpy.rec": "records are not differentiated: keep the fields in a dict of arrays",
    "numpy.lib.recfunctions": "records are not differentiated: keep the fields in a dict of arrays",
    "numpy.polynomial": "numpy.polynomial converts its arguments to plain arrays: use np.polyval and its relatives",
}
"""Modules none of whose functions is differentiated. NumPy imports them when they are used, and so here too."""

INTERFACES = ("array_interface", "array_struct", "buffer", "dlpack", "dlpack_device", "setstate")
METHODS = {
    **dict.fromkeys(("data", "ctypes", "tobytes", "tostring", "tofile", "dump", "dumps"), MEMORY),
    **dict.fromkeys((f"__{name}__" for name in INTERFACES), MEMORY),
    "base": "a Tensor may stand for a view without being one: minigrad.stop_gradient(t) is the plain array",
    "byteswap": "reinterpreting bytes has no derivative: use astype",
    "flat": "use np.ravel(t), or t.reshape(-1)[i] = v to assign",
    "getfield": "reinterpreting bytes has no derivative: use t.real, t.imag or astype",
    "item": "a Python number has no gradient: return the scalar t, or minigrad.stop_gradient(t)",
    "resize": "it changes memory that other arrays may see: use t = np.resize(t, shape)",
    "setfield": "reinterpreting bytes has no derivative: use t.real, t.imag or astype",
    "setflags": "a Tensor's array is not the user's to protect: set the flags of a copy",
    "tolist": "Python numbers have no gradient: list(t) has Tensors, minigrad.stop_gradient(t) is the plain array",
    "view": "reinterpreting bytes has no derivative: use astype",
}
"""Methods and attributes of ndarray that a Tensor does not have, or has to refuse by name."""


def reason(function: Any) -> str:
    """Return why a function of NumPy is not differentiated."""
    if function in REFUSED:
        return REFUSED[function]
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function:
        if function.__name__.endswith("(vectorized)"):  # its name for what np.frompyfunc makes
            return "what np.frompyfunc makes works on Python objects, one by one: call NumPy functions on whole arrays"
        module = "numpy.strings"  # NumPy's other ufuncs; SciPy's have been looked up by now
    found = (text for name, text in MODULES.items() if module == name or module.startswith(name + "."))
    return next(found, UNKNOWN)
