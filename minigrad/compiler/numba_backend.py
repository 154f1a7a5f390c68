"""Running a plan with numba: every group is a kernel of its own, compiled once and cached on disk by its content."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from minigrad.compiler.kernel_source import Kernel, write_kernel
from minigrad.compiler.numpy_backend import Memory, Step, equation_step
from minigrad.program import Equation

__all__ = ["numba_steps"]

_HEADER = '''"""A kernel written by minigrad, for the elementary functions of version {version}."""

import numpy as np
from numba import njit, prange, types
from math import cos, sin, sqrt
from minigrad.compiler.vector_math import erf, exp, expm1, log, log1p, maximum, minimum, tanh

f4, f8, i8, i4, b1 = np.float32, np.float64, np.int64, np.int32, np.bool_
INF, NAN = np.inf, np.nan


@njit(
    {signature},
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={{"reassoc", "contract", "nsz", "arcp"}},
    parallel={parallel},
)
'''

# Only the loop over the threads is parallel; numba's own rewriting of array expressions would cost compile time.
PRANGE = (
    "{'comprehension': False, 'prange': True, 'numpy': False, 'reduction': False, "
    "'setitem': False, 'stencil': False, 'fusion': False}"
)

_loaded: dict[str, Callable[..., None]] = {}


def numba_steps(memory: Memory) -> list[tuple[Step, list[Equation]]]:
    """Return the steps of a plan, each with the equations it computes."""
    import numba

    threads = numba.get_num_threads()
    steps: list[tuple[Step, list[Equation]]] = []
    for group in memory.plan.groups:
        if group.domain is None:
            steps += [(equation_step(memory, eq), [eq]) for eq in group.equations]
        else:
            kernel = write_kernel(memory.plan, group, threads)
            function = _compiled(kernel)
            steps.append((partial(function, *(memory.flat[b] for b in kernel.buffers)), group.equations))
    return steps


def _compiled(kernel: Kernel) -> Callable[..., None]:
    """Return the compiled kernel: from this process, from disk, or made now."""
    signature = f"types.void({', '.join(kernel.types)})"
    source = _HEADER.format(
        version=_math_version(), signature=signature, parallel=PRANGE if kernel.parallel else "False"
    )
    source += kernel.source
    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    if digest not in _loaded:
        _loaded[digest] = _load(f"kernel_{digest}", source)
    return _loaded[digest]


@functools.cache
def _math_version() -> str:
    """Return a digest of the functions that kernels import: numba's cache does not notice when these change."""
    folder = Path(__file__).parent
    code = b"".join((folder / name).read_bytes() for name in ("vector_math.py", "llvm_value.py"))
    return hashlib.sha256(code).hexdigest()[:12]


def _load(name: str, source: str) -> Callable[..., None]:
    """Import a kernel from a file of its own: numba's cache on disk goes by files."""
    folder = cache_folder()
    path = folder / f"{name}.py"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".tmp", delete=False) as file:
            file.write(source)
        os.replace(file.name, path)  # another process may be doing the same
    spec = importlib.util.spec_from_file_location(f"minigrad_kernels.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.kernel  # type: ignore[no-any-return]


@functools.cache
def cache_folder() -> Path:
    """Return where compiled kernels are kept: $MINIGRAD_CACHE, or minigrad below the user's cache folder.

    Where that cannot be written to, it is a temporary folder of this process: kernels are then compiled every time.
    """
    base = os.environ.get("MINIGRAD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "minigrad"
    )
    folder = Path(base) / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="minigrad-kernels-"))
