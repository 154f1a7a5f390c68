"""Compiled functions on disk: the object code of each source is a file of its own, named by what it depends on."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from minigrad.compiler.kernel_compiler import compile_source
from minigrad.compiler.processor import cpu, target

__all__ = ["cache_folder", "kernel_functions"]

# What compiled code depends on, besides its own source.
_SOURCES = (
    "kernel_compiler", "llvm_arithmetic", "llvm_value", "native", "processor", "register_tile", "vector_math",
)  # fmt: skip
_DIGEST = hashlib.sha256().digest_size  # bytes before the code in a file


@functools.cache
def kernel_functions(source: str) -> dict[str, int]:
    """Return the addresses of a source's functions, by name; their code is read from disk, or made now."""
    key = "\n".join([source, _version(), *_machine()])
    name = f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    path = cache_folder() / f"{name}.o"
    code = _read(path)
    if code is None:
        code = compile_source(source, name)
        with contextlib.suppress(OSError):  # a full disk: the code will be made anew next time
            _write(path, hashlib.sha256(code).digest() + code)
    return _in_memory(name, code, source)


def _read(path: Path) -> bytes | None:
    """Return the code in a file, None if there is none or it is not what was written."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, code = data[:_DIGEST], data[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole: another process may be writing, or reading, the same."""
    file = tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False)
    try:
        with file:
            file.write(data)
        os.replace(file.name, path)
    except OSError:
        os.unlink(file.name)
        raise


@functools.cache
def _machine() -> list[str]:
    """Return what object code depends on besides its source and ours."""
    import llvmlite
    from llvmlite import binding

    return [llvmlite.__version__, str(binding.llvm_version_info), binding.get_default_triple(), *cpu()]


def _in_memory(name: str, code: bytes, source: str) -> dict[str, int]:
    from llvmlite import binding

    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    functions = re.findall(r"^def (\w+)", source, re.MULTILINE)
    return {function: engine.get_function_address(f"{name}_{function}") for function in functions}


@functools.cache
def _engine() -> Any:
    """Return what makes code run; the code lives as long as the process."""
    from llvmlite import binding

    return binding.create_mcjit_compiler(binding.parse_assembly(""), target())


@functools.cache
def _version() -> str:
    """Return a digest of the modules that compiled code depends on."""
    folder = Path(__file__).parent
    code = b"".join((folder / f"{name}.py").read_bytes() for name in _SOURCES)
    return hashlib.sha256(code).hexdigest()[:12]


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
