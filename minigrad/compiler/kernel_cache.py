"""Compiled functions on disk: each module of kernels is a file of its own, named by its content."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

__all__ = ["cache_folder", "kernel_module", "shipped"]

_HEADER = '''"""A kernel written by minigrad, for its functions of version {version}."""

from math import cos, sin, sqrt

import numpy as np
from numba import cfunc, types

from minigrad.compiler.native import load, place, plus, pointer, store
from minigrad.compiler.vector_math import erf, exp, expm1, log, log1p, maximum, minimum, tanh

f4, f8, i8, i4, b1 = np.float32, np.float64, np.int64, np.int32, np.bool_
INF, NAN = np.inf, np.nan
kernel = cfunc(
    types.void(types.int64, types.int64, types.int64, types.int64),
    cache=True,
    error_model="numpy",
    fastmath={{"contract"}},
    _nrt=False,  # no memory is allocated
)
'''


_loaded: dict[str, ModuleType] = {}


def kernel_module(kernel: str) -> ModuleType:
    """Return the module of a kernel: from this process, from disk, or made now."""
    return _module("kernel", _HEADER.format(version=_math_version()) + kernel)


@functools.cache
def shipped(name: str, dtype: str = "float32") -> ModuleType:
    """Return a module of this folder, compiled from a copy in the cache: numba's cache would not notice a change."""
    source = (Path(__file__).parent / "loops" / f"{name}.py").read_text().replace("types.float32", f"types.{dtype}")
    return _module(name, f"{source}\n# for the functions of version {_math_version()}\n")


def _module(kind: str, source: str) -> ModuleType:
    digest = hashlib.sha256(source.encode()).hexdigest()[:24]
    if digest not in _loaded:
        _loaded[digest] = _load(f"{kind}_{digest}", source)
    return _loaded[digest]


@functools.cache
def _math_version() -> str:
    """Return a digest of the functions that kernels import: numba's cache does not notice when these change."""
    folder = Path(__file__).parent
    code = b"".join(
        (folder / name).read_bytes() for name in ("vector_math.py", "llvm_value.py", "native.py", "register_tile.py")
    )
    return hashlib.sha256(code).hexdigest()[:12]


def _load(name: str, source: str) -> ModuleType:
    """Import a module from a file of its own: numba's cache on disk goes by files."""
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
    return module


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
