"""Settings of the whole process, for the command line to choose: never for the library, which has callers."""

import ctypes
import sys
from importlib import import_module

__all__ = ["keep_freed_memory", "use_blas_threads"]

# from glibc's malloc.h
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed blocks for the next step, and return whether it agreed.

    A training step allocates and frees the same hundred megabytes every time. By default glibc gives large blocks
    back to the system and gets them again page by page: 7,000 page faults a step of the default model, 10 of its
    75 ms. Elsewhere than on Linux with glibc nothing is changed.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**31 - 1, M_TOP_PAD: 2**26}  # 2**25 is glibc's limit
    return all([mallopt(name, value) == 1 for name, value in settings.items()])


def use_blas_threads(n: int) -> bool:
    """Multiply matrices in n threads, and return whether NumPy's BLAS could be asked: OpenBLAS can.

    OpenBLAS threads wait for each other in a loop at the end of every product. On two idle cores two threads make
    a step of the default model 15 % faster; with one other busy process, ten times slower than one thread. So one
    is the default, and more are for larger models on a machine of their own.
    """
    # NumPy's own library knows the symbols of the BLAS that it is linked with, whatever file that is in.
    library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", ""):
            set_num_threads = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
            if set_num_threads is not None:
                set_num_threads(n)
                return True
    return False
