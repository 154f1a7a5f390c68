"""What runs without Python besides the kernels that are written anew for each program: numba compiles it.

These modules are not imported but compiled from copies in the cache folder (see ../kernel_cache.py), so that a change
here, or in what they import, is noticed. They may import numba and minigrad.compiler's native and register_tile only.
"""
