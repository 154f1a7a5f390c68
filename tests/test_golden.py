"""The golden files are what the emitter writes, and they compute the gradients of the tape.

See golden_files.py for how to write them again.
"""

import ast
import functools

import pytest

from emitting import assert_same, on_the_tape, run
from golden_files import FOLDER, golden, without_numbers
from minigrad.emit import emit_adjoint

ROWS = {name: rest for name, *rest in golden()}
each = pytest.mark.parametrize("name", ROWS)


def text_of(name):
    return (FOLDER / f"{name}.py").read_text(encoding="utf-8")


@each
def test_the_text_is_the_golden_file(name):
    f, args, kwargs = ROWS[name]
    assert without_numbers(emit_adjoint(f, *args, **kwargs).text) == text_of(name), (
        "the emitter writes something else: PYTHONPATH=. python tests/golden_files.py, and review git diff tests/golden"
    )


@each
def test_the_golden_file_computes_the_gradients(name):
    f, args, kwargs = ROWS[name]
    g, wanted = on_the_tape(f, args, kwargs, name)
    emitted = emit_adjoint(f, *args, **kwargs)
    scope = {}
    exec(compile(text_of(name), name, "exec"), scope)
    function = functools.partial(scope[emitted.name], **emitted.constants)
    assert_same(run(function, g, args, kwargs), wanted, 1e-14)


@each
def test_the_golden_file_needs_numpy_only(name):
    tree = ast.parse(text_of(name))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"numpy", "math"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_there_is_a_row_for_every_golden_file():
    assert {path.stem for path in FOLDER.glob("*")} == set(ROWS)
