"""Half precision: a layer that squares or sums does so in float32, and rounds once at the end.

In float16 the square of 300 is infinite, so that a norm of it would be 0; and a sum of ones, such as the gradient of a
bias, stops at 2048, in bfloat16 at 256.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["in_float32", "is_half"]


def is_half(*dtypes: np.dtype) -> bool:
    """Tell whether one of the dtypes is of half precision."""
    return any(dtype.itemsize == 2 and dtype.kind in "fV" for dtype in dtypes)  # "V" is the kind of bfloat16


def in_float32(layer: Callable[..., Any], *args: Any, **fixed: Any) -> Any:
    """Call a layer with float32 in place of half precision, and round the result to the dtype that the args make."""
    floating = [x.dtype for x in args if hasattr(x, "dtype") and x.dtype.kind in "fV"]
    wide = [x.astype(np.float32) if hasattr(x, "dtype") and is_half(x.dtype) else x for x in args]
    return layer(*wide, **fixed).astype(np.result_type(*floating))
