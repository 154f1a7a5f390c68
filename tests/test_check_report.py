"""The report as text, page and JSON; and the command that prints it."""

import dataclasses
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import wrong_adjoints as wrong
from minigrad.__main__ import main
from minigrad.check import check_adjoint, check_layer, compare_adjoints
from minigrad.errors import AdjointMismatch, MinigradError

ROOT = Path(__file__).resolve().parents[1]


def report_of(name):
    forward, adjoint, args, _ = wrong.WRONG[name]
    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(forward, adjoint, *args)
    return caught.value.report


@pytest.fixture(scope="module")
def wrong_report():
    return report_of("a missing term")


@pytest.fixture(scope="module")
def right_report():
    return check_adjoint(wrong.rms_norm, wrong.rms_norm_adjoint, wrong.X, wrong.GAIN)


# ---- text ----------------------------------------------------------------------------------------


def test_the_text_begins_with_the_verdict(wrong_report, right_report):
    assert str(wrong_report).startswith("forgetful, the adjoint of rms_norm: WRONG\n")
    assert str(right_report).startswith("rms_norm_adjoint, the adjoint of rms_norm: right\n")


def test_the_error_is_an_assertion_with_the_report():
    assert issubclass(AdjointMismatch, AssertionError)
    assert issubclass(AdjointMismatch, MinigradError)


def test_a_pair_is_described_by_its_worst_element(wrong_report):
    (pair,) = (c for c in wrong_report.comparisons if not c.right)
    text = str(pair)
    assert f"element {pair.index}: got {pair.got[pair.index]:.8g}, expected {pair.wanted[pair.index]:.8g}" in text
    assert f"ratio {pair.got[pair.index] / pair.wanted[pair.index]:.6g}" in text
    assert pair.error == np.max(np.abs(pair.got - pair.wanted))


# ---- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a missing term", "not finite", "None", "too few gradients", "a missing sum"])
def test_json_is_json(name, tmp_path):
    report = report_of(name)
    text = report.json(tmp_path / "report.json")
    found = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == found
    assert found["right"] is False
    assert found["title"] == report.title
    assert len(found["comparisons"]) == len(report.comparisons)


def test_truth_values_of_numpy_are_json():
    class Centred:
        def forward(self, x):
            self.running = np.mean(x, axis=0)
            return x - self.running

        def backward(self, g):
            return g - np.mean(g, axis=0)

    report = check_layer(Centred(), np.arange(12.0).reshape(4, 3) ** 0.5)
    report.conditions[0] = dataclasses.replace(report.conditions[0], holds=np.True_)
    assert json.loads(report.json())["right"] is True


def test_json_has_the_line(wrong_report):
    found = wrong_report.as_dict()["wrong_line"]
    assert Path(found["file"]).name == "wrong_adjoints.py"
    assert found["text"] == "return g * gain / rms, dgain"


# ---- the page ------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Checks that tags are closed in order, and collects what is loaded from elsewhere."""

    EMPTY = ("meta", "rect")

    def __init__(self, text):
        super().__init__()
        self.open, self.loaded, self.seen = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["a missing term", "not finite", "None", "too few gradients", "a missing sum"])
def test_the_page_is_well_formed_and_needs_nothing_else(name):
    page = Page(report_of(name).html())
    assert page.loaded == []
    assert "script" not in page.seen


def test_the_page_shows_both_sources_the_line_and_the_error(wrong_report, tmp_path):
    text = wrong_report.html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    assert "def rms_norm(x, gain):" in text and "def forgetful(g, x, gain):" in text
    (marked,) = [line for line in text.splitlines() if 'class="bad"' in line]
    assert "return g * gain / rms, dgain" in marked
    assert "<svg" in text and "|got - expected| of x (2, 4, 8)" in text
    assert "compared with the right one" in text
    assert text.index('<td class="wrong">') < text.index('<td class="right">'), "what is wrong comes first"


def test_the_verdict_and_the_open_question_are_on_the_page():
    class Shifted:
        def __init__(self):
            self.offset = np.linspace(0.5, 1.5, 3)

        def forward(self, x):
            return x * self.offset

        def backward(self, g):
            return g * self.offset

    text = check_layer(Shifted(), np.ones((2, 3))).html()
    Page(text)
    assert ">right, but not checked for offset</span>" in text
    assert "constants=[&#x27;offset&#x27;]" in text


def test_counts_and_indices_have_no_remark():
    def adjoint(g, x):
        n = len(x)
        half = 0.5 * x
        return g * half * n

    with pytest.raises(AdjointMismatch) as caught:
        compare_adjoints(lambda x: np.exp(x), adjoint, wrong.FLAT)
    remarks = caught.value.report.remarks()
    first = adjoint.__code__.co_firstlineno
    assert first + 1 not in remarks
    assert first + 2 in remarks


def test_what_comes_from_the_source_is_escaped():
    def adjoint(g, x):
        return np.where(x < 3, -g, g) if "<b>" else None

    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(lambda x: 1.0 * x, adjoint, wrong.FLAT)
    text = caught.value.report.html()
    assert "&lt;b&gt;" in text
    assert "<b>" not in text


# ---- the command ---------------------------------------------------------------------------------

LAYERS = '''
import numpy as np

class RMSNorm:
    def __init__(self, d_model, scale=1.0):
        self.gain = scale * np.linspace(0.5, 1.5, d_model)

    def forward(self, x):
        self.rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        self.xhat = x / self.rms
        return self.xhat * self.gain

    def backward(self, g):
        self.grad_gain = np.sum(g * self.xhat, axis=tuple(range(g.ndim - 1)))
        dxhat = g * self.gain
        return (dxhat - self.xhat * np.mean(dxhat * self.xhat, axis=-1, keepdims=True)) / self.rms

class Forgetful(RMSNorm):
    def backward(self, g):
        super().backward(g)
        return g * self.gain / self.rms

def scaled(x, factor):
    return np.sin(x) * factor

def scaled_adjoint(g, x, factor):
    return g * np.cos(x) * factor

def wrong_adjoint(g, x, factor):
    return g * np.cos(x)

def square_forward(x):
    return x * x, x

def square_backward(dout, cache):
    return 2 * cache * dout

def half_backward(dout, cache):
    return cache * dout

def picked(z, y):
    e = np.exp(z)
    return -np.mean(np.log(e / np.sum(e, axis=1, keepdims=True))[np.arange(len(y)), y])

def picked_adjoint(g, z, y):
    e = np.exp(z)
    dz = e / np.sum(e, axis=1, keepdims=True)
    dz[np.arange(len(y)), y] -= 1
    return g * dz / len(y)

def squared_loss(w, X, y):
    r = X @ w - y
    loss = 0.5 * np.mean(r ** 2)
    dw = X.T @ r / len(y)
    return loss, dw

def summed_loss(w, X, y):
    r = X @ w - y
    loss = 0.5 * np.mean(r ** 2)
    grads = {"w": X.T @ r}
    return loss, grads

def unnamed_loss(w, X, y):
    return 0.5 * np.mean((X @ w - y) ** 2), X.T @ (X @ w - y)

class Regression:
    def __init__(self, n):
        self.w = np.linspace(1.0, 2.0, n)

    def loss(self, X, y):
        return squared_loss(self.w, X, y)[0], {"w": squared_loss(self.w, X, y)[1]}

def square_only(x, s):
    return x * s[:, None]

def square_only_adjoint(g, x, s):
    return g * (s[:, None] if x.shape[0] == x.shape[1] else np.resize(s, x.shape[1])), np.sum(g * x, axis=1)

class Shifted(RMSNorm):
    def forward(self, x):
        return super().forward(x) + self.offset

    def __init__(self, d_model):
        super().__init__(d_model)
        self.offset = np.linspace(0.0, 1.0, d_model)

class Renamed(RMSNorm):
    def backward(self, g):
        dx = super().backward(g)
        self.update, self.grad_gain = self.grad_gain, 0.0
        return dx

class Residual:
    def forward(self, x, skip):
        return np.sin(x[:, :3]) + skip * skip * np.ones_like(x[:, :3])

    def backward(self, g, x, skip):
        dx = np.zeros_like(x)
        dx[:, :3] = g * np.cos(x[:, :3])
        return dx, 2 * g * skip

class NameOnly(RMSNorm):
    def forward(self, *, x):
        return super().forward(x)

class RaisesForward(RMSNorm):
    def forward(self, x):
        return x @ self.gain[None]

class RaisesBackward(RMSNorm):
    def backward(self, g):
        return g @ self.gain[None]

class RaisesAtOnce:
    def __init__(self):
        raise RuntimeError("not today")
'''


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    path = tmp_path_factory.mktemp("command") / "layers_to_check.py"
    path.write_text(LAYERS, encoding="utf-8")
    return path


COMMANDS = {
    "a class": (0, "RMSNorm --init d_model=8 --input 2,4,8", "gradient of out with respect to gain: right"),
    "a wrong class": (1, "Forgetful --init d_model=8 --init scale=2.0 --input 2,4,8", "the term through rms is"),
    "an adjoint": (0, "scaled --adjoint scaled_adjoint --input x=3,4 --input factor=2.5", "right"),
    "a wrong adjoint": (1, "scaled --adjoint wrong_adjoint --input x=3,4 --input factor=2.5", "gradient times 0.4"),
    "a cache": (0, "square_forward --backward square_backward --input 3,4", "right"),
    "a wrong cache": (1, "square_forward --backward half_backward --input 3,4", "right gradient times 1/2"),
    "labels": (0, "picked --adjoint picked_adjoint --input z=5,4 --input y=5:int64", "right"),
    "right for squares only": (1, "square_only --adjoint square_only_adjoint --input 4,4 --input 4", "WRONG"),
    "no other shapes": (
        0, "square_only --adjoint square_only_adjoint --input 4,4 --input 4 --no-other-shapes", "right"),
    "an array without a gradient": (2, "Shifted --init d_model=4 --input 3,4", "right, but not checked for offset"),
    "a constant": (0, "Shifted --init d_model=4 --input 3,4 --constant offset", "forward pass: right\n"),
    "a gradient of another name": (
        0, "Renamed --init d_model=4 --input 3,4 --gradient gain=update", "respect to gain: right"),
    "a backward that raises": (1, "RaisesBackward --init d_model=4 --input 3,4", "return g @ self.gain[None]"),
    "by name, in another order": (0, "Residual --input skip=2,3 --input x=2,4", "with respect to skip: right"),
    "in order, then by name": (0, "scaled --adjoint scaled_adjoint --input 3,4 --input factor=2.5", "right"),
    "a loss and its gradient": (0, "squared_loss --input 3 --input 5,3 --input 5", "with respect to w: right"),
    "a loss and a wrong gradient": (1, "summed_loss --input 3 --input 5,3 --input 5", "right gradient times 5"),
    "a loss and what it does not name": (0, "unnamed_loss --input 3 --input 5,3 --input 5", "returns besides a number"),
    "a method of a loss and its gradient": (0, "Regression --init n=3 --input 5,3 --input 5", "respect to w: right"),
    "a function": (0, "scaled --input x=3,4 --input factor=2.5", "the generated gradient of scaled: right"),
    "a function, not its adjoint": (0, "scaled --input 3,4 --input 2.5", "not checked: add --adjoint scaled_adjoint"),
}


@pytest.mark.parametrize(("code", "line", "says"), COMMANDS.values(), ids=COMMANDS)
def test_the_command(code, line, says, layers, capsys):
    target, *options = line.split()
    assert main(["check", f"{layers}:{target}", *options]) == code
    assert says in capsys.readouterr().out


def test_the_command_writes_files(layers, tmp_path, capsys):
    html, text = tmp_path / "report.html", tmp_path / "report.json"
    files = ["--html", str(html), "--json", str(text)]
    assert main(["check", f"{layers}:Forgetful", "--init", "d_model=4", "--input", "3,4", *files]) == 1
    assert json.loads(text.read_text(encoding="utf-8"))["right"] is False
    Page(html.read_text(encoding="utf-8"))
    assert "WRONG" in capsys.readouterr().out


ERRORS = {
    "a forward that raises": ("RaisesForward --init d_model=4 --input 3,4", "return x @ self.gain[None]"),
    "a constructor that raises": ("RaisesAtOnce --input 3,4", 'raise RuntimeError("not today")'),
    "a constructor without its arguments": ("RMSNorm --input 3,4", "fix  give its arguments: --init NAME=VALUE"),
    "a layer without its input": ("RMSNorm --init d_model=4", "forward(x): missing a required argument: 'x'"),
    "an input by name only": ("NameOnly --init d_model=4 --input x=3,4", "x can be given to the forward pass by name"),
    "a name that is not there": ("scaled --input y=3 --input factor=2.5", "scaled(x, factor): "),
    "a function that raises": ("picked --adjoint picked_adjoint --input 5,4 --input 5", "[np.arange(len(y)), y]"),
    "an adjoint without g": ("scaled --adjoint scaled --input x=3 --input factor=2.5", "incoming gradient first"),
}


@pytest.mark.parametrize(("line", "says"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_run_is_a_message_with_the_line(line, says, layers, capsys):
    target, *options = line.split()
    assert main(["check", f"{layers}:{target}", *options]) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("text", ["def f(x", "import numpy as np\nnp.zeros(3) @ np.zeros(4)"])
def test_a_file_that_cannot_be_imported_is_a_message(text, tmp_path, capsys):
    path = tmp_path / f"cannot_be_imported_{len(text)}.py"
    path.write_text(text, encoding="utf-8")
    assert main(["check", f"{path}:f", "--input", "3"]) == 2
    assert path.name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["nowhere.py:f"], "there is no file"), (["{}:scale"], "has no 'scale'"), (["{}"], "wanted path/to/file.py")],
)
def test_what_cannot_be_checked_has_exit_code_2(arguments, says, layers, capsys):
    assert main(["check", *(a.format(layers) for a in arguments)]) == 2
    assert says in capsys.readouterr().err


def test_the_command_runs_as_a_program(layers):
    command = [sys.executable, "-m", "minigrad", "check", f"{layers}:RMSNorm", "--init", "d_model=4", "--input", "3,4"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "right" in result.stdout


def test_importing_minigrad_does_not_import_the_checks():
    code = "import sys, minigrad; assert 'minigrad.check' not in sys.modules; minigrad.check.Report; minigrad.testing"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_layer_has_a_page_too():
    class Doubled:
        def forward(self, x):
            return 2 * x

        def backward(self, g):
            return 3 * g

    with pytest.raises(AdjointMismatch) as caught:
        check_layer(Doubled(), np.ones((2, 3)))
    Page(caught.value.report.html())


def test_of_a_single_number_no_factor_is_named_that_says_nothing():
    def power(x, t):
        return x**2 * t

    def adjoint(g, x, t):
        return 2 * g * x * t, 7.3 * np.sum(g * x**2)

    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(power, adjoint, np.array([1.0, 2.0, 4.0]), np.array(0.3), other_shapes=False)
    t = next(c for c in caught.value.report.comparisons if c.name == "t")
    assert not t.right and t.diagnosis == []
