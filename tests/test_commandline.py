"""`python -m minigrad`, and what its commands share."""

import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad
from minigrad import __main__ as program
from minigrad.commandline import CommandError, bound, load, made
from minigrad_nn import layers

rng = np.random.default_rng(0)


@pytest.fixture
def file(tmp_path):
    """A file with functions in it."""
    path = tmp_path / "functions_of_mine.py"
    path.write_text(
        "import numpy as np\n\n"
        "def scale(x, w, *, power=2):\n    y = x * w\n    return y ** power\n\n"
        "def _hidden(x):\n    return x\n\n"
        "class Layer:\n    @staticmethod\n    def forward(x):\n        return np.exp(x)\n\n"
        "class Dense:\n    def __init__(self, n=3):\n        self.W = np.ones((n, 2))\n\n"
        "    def forward(self, x):\n        return x @ self.W\n\n"
        "NUMBER = 3\n"
    )
    yield path
    sys.path.remove(str(tmp_path))
    sys.modules.pop(path.stem, None)


def output(capsys, *words):
    code = program.main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_prints_the_adjoint(file, capsys):
    code, out, err = output(capsys, "adjoint", f"{file}:scale", "--input", "x=3,4", "--input", "w=4")
    function = sys.modules["functions_of_mine"].scale
    assert (code, err) == (0, "")
    assert out == minigrad.adjoint_source(function, np.ones((3, 4)), np.ones(4))
    assert "dx = dy * w" in out


def test_inputs_are_given_by_name_or_in_order(file, capsys):
    by_name = output(capsys, "adjoint", f"{file}:scale", "--input", "w=4", "--input", "x=3,4")
    assert by_name[0] == 0
    assert output(capsys, "adjoint", f"{file}:scale", "--input", "3,4", "--input", "4") == by_name
    assert output(capsys, "adjoint", f"{file}:scale", "--input", "3,4", "--input", "w=4") == by_name


def test_it_prints_the_function_or_every_operation(file, capsys):
    _, out, _ = output(capsys, "adjoint", f"{file}:Layer.forward", "--input", "x=", "--forward")
    assert "return np.exp(x)" in out
    _, out, _ = output(capsys, "adjoint", f"{file}:scale", "--input", "x=2", "--input", "w=2", "--exact")
    assert out == minigrad.adjoint_source(load(f"{file}:scale"), np.ones(2), np.ones(2), tidy=False)


@pytest.mark.parametrize("name", ["Dense", "Dense.forward"])
def test_a_method_is_that_of_an_object(file, capsys, name):
    code, out, _ = output(capsys, "adjoint", f"{file}:{name}", "--init", "n=5", "--input", "x=2,5")
    assert code == 0 and "def forward_adjoint(g, x):" in out and "dx = g @ np.ones((5, 2)).T" in out
    code, _, err = output(capsys, "adjoint", f"{file}:{name}", "--init", "m=5", "--input", "x=2,5")
    assert code == 2 and "--init NAME=VALUE" in err and "unexpected keyword argument 'm'" in err


def test_what_the_code_raises_is_reported_with_its_line(file, capsys):
    code, out, err = output(capsys, "adjoint", f"{file}:Dense", "--input", "x=2,5")
    assert (code, out) == (2, "")
    assert f"{file}:Dense: ValueError: matmul" in err
    assert f"  at  {file}:20    return x @ self.W" in err and "Traceback" not in err


def test_it_writes_a_file(file, capsys, tmp_path):
    target = tmp_path / "adjoint.py"
    code, out, _ = output(
        capsys, "adjoint", f"{file}:scale", "--input", "x=2", "--input", "w=2", "--output", str(target)
    )
    assert (code, out) == (0, "")
    assert "def scale_adjoint(g, x, w):" in target.read_text()


def test_it_knows_modules_and_packages(capsys):
    words = "--input", "x=2,3", "--input", "weight=3"
    _, by_name, _ = output(capsys, "adjoint", "minigrad_nn.layers:rms_norm", *words)
    _, by_file, _ = output(capsys, "adjoint", f"{layers.__file__}:rms_norm", *words)
    assert by_name == by_file
    _, out, _ = output(capsys, "adjoint", "numpy:matmul", "--input", "a=2,3", "--input", "b=3,4")
    assert "dx1 = g @ x2.T" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{file}"], "wanted path/to/file.py:function"),
        (["{file}:scales"], "has no 'scales': did you mean 'scale'? It has Dense, Layer, scale\n"),
        (["{file}:NUMBER"], "is a int; wanted a function"),
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["nowhere:f"], "there is no module 'nowhere'; a file is given with its .py"),
        (["{file}:scale", "--input", "x"], "input 1 should be a shape, such as 3,4"),
        (["{file}:Dens"], "has no 'Dens': did you mean 'Dense'? It has Dense, Layer, scale\n"),
        (["{file}:nothing"], "has no 'nothing'; it has Dense, Layer, scale\n"),
        (["{file}:Dense.forwrd"], "has no 'Dense.forwrd': did you mean 'forward'? It has forward\n"),
        (["numpy:matmull"], "numpy has no 'matmull': did you mean 'matmul'? It has "),
        (["{file}:Dense", "--init", "5"], "wanted name=shape, such as x=3,4"),
        (["{file}:scale", "--input", "x=3", "--input", "x=3"], "x is given twice"),
        (["{file}:scale", "--input", "3", "--input", "x=3"], "multiple values for argument 'x'"),
        (["{file}:scale", "--input", "x=three"], "x should be a shape"),
        (["{file}:scale", "--input", "x=3:float99"], "there is no dtype 'float99'"),
        (["{file}:scale", "--input", "x=3"], "scale(x, w, *, power=2): missing a required argument: 'w'"),
    ],
)
def test_what_makes_no_sense_is_said(file, capsys, words, message):
    code, out, err = output(capsys, "adjoint", *(word.format(file=file) for word in words))
    sys.path.insert(0, str(file.parent))
    assert (code, out) == (2, "")
    assert message in err


def test_without_a_command_it_says_which_there_are():
    def run(*words):
        return subprocess.run([sys.executable, "-m", "minigrad", *words], capture_output=True, text=True, check=False)

    for words in ([], ["--help"]):
        result = run(*words)
        assert result.returncode == 0
        assert "adjoint   print the adjoint of a function" in result.stdout
    result = run("differentiate")
    assert result.returncode == 2
    assert "usage" in result.stderr


def test_arrays_and_values():
    name, x = made("x=3,4", rng)
    assert (name, x.shape, x.dtype) == ("x", (3, 4), np.float64)
    assert made("x=(3, 4)", rng)[1].shape == (3, 4)
    assert made("x=", rng)[1].shape == made("x=()", rng)[1].shape == ()
    assert made("x=2,2:float32", rng)[1].dtype == np.float32
    assert made("x=2:complex128", rng)[1].imag.any()
    ids = made("ids=20:int64", rng)[1]
    assert ids.dtype == np.int64 and set(ids.tolist()) == {0, 1}
    assert made("mask=5:bool", rng)[1].dtype == bool
    values = [made(text, rng)[1] for text in ("eps=1e-5", "axis=-1", "how='mean'", "mask=None")]
    assert values == [1e-5, -1, "mean", None]


def test_values_are_bound_to_parameters():
    def f(a, /, b, *, c=1):
        return a, b, c

    with pytest.raises(CommandError, match="'a'"):
        bound(f, {"b": 1})
    assert bound(lambda a, b, *, c=1: 0, {"b": 1, "c": 2, "a": 3}) == ((3, 1), {"c": 2})
    assert bound(np.matmul, {"p": 1, "q": 2}) == ((1, 2), {})


def test_load_finds_methods(file):
    assert load(f"{file}:Layer.forward")(np.zeros(2)).tolist() == [1, 1]


def test_an_input_that_no_parameter_is_called_is_named_with_the_nearest(file, capsys):
    code, _, err = output(capsys, "adjoint", f"{file}:scale", "--input", "x=3,4", "--input", "powr=3")
    assert code == 2 and "no 'powr'; did you mean 'power'?" in err


def test_a_closed_pipe_is_no_error(file):
    command = [sys.executable, "-m", "minigrad", "adjoint", f"{file}:scale", "--input", "x=3,4", "--input", "w=4"]
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)
    sys.path.append(str(file.parent))  # as the fixture expects
    assert (done.returncode, done.stderr) == (141, "")


def test_the_help_says_how_a_scalar_array_is_given(capsys):
    with pytest.raises(SystemExit):
        program.main(["check", "--help"])
    assert "'log_t=' for a scalar array" in " ".join(capsys.readouterr().out.split())
