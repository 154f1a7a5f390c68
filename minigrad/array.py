"""`np.array` for nested lists with Tensors in them, which NumPy itself would convert to plain data."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.op import Recorded

__all__ = ["array"]

numpy: Any = np  # NumPy's stubs do not know that its functions answer for Tensors


def array(obj: Any, dtype: Any = None) -> Any:
    """Return an array made of nested lists or tuples of numbers, arrays and Tensors; a Tensor if it has one in it.

    Parameters
    ----------
    obj
        As for `numpy.array`; the parts must have equal shapes.
    dtype
        Of the result; by default NumPy's promotion of the parts.
    """
    if isinstance(obj, Recorded):
        out = numpy.copy(obj)
    elif not _has_tensor(obj):
        return np.array(obj, dtype=dtype)
    else:
        out = numpy.stack([array(part) for part in obj])
    return out if dtype is None else out.astype(dtype, copy=False)


def _has_tensor(obj: Any) -> bool:
    return isinstance(obj, Recorded) or (isinstance(obj, (list, tuple)) and any(_has_tensor(part) for part in obj))
