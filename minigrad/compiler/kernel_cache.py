"""Compiled functions on disk: each kernel is a file of its own, named by what its code depends on.

Kernels are kept as the object code of their machine. The functions that `loops` has are kept by numba.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from minigrad.compiler.kernel_compiler import compile_source, cpu, target

__all__ = ["cache_folder", "kernel_module", "shipped"]

# What compiled code depends on, besides its own source.
_SOURCES = ("kernel_compiler", "vector_math", "llvm_value", "native", "register_tile")

_loaded: dict[str, ModuleType] = {}


@dataclass(frozen=True)
class Function:
    """A compiled function, which is to be called by its address."""

    address: int


@functools.cache
def kernel_module(source: str) -> SimpleNamespace:
    """Return the functions of a kernel, by name: from this process, from disk, or made now."""
    key = "\n".join([source, _math_version(), _machine()])
    name = f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    path = cache_folder() / f"{name}.o"
    code = _read(path)
    if code is None:
        code = compile_source(source, name)
        _write(path, hashlib.sha256(code).digest() + code)
    return _in_memory(name, code, source)


def _read(path: Path) -> bytes | None:
    """Return the code in a file, unless it is not what was written there."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(data)
    os.replace(file.name, path)  # another process may be doing the same


@functools.cache
def _machine() -> str:
    """Return what code depends on besides its source and ours."""
    import llvmlite
    from llvmlite import binding

    return "\n".join([llvmlite.__version__, str(binding.llvm_version_info), binding.get_default_triple(), *cpu()])


def _in_memory(name: str, code: bytes, source: str) -> SimpleNamespace:
    from llvmlite import binding

    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    functions = re.findall(r"^def (\w+)", source, re.MULTILINE)
    return SimpleNamespace(**{f: Function(engine.get_function_address(f"{name}_{f}")) for f in functions})


@functools.cache
def _engine() -> Any:
    """Return what makes code run; the code lives as long as the process."""
    from llvmlite import binding

    return binding.create_mcjit_compiler(binding.parse_assembly(""), target())


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
    code = b"".join((folder / f"{name}.py").read_bytes() for name in _SOURCES)
    return hashlib.sha256(code).hexdigest()[:12]


def _load(name: str, source: str) -> ModuleType:
    """Import a module from a file of its own: numba's cache on disk goes by files."""
    folder = cache_folder()
    path = folder / f"{name}.py"
    if not path.exists():
        _write(path, source.encode())
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
