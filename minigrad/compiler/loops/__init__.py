"""What runs without Python besides the kernels that are written anew for each program, compiled as these are.

Every parameter in these modules is an int64; what a function returns stands beside it. They may use what the language
of ../kernel_compiler.py knows, and import numpy, minigrad.compiler's native and register_tile only.
"""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from minigrad.compiler.kernel_cache import kernel_functions
from minigrad.compiler.kernel_compiler import constants

__all__ = ["compiled"]


@functools.cache
def compiled(name: str, dtype: str = "float32") -> Any:
    """Return the constants of a module in this folder, and the addresses of its functions, in place of these."""
    source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8").replace("np.float32", f"np.{dtype}")
    return SimpleNamespace(**constants(source) | kernel_functions(source))
