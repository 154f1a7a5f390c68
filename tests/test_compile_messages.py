"""What a compiled function says when it cannot be compiled, or is not used as it is meant to be."""

import copy
import math
import re

import numpy as np
import pytest

import minigrad
from minigrad.errors import CutGraphError, DtypeError, UnsupportedError

NUMBERS, INTEGERS = np.array([3.0, 4.0]), np.array([1, 2, 0])
TABLE = np.arange(5.0)
BACKENDS = ["numpy", "llvm"]


def compiled(f, *args):
    return minigrad.compile(f, backend="numpy")(*args)


# --- values that would be frozen

FROZEN = {
    "float": (lambda x: float(np.sum(x)), r"by float\(\)"),
    "int": (lambda x: int(x[0]), r"by int\(\)"),
    "math": (lambda x: math.exp(x[0]), r"by float\(\)"),
    "dtype": (lambda x: np.float32(x), "to a plain array"),
    "tolist": (lambda x: x.tolist(), r"by tolist\(\)"),
    "arange": (lambda x: np.arange(x[0]), "to a plain array"),
    "array": (lambda x: np.array([np.sum(x), 1.0]), "to a plain array"),
    "assert_allclose": (lambda x: np.testing.assert_allclose(x, x), "to a plain array"),
    "range": (lambda x: list(range(np.max(x))), "to an index or a count"),
    "shape": (lambda x: np.zeros(x[0]), "to an index or a count"),
    "inside grad": (lambda x: minigrad.grad(lambda p: np.sum(p) * float(p[0]))(x), r"by float\(\)"),
}
FROZEN_INTEGERS = {
    "range": (lambda x: list(range(np.max(x))), "to an index or a count"),
    "slice": (lambda x: x[: x[0]], "to an index or a count"),
    "list": (lambda x: [1, 2, 3][x[0]], "to an index or a count"),
    "shape": (lambda x: np.reshape(TABLE, (x[0], 5)), "to an index or a count"),
    "bincount": (lambda x: np.bincount(x), "to a plain array"),
    "repeat": (lambda x: np.repeat(x, x), "to a plain array"),
    "table": (lambda x: TABLE[x], "to a plain array"),
    "roll": (lambda x: np.roll(x, x[0]), "to the parameter shift of np.roll"),
}
CASES = [(f, how, NUMBERS, r"t\.astype\(dtype\) for dtype\(t\)") for f, how in FROZEN.values()]
CASES += [(f, how, INTEGERS, r"for a\[t\], make a an argument too") for f, how in FROZEN_INTEGERS.values()]


@pytest.mark.parametrize(
    ("f", "how", "x", "instead"), CASES, ids=[*FROZEN, *(f"{k} of integers" for k in FROZEN_INTEGERS)]
)
def test_values_that_would_be_frozen(f, how, x, instead):
    """The error says why, where, and what to do; stop_gradient and custom_adjoint would not help."""
    with pytest.raises(CutGraphError) as caught:
        compiled(f, x)
    text = str(caught.value)
    assert re.match(rf"a value of the compiled function was converted {how}: it would be frozen as it is now", text)
    assert re.search(rf"\n  at     .*test_compile_messages\.py:\d+ .*\n  input .*\n  fix .*{instead}", text)
    assert "a count or a shape is part of the program: pass a Python number" in text
    assert "gradient" not in text.partition("  fix")[2]


def test_a_list_of_values_that_would_be_frozen():
    def f(x):
        parts = [np.sum(x), 1.0]
        return np.array(parts)

    with pytest.raises(
        CutGraphError, match=r"`parts`, a list of Tensors, .* frozen as it is now(.|\n)*minigrad\.array\(parts\)"
    ):
        compiled(f, NUMBERS)
    np.testing.assert_array_equal(compiled(lambda x: minigrad.array([np.sum(x), 1.0]), NUMBERS), [7, 1])


def test_an_assignment_into_a_plain_array():
    """NumPy would hide the reason: "setting an array element with a sequence"."""

    def f(x):
        y = np.zeros(2)
        y[0] = x[0]
        return y

    with pytest.raises(
        CutGraphError, match=r"assigned into a plain array: it would be frozen(.|\n)*y\[0\] = x\[0\](.|\n)*zeros_like"
    ):
        compiled(f, NUMBERS)


def test_a_mask_of_a_plain_array():
    with pytest.raises(CutGraphError, match=r"frozen(.|\n)*np\.where\(t, a, 0\) for a\[t\]"):
        compiled(lambda x: TABLE[:2][x > 3.5], NUMBERS)


def test_what_the_errors_advise_works():
    """Indexing and masking a plain array, a dtype, and a count that is a Python number."""

    def f(x, i, table, n):
        scale = np.sum(x).astype(np.float32)
        return table[i] * scale, np.where(x > 3.5, TABLE[:2], 0), np.arange(n) + i[0]

    for x, i in ((NUMBERS, INTEGERS), (NUMBERS + 1, INTEGERS[::-1])):
        for got, wanted in zip(compiled(f, x, i, TABLE, 4), f(x, i, TABLE, 4), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_float_tensor_is_no_index():
    """Outside of a compiled function there is a way."""
    with pytest.raises(
        TypeError, match=r"Tensor \(float64\) cannot be used as an index(.|\n)*test_compile_mess(.|\n)*int\(mini"
    ):
        minigrad.grad(lambda x: np.sum(x) * len(range(x[0])), NUMBERS)
    assert minigrad.grad(lambda x: x[0] * len(range(int(minigrad.stop_gradient(x[0])))), NUMBERS)[0] == 3


# --- how compile is called


def test_compile_wants_a_function():
    with pytest.raises(
        TypeError, match=r"compile: wanted a function, got int\.\n  at   .*test_compile_messages(.|\n)*compile\(f\)"
    ):
        minigrad.compile(3)
    with pytest.raises(TypeError, match="compile: wanted a function, got float"):
        minigrad.compile(donate=0)(0.5)


@pytest.mark.parametrize("donate", ["p", ("p",), -1, (0, -1), 1.0, True, None])
def test_donate_takes_positions(donate):
    with pytest.raises(
        TypeError, match=r"donate takes positions of arguments, such as 0 or \(0, 1\), got " + re.escape(repr(donate))
    ):
        minigrad.compile(lambda p: p, donate=donate)


def test_decorators():
    @minigrad.compile
    def bare(x):
        """Double."""
        return 2 * x

    @minigrad.compile(backend="numpy")
    def called(x):
        return 2 * x

    @minigrad.compile(donate=np.int64(0), backend="numpy")
    def donating(x):
        return 2 * x

    assert (bare.__name__, bare.__doc__, called.__name__) == ("bare", "Double.", "called")
    x = NUMBERS.copy()
    np.testing.assert_array_equal(bare(x), 2 * NUMBERS)
    np.testing.assert_array_equal(called(x), 2 * NUMBERS)
    assert donating(x) is x
    np.testing.assert_array_equal(x, 2 * NUMBERS)


class Layer:
    def __init__(self):
        self.weight = np.array(2.0)

    @minigrad.compile
    def decorated(self, x):
        return self.weight * x

    def forward(self, x):
        return self.weight * x

    @staticmethod
    @minigrad.compile(backend="numpy")
    def double(x):
        return 2 * x


def test_methods():
    layer = Layer()
    with pytest.raises(
        TypeError, match=r"decorated is a method of Layer, .*\n  fix .*= minigrad\.compile\(x\.decorated\)"
    ):
        layer.decorated(NUMBERS)
    assert isinstance(Layer.decorated, minigrad.Compiled)
    forward = minigrad.compile(layer.forward, backend="numpy")
    np.testing.assert_array_equal(forward(NUMBERS), 2 * NUMBERS)
    layer.weight[...] = 3
    np.testing.assert_array_equal(forward(NUMBERS), 3 * NUMBERS)
    np.testing.assert_array_equal(layer.double(NUMBERS), 2 * NUMBERS)


# --- require


def test_require_takes_a_text():
    def f(x):
        minigrad.require(x > 0, "x should be positive")
        return np.log(x)

    step = minigrad.compile(f, backend="numpy")
    step(NUMBERS)
    for call in (f, step, lambda x: minigrad.vjp(f, x)):
        with pytest.raises(ValueError, match="x should be positive") as caught:
            call(-NUMBERS)
        assert str(caught.value) == "x should be positive"


def test_require_refuses_an_exception():
    with pytest.raises(TypeError, match="a text, or a function that returns the exception, got ValueError"):
        minigrad.require(True, ValueError("negative"))


# --- arguments of which a program would be wrong


class Settings:
    """An object that may be changed between two calls."""

    def __init__(self):
        self.rate = 0.1


@pytest.mark.parametrize("argument", [Settings(), {1, 2}, bytearray(b"ab")])
def test_an_object_that_may_change_is_no_argument(argument):
    with pytest.raises(UnsupportedError, match=f"a {type(argument).__name__} is an argument.*\\n  fix  pass what"):
        compiled(lambda x, settings: x * 2, NUMBERS, argument)


@pytest.mark.parametrize("argument", [np.tanh, np.mean, len, math.exp, minigrad.compile(np.tanh), Settings, None, 1j])
def test_functions_types_and_numbers_are_arguments(argument):
    assert compiled(lambda x, f: (x * 2, f), NUMBERS, argument)[1] is argument


OWN_WAYS = {"MaskedArray": np.ma.masked_greater(NUMBERS, 3), "matrix": NUMBERS.view(np.matrix)}


@pytest.mark.parametrize("name", OWN_WAYS)
def test_arrays_that_compute_in_their_own_way_are_refused(name):
    captured = OWN_WAYS[name]
    with pytest.raises(DtypeError, match=f"a {name} computes in its own way\n  fix  pass a plain array"):
        compiled(np.mean, captured)
    with pytest.raises(DtypeError, match=f"a {name} in a compiled function: it computes in its own way"):
        compiled(lambda x: np.sum(x * captured), NUMBERS)


def test_python_values_among_the_results_are_returned_as_they_are():
    def f(x):
        return x.shape, x.ndim, x.dtype, "a", True, 0.5, np.float32(2), x * 2

    results, wanted = compiled(f, NUMBERS), f(NUMBERS)
    assert results[:-1] == wanted[:-1]
    assert list(map(type, results)) == list(map(type, wanted))


def test_whole_numbers_of_any_size_divide():
    np.testing.assert_array_equal(compiled(lambda x: x / 10**20 * 10**30, NUMBERS), NUMBERS / 10**20 * 10**30)


def test_differences_of_booleans_are_booleans():
    mask = np.array([True, False, False, True])
    np.testing.assert_array_equal(compiled(lambda m: np.diff(m, n=2), mask), np.diff(mask, n=2), strict=True)


# --- profile


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_of_the_profile_fits_its_line(backend):
    def f(x):
        y = np.exp(np.tanh(x) + 1) * np.sqrt(np.abs(x))
        return y / np.sum(y, axis=-1, keepdims=True)  # the last line

    step = minigrad.compile(f, backend=backend)
    step(np.ones((4, 8)))
    profile = step.profile(repeat=1)
    assert any(re.fullmatch(r"\w+ \w+ \w+ \w+ \+ \d+ more", line.name) for line in profile.lines)
    assert all(re.fullmatch(r"test_compile_messages\.py:\d+", line.source) for line in profile.lines)
    assert all(len(text) < 120 for text in str(profile).splitlines())


def test_a_product_that_threads_share_is_one_step(monkeypatch):
    from minigrad.compiler import numpy_backend

    monkeypatch.setattr(numpy_backend, "threads_of_blas", lambda: 2)
    step = minigrad.compile(lambda x, y: np.exp(x @ y), backend="numpy")
    x = np.ones((512, 512))
    step(x, x)
    assert sorted((line.name, line.calls) for line in step.profile(repeat=1).lines) == [("exp", 1), ("matmul", 1)]


class ScaledByItsClass:
    scale = 2.0


class Slotted:
    __slots__ = ("scale",)


class WithoutValues:
    def __call__(self, x):
        return 2 * x


@pytest.mark.parametrize("made", [ScaledByItsClass, Slotted])
def test_an_object_that_holds_values_elsewhere_than_in_itself_is_refused_too(made):
    with pytest.raises(minigrad.errors.UnsupportedError, match=f"a {made.__name__} is an argument, and would be part"):
        minigrad.compile(lambda x, by: x)(np.ones(2), made())
    assert minigrad.compile(lambda x, by: by(x))(np.ones(2), WithoutValues()).tolist() == [2, 2]


def test_a_copy_of_a_compiled_function_is_one_with_programs_of_its_own():
    compiled = minigrad.compile(lambda x: 2 * x)
    compiled(NUMBERS)
    copied = copy.deepcopy({"f": compiled})["f"]
    assert copied is not compiled and copied(NUMBERS).tolist() == [6, 8]
    assert copied.executable is not compiled.executable
