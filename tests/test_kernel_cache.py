"""Kernels on disk: read again, made anew where they must be, and written by several processes at once."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from kernels import elementwise
from minigrad.compiler import kernel_cache
from minigrad.compiler.kernel_cache import cache_folder, kernel_functions

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def made(folder, monkeypatch):
    """The names of what has been compiled."""
    names = []
    compile_source = kernel_cache.compile_source

    def noted(source, name):
        names.append(name)
        return compile_source(source, name)

    monkeypatch.setattr(kernel_cache, "compile_source", noted)
    yield names
    forget()


_engines = []  # their code stays: crews that were started before wait in it


def forget():
    """As a new process would: nothing is loaded."""
    _engines.append(kernel_cache._engine())
    for function in (kernel_functions, kernel_cache._engine, kernel_cache._machine):
        function.cache_clear()


def triple():
    """Run a kernel."""
    forget()
    x = np.random.default_rng(6).normal(size=5)
    np.testing.assert_array_equal(elementwise("a * f8(3)", x, to="f8"), x * 3)


def test_code_is_read_again(folder, made):
    triple()
    triple()
    assert [path.name for path in folder.iterdir()] == [f"{made[0]}.o"]
    assert len(made) == 1


@pytest.mark.parametrize("damage", [
    lambda data: b"",
    lambda data: data[:20],
    lambda data: data[:-1],
    lambda data: data + b"x",
    lambda data: data[:-1] + bytes([data[-1] ^ 1]),
])  # fmt: skip
def test_a_damaged_file_is_made_anew(folder, made, damage):
    triple()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    triple()
    assert made == [path.stem] * 2
    assert path.read_bytes() == whole


@pytest.mark.parametrize("function", ["cpu", "_version"])
def test_another_processor_or_version_has_code_of_its_own(folder, made, monkeypatch, function):
    triple()
    given = getattr(kernel_cache, function)()
    monkeypatch.setattr(kernel_cache, function, lambda: given[:-1] + type(given)("x"))
    triple()
    assert len(set(made)) == len(list(folder.iterdir())) == 2


def test_a_processor_that_llvm_knows_by_name_only_is_compiled_for(folder, monkeypatch):
    from llvmlite import binding

    def unknown():
        raise RuntimeError("not on this system")

    monkeypatch.setattr(binding, "get_host_cpu_features", unknown)
    triple()
    forget()


def test_what_cannot_be_written_is_made_each_time(folder, made, monkeypatch):
    def full(source, to):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    triple()
    triple()
    assert len(made) == 2
    assert not list(folder.iterdir())


def test_what_cannot_be_read_is_made(folder, made):
    triple()
    (path,) = folder.iterdir()
    path.unlink()
    path.mkdir()
    triple()
    assert len(made) == 2


@pytest.fixture
def environment(monkeypatch):
    """The folder is looked for anew."""
    cache_folder.cache_clear()
    yield monkeypatch
    cache_folder.cache_clear()


def test_the_folder_is_where_the_environment_says(environment, tmp_path):
    environment.setenv("MINIGRAD_CACHE", str(tmp_path / "new"))
    assert cache_folder() == tmp_path / "new" / "kernels"


@pytest.mark.parametrize("empty", [False, True])
def test_without_a_variable_it_is_the_users_cache(environment, tmp_path, empty):
    environment.setenv("MINIGRAD_CACHE", "") if empty else environment.delenv("MINIGRAD_CACHE", raising=False)
    environment.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "minigrad" / "kernels"
    cache_folder.cache_clear()
    environment.delenv("XDG_CACHE_HOME")
    environment.setattr(os.path, "expanduser", lambda path: path.replace("~", str(tmp_path)))
    assert cache_folder() == tmp_path / ".cache" / "minigrad" / "kernels"


def test_a_folder_that_is_read_only_is_not_used(environment, tmp_path):
    """By what writing says, as its mode does not stop an administrator."""
    temporary_file = tempfile.TemporaryFile

    def refused(*args, dir=None, **kwargs):
        if dir is not None and tmp_path in Path(dir).parents:
            raise PermissionError(dir)
        return temporary_file(*args, dir=dir, **kwargs)

    environment.setenv("MINIGRAD_CACHE", str(tmp_path / "new"))
    environment.setattr(tempfile, "TemporaryFile", refused)
    assert cache_folder().is_dir()
    assert tmp_path not in cache_folder().parents


COMPARED = """
import numpy as np
import minigrad

x = np.random.default_rng(0).normal(size=(37, 41))
f = lambda x: {}
np.testing.assert_allclose(minigrad.compile(f, backend="llvm")(x), f(x), rtol=1e-12, atol=1e-12)
"""


def compare(expression, cache, processes=1, before="", after=""):
    """Hold a compiled expression against NumPy in several processes at once, with one cache."""
    environment = {**os.environ, "MINIGRAD_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", before + COMPARED.format(expression) + after]
    running = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(processes)]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


def test_processes_fill_one_cache_at_once(tmp_path):
    expression = "np.exp(x - x.max(-1, keepdims=True))"
    compare(expression, tmp_path, processes=2)
    folder = tmp_path / "kernels"
    kept = {path: path.read_bytes() for path in folder.glob("*.o")}
    assert kept
    assert all(kernel_cache._read(path) is not None for path in kept)
    assert not list(folder.glob("*.tmp"))
    compare(expression, tmp_path)
    assert {path: path.read_bytes() for path in folder.glob("*.o")} == kept


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2] + bytes(len(data) // 2)])
def test_damaged_loops_are_made_anew(tmp_path, damage):
    """Products, rows by number and the crew itself: their code is kept, and checked, as that of any kernel."""
    expression = "np.tanh(x @ x.T)[np.array([3, 1])]"
    compare(expression, tmp_path)
    kept = {path: path.read_bytes() for path in (tmp_path / "kernels").iterdir()}
    assert len(kept) >= 3 and {path.suffix for path in kept} == {".o"}
    for path, data in kept.items():
        path.write_bytes(damage(data))
    compare(expression, tmp_path)
    assert {path: path.read_bytes() for path in (tmp_path / "kernels").iterdir()} == kept


NOTHING_IS_COMPILED = """
import sys
from minigrad.compiler import kernel_cache

kernel_cache.compile_source = None
"""


def test_with_a_full_cache_nothing_is_compiled(tmp_path):
    expression = "np.tanh(x @ x.T)"
    compare(expression, tmp_path)
    compare(expression, tmp_path, before=NOTHING_IS_COMPILED, after="assert 'numba' not in sys.modules")
    with pytest.raises(AssertionError, match="'NoneType' object is not callable"):
        compare("np.exp(x @ x.T)", tmp_path, before=NOTHING_IS_COMPILED)
