"""The Tensor: attributes, operators and methods of ndarray, and the refusal to become plain data without a word."""

import copy
import decimal
import fractions
import math
import operator
import pickle
import re

import numpy as np
import pytest

import minigrad
from against_numpy import agrees
from minigrad.errors import CutGraphError, DtypeError, UnsupportedError

X = np.array([[0.31, -0.52, 1.13], [-0.85, 0.96, 0.27]])
V = np.array([0.5, 1.5, 2.5])


def inside(f, *arrays):
    """Return what f returns of Tensors of these arrays."""
    seen = []
    minigrad.vjp(lambda *x: seen.append(f(*x)) or 0.0, *arrays)
    return seen[0]


# --- attributes


@pytest.mark.parametrize("x", [X, X[0], np.float64(2.5), np.array(1.5, np.float32), np.zeros((0, 2)), X.T + 1j])
def test_attributes_are_those_of_the_array(x):
    names = ["shape", "dtype", "ndim", "size", "itemsize", "nbytes"]
    assert inside(lambda t: [getattr(t, n) for n in names], x) == [getattr(x, n) for n in names]


def test_attributes_of_a_python_number():
    assert inside(lambda t: (t.shape, t.dtype, t.ndim, t.size), 2.5) == ((), np.float64, 0, 1)


def test_transposes_and_parts():
    agrees(lambda x: (x.T @ x, x.mT * 2, x.real * x, x.imag + x), X)


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nonsense'"):
        inside(lambda t: t.nonsense, X)
    assert inside(lambda t: hasattr(t, "__array_interface__"), X) is False


def test_text():
    assert inside(repr, V) == "Tensor([0.5, 1.5, 2.5], dtype=float64)"
    assert inside(str, V[0]) == "Tensor(0.5, dtype=float64)"
    assert inside(lambda t: f"{t[0]:.2f} {t[:2]}", V) == "0.50 Tensor([0.5, 1.5], dtype=float64)"


# --- being a sequence


def test_length_iteration_unpacking():
    agrees(lambda x: sum(i * row for i, row in enumerate(x)), X)
    agrees(lambda v: (lambda a, b, c: a * b * c)(*v), V)
    agrees(lambda v: [p * q for p, q in zip(v, reversed(v), strict=True)], V)
    assert inside(lambda t: (len(t), len(t[0])), X) == (2, 3)


def test_zero_dimensional_is_no_sequence():
    for f in (len, iter, list):
        with pytest.raises(TypeError):
            inside(lambda t, f=f: f(np.sum(t)), V)


def test_builtins():
    agrees(lambda v: sum(v) * max(v) - min(v), V)
    agrees(lambda v: sorted(v, reverse=True)[0] * abs(v[1]), V)
    agrees(lambda v: pow(v, 3) + divmod(v, 0.7)[1] + divmod(5.3, v)[1], V)
    agrees(lambda v: math.prod(v) + math.fsum([1.0, 2.0]) * v[0], V)
    agrees(lambda v: round(v[1], 1) * v, V + 0.04)


def test_contains():
    assert inside(lambda t: (1.5 in t, 1.6 in t), V) == (True, False)


def test_operator_module():
    agrees(lambda x: operator.matmul(x, x.T), X)
    agrees(lambda x: operator.itemgetter(0)(x) * operator.neg(x), X)
    agrees(lambda x: operator.iadd(x * 1, x), X)


def test_hash_and_truth():
    for f in (hash, lambda t: {t}, lambda t: {t: 1}):
        with pytest.raises(TypeError, match="unhashable type: 'Tensor'"):
            inside(f, V)
    with pytest.raises(ValueError, match="truth value of an array with more than one element is ambiguous"):
        inside(bool, V)
    assert inside(lambda t: [bool(t[0]), not t[0], bool(0 < t[0] < 1), t[0] in [0.5]], V) == [True, False, True, True]


def test_control_flow_on_values():
    agrees(lambda v: np.sum(v * 2.0) if v[0] > 0 and v[1] < 2 else v[0], V)
    agrees(lambda v: max(v, key=lambda e: -e) * v, V)


# --- operators

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv]
OTHERS = {
    "int": 2,
    "float": 1.5,
    "bool": True,
    "fraction": fractions.Fraction(3, 2),
    "float64": np.float64(1.5),
    "float32": np.float32(1.5),
    "float16": np.float16(1.5),
    "longdouble": np.longdouble(1.5),
    "int64": np.int64(3),
    "int8": np.int8(3),
    "uint8": np.uint8(3),
    "bool_": np.True_,
    "array": V,
    "integer array": np.array([1, 2, 3]),
    "list": [1.0, 2.0, 3.0],
    "tuple": (1, 2, 3),
    "0-d": np.array(1.5),
}

# NumPy answers with objects. Until Python 3.12 a fraction to the power of an array is float(fraction) to that power.
NO_FRACTIONS = [operator.mod, operator.floordiv]
if (OTHERS["fraction"] ** V).dtype == object:
    NO_FRACTIONS.append(operator.pow)

PAIRS = [
    pytest.param(op, other, id=f"{op.__name__} {name}")
    for op in BINARY
    for name, other in OTHERS.items()
    if name != "fraction" or op not in NO_FRACTIONS
]


@pytest.mark.parametrize(("op", "other"), PAIRS)
def test_operands_of_every_kind_on_both_sides(op, other):
    agrees(lambda v: (op(v, other), op(other, v)), V * 1.1)
    agrees(lambda v: (op(v, other), op(other, v)), (V * 1.1).astype(np.float32), tolerance=5e-3)


@pytest.mark.parametrize("op", BINARY[:5])
@pytest.mark.parametrize("other", [1 + 2j, np.complex64(1 + 2j), V * 1j])
def test_complex_operands(op, other):
    agrees(lambda v: np.real(op(v, other) * (2 - 1j)) + np.imag(op(other, v)), V * 1.1)


def test_matrix_products_with_lists_and_arrays():
    agrees(lambda x: (x @ [1, 2, 3], [1, 2] @ x, x @ X.T, X.T @ x), X)


def test_unary_operators():
    agrees(lambda x: (-x, +x, abs(x)), X)


def test_comparisons_are_plain_arrays():
    comparisons = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
    for compare in comparisons:
        for other in (0.3, X.T.copy().T * 1.0, X[0]):
            got = inside(lambda t, c=compare, o=other: (c(t, o), c(o, t)), X)
            for result, wanted in zip(got, (compare(X, other), compare(other, X)), strict=True):
                assert type(result) is np.ndarray
                np.testing.assert_array_equal(result, wanted)
    assert inside(lambda t: (t == None, t != None), V) == (False, True)  # noqa: E711


def test_operands_that_numpy_refuses():
    for other in (decimal.Decimal(2), "text", object()):
        with pytest.raises(TypeError):
            inside(lambda t, o=other: t * o, V)
    with pytest.raises(TypeError):
        inside(lambda t: t << 1, V)


def test_an_operand_that_asks_to_be_left_alone_handles_the_operator():
    class Unit:
        __array_ufunc__ = None

        def __rmul__(self, other):
            return "handled"

    assert inside(lambda t: t * Unit(), V) == "handled"


# --- methods, in every form

METHODS = {
    "reshape tuple": lambda x: x.reshape((3, 2)),
    "reshape varargs": lambda x: x.reshape(3, -1),
    "reshape number": lambda x: x.reshape(-1),
    "reshape order": lambda x: x.reshape((3, 2), order="F"),
    "transpose": lambda x: x.transpose(),
    "transpose tuple": lambda x: x.transpose((1, 0)),
    "transpose varargs": lambda x: x.transpose(1, 0),
    "transpose None": lambda x: x.transpose(None),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten("F"),
    "squeeze": lambda x: x[None].squeeze(),
    "squeeze axis": lambda x: x[None].squeeze(axis=0),
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(np.complex128).real,
    "astype same": lambda x: x.astype(np.float64, copy=False),
    "sum": lambda x: x.sum(),
    "sum axis": lambda x: x.sum(1),
    "sum tuple": lambda x: x.sum(axis=(0, 1), keepdims=True),
    "mean": lambda x: x.mean(axis=-1, keepdims=True),
    "var": lambda x: x.var(axis=0, ddof=1),
    "std": lambda x: x.std(),
    "prod": lambda x: x.prod(axis=0),
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(keepdims=True),
    "cumsum": lambda x: x.cumsum(axis=1),
    "cumprod": lambda x: x.cumprod(),
    "clip": lambda x: x.clip(-0.5, 0.5),
    "clip keywords": lambda x: x.clip(min=0.0),
    "round": lambda x: x.round() * x,
    "dot": lambda x: x.dot(x.T),
    "repeat": lambda x: x.repeat(2, axis=0),
    "take": lambda x: x.take([0, 0, 5]),
    "take axis": lambda x: x.take([1, 0], axis=1),
    "choose": lambda x: np.array([0, 1, 0]).choose(X) * x if isinstance(x, np.ndarray) else np.choose([0, 1, 0], X) * x,
    "compress": lambda x: x.compress([True, False, True], axis=1),
    "trace": lambda x: x.trace(offset=1),
    "diagonal": lambda x: x.diagonal(),
    "conj": lambda x: x.conj() * x.conjugate(),
    "view": lambda x: x.view() * 2,
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods(method):
    agrees(method, X)


def test_methods_with_plain_results():
    for method in ("argmax", "argmin", "argsort", "any", "all", "nonzero"):
        got, wanted = inside(lambda t, m=method: getattr(t, m)(), X), getattr(X, method)()
        np.testing.assert_array_equal(got, wanted)
        assert type(got) is type(wanted)
    assert inside(lambda t: t.searchsorted(1.0), V) == 1
    agrees(lambda x: x[np.arange(2), x.argmax(axis=1)] * x[x.astype(int) == 0][:2], X)


def test_a_cast_to_integers_is_plain_and_has_no_gradient():
    assert type(inside(lambda t: t.astype(int), V)) is np.ndarray
    value, gradient = minigrad.value_and_grad(lambda v: np.sum(v) * np.sum(v).astype(int), V)
    assert value == 4.5 * 4
    np.testing.assert_array_equal(gradient, np.full(3, 4.0))


def test_copies():
    agrees(lambda x: copy.copy(x) * copy.deepcopy(x), X)
    agrees(lambda x: copy.deepcopy({"a": [x]})["a"][0] * x, X)


# --- the two protocols


def test_functions_of_lists_of_tensors():
    agrees(lambda v: np.stack([v[0], v[1] * 2, 3.0]), V)
    agrees(lambda x: np.concatenate([x, X], axis=1), X)
    agrees(lambda x: np.linalg.multi_dot([x, x.T, X]), X)


def test_keywords_of_ufuncs():
    agrees(lambda x: np.add(x, 1, dtype=np.float32), X, tolerance=1e-2)
    agrees(lambda x: np.multiply(x, x, where=x > 0, out=np.zeros_like(x)), X)
    with pytest.raises(UnsupportedError, match=r"np\.multiply\(\.\.\., where=\) of a Tensor is not supported"):
        inside(lambda t: np.multiply(t, t, where=t > 0), V)


def test_parameters_that_are_tensors_are_refused():
    with pytest.raises((UnsupportedError, TypeError)):
        inside(lambda t: np.roll(t, t[0]), V)
    with pytest.raises((UnsupportedError, TypeError, CutGraphError)):
        inside(lambda t: np.sum(t, axis=t[0]), V)


def test_unknown_function_is_named_with_the_line():
    f = np.frompyfunc(lambda v: v * v, 1, 1)
    with pytest.raises(UnsupportedError) as caught:
        inside(lambda t: f(t), V)
    text = str(caught.value)
    assert "<lambda> (vectorized) of a Tensor is not supported: what np.frompyfunc makes works on Python" in text
    assert re.search(r"\n  at   .*test_tensor\.py:\d+ +inside\(lambda t: f\(t\), V\)\n", text)
    assert "minigrad.custom_adjoint" in text


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("make", [lambda: np.ma.array(V, mask=[0, 1, 0]), lambda: np.matrix(V)])
def test_subclasses_with_rules_of_their_own_are_refused(make):
    other = make()
    with pytest.raises((DtypeError, CutGraphError)):
        inside(lambda t: t * other, V)
    with pytest.raises((DtypeError, CutGraphError)):
        inside(lambda t: other * t, V)
    with pytest.raises(DtypeError, match="pass a plain array"):
        minigrad.grad(np.sum, other)


def test_other_subclasses_are_taken_as_arrays(tmp_path):
    class Labelled(np.ndarray):
        pass

    for array in (V.view(Labelled), np.memmap(tmp_path / "v", dtype=float, mode="w+", shape=3)):
        array[...] = V
        value, (gradient, _) = minigrad.value_and_grad(lambda p, a=array: np.sum(p[0] * a * p[1]), [V, array])
        assert type(value) is np.float64 and type(gradient) is np.ndarray
        np.testing.assert_array_equal(gradient, V * V)


# --- the graph is never cut without a word


def assign_element(t):
    buffer = np.zeros(3)
    buffer[0] = t[0]


def assign_slice(t):
    buffer = np.zeros(3)
    buffer[1:] = t[1:]


def assign_mask(t):
    buffer = np.zeros(3)
    buffer[buffer == 0] = t


def add_to_element(t):
    buffer = np.zeros(3)
    buffer[0] += t[0]


def add_to_buffer(t):
    buffer = np.zeros(3)
    buffer += t


def add_to_slice(t):
    buffer = np.zeros(3)
    buffer[1:] += t[1:]


def out_of_a_ufunc(t):
    buffer = np.zeros(3)
    np.exp(t, out=buffer)


def out_of_a_function(t):
    buffer = np.zeros(())
    np.sum(t, out=buffer)


def copy_to(t):
    buffer = np.zeros(3)
    np.copyto(buffer, t)


def add_at(t):
    buffer = np.zeros(3)
    np.add.at(buffer, [0, 1, 0], t)


def fill_like(t):
    buffer = np.zeros(3)
    np.put(buffer, [0], t[0])


CUTS = {
    "asarray": (lambda t: np.asarray(t), "was converted to a plain array"),
    "array": (lambda t: np.array(t), "was converted to a plain array"),
    "array of a list": (lambda t: np.array([t, t]), "was converted to a plain array"),
    "array of elements": (lambda t: np.array([t[0], 1.0]), "was converted to a plain array"),
    "ascontiguousarray": (lambda t: np.ascontiguousarray(t), "was converted to a plain array"),
    "function of a list": (lambda t: np.sum([t, t]), "was converted to a plain array"),
    "operator with a list": (lambda t: t * [t[0], 1.0, 2.0], "was converted to a plain array"),
    "array times a list": (lambda t: np.ones(3) * [t[0], 1.0, 2.0], "was converted to a plain array"),
    "c_": (lambda t: np.c_[t, t], "was converted to a plain array"),
    "full": (lambda t: np.full(3, t[0]), "was converted|was assigned"),
    "vectorize": (lambda t: np.vectorize(lambda v: v * v)(t), "was converted to a plain array"),
    "testing": (lambda t: np.testing.assert_allclose(t, V), "was converted to a plain array"),
    "float": (lambda t: float(t[0]), r"was converted by float\(\)"),
    "int": (lambda t: int(t[0]), r"was converted by int\(\)"),
    "complex": (lambda t: complex(t[0]), r"was converted by complex\(\)"),
    "round": (lambda t: round(t[0]), r"was converted by round\(\)"),
    "item": (lambda t: t[0].item(), r"was converted by float\(\)"),
    "tolist": (lambda t: t.tolist(), r"was converted by tolist\(\)"),
    "math": (lambda t: math.exp(t[0]), r"was converted by float\(\)"),
    "math.floor": (lambda t: math.floor(t[0]), r"was converted by float\(\)"),
    "percent format": (lambda t: "%f" % t[0], r"was converted by float\(\)"),  # noqa: UP031
    "pickle": (pickle.dumps, "cannot be pickled"),
    "assign element": (assign_element, "was assigned into a plain array"),
    "assign slice": (assign_slice, "was assigned into a plain array"),
    "assign mask": (assign_mask, "was assigned into a plain array"),
    "add to element": (add_to_element, "was assigned into a plain array"),
    "add to buffer": (add_to_buffer, r"np\.add was asked to write a Tensor into a plain array"),
    "add to slice": (add_to_slice, r"np\.add was asked to write a Tensor into a plain array"),
    "out of a ufunc": (out_of_a_ufunc, r"np\.exp was asked to write a Tensor into a plain array"),
    "out of a function": (out_of_a_function, r"np\.sum was asked to write a Tensor into a plain array"),
    "copyto": (copy_to, "was converted to a plain array|was assigned|asked to write"),
    "add.at": (add_at, r"np\.add\.at was asked to write a Tensor into a plain array"),
    "put": (fill_like, "was converted to a plain array|was assigned|asked to write"),
}


@pytest.mark.parametrize(("cut", "message"), CUTS.values(), ids=CUTS)
def test_cutting_the_graph_raises_and_names_the_line(cut, message):
    with pytest.raises(CutGraphError, match=message) as caught:
        minigrad.grad(lambda x: cut(x) or np.sum(x), V)
    text = str(caught.value)
    assert "test_tensor.py:" in text
    assert "fix" in text or "pickle" in text


@pytest.mark.parametrize("f", [assign_element, assign_mask, add_to_buffer, out_of_a_ufunc])
def test_the_line_and_the_way_out_are_right(f):
    lines = {
        "assign_element": "buffer[0] = t[0]",
        "assign_mask": "buffer[buffer == 0] = t",
        "add_to_buffer": "buffer += t",
        "out_of_a_ufunc": "np.exp(t, out=buffer)",
    }
    with pytest.raises(CutGraphError) as caught:
        minigrad.vjp(f, V)
    text = str(caught.value)
    line = f.__code__.co_firstlineno + 2
    assert re.search(rf"at +.*test_tensor\.py:{line} +{re.escape(lines[f.__name__])}\n", text)
    assert "fix" in text and "np.zeros_like(t)" in text


def test_the_message_says_what_and_how():
    with pytest.raises(CutGraphError) as caught:
        minigrad.grad(lambda x: np.sum(np.asarray(x[0], dtype=float)), X.astype(np.float32))
    first, at, input_, fix = str(caught.value).split("\n")
    assert first == "a Tensor was converted to a plain array, which would lose its gradient."
    assert re.fullmatch(r"  at +\S*test_tensor\.py:\d+ +minigrad\.grad\(.*", at)
    assert input_ == "  input  float32 (3,)"
    assert "np.stack" in fix and "minigrad.stop_gradient(t)" in fix


@pytest.mark.parametrize("f", [lambda w: np.sum(X @ w), lambda w: np.sum(w * V), lambda w: np.sum(np.sin(w))])
def test_a_list_is_no_array(f):
    with pytest.raises(CutGraphError) as caught:
        minigrad.grad(f, [1.0, 2.0, 3.0])
    text = str(caught.value)
    assert text.startswith("`w`, a list of Tensors, was converted to a plain array")
    assert "minigrad.array(w) makes one Tensor of it" in text and "pass np.array([...]) for one array" in text
    assert minigrad.grad(lambda w: np.sum(V * minigrad.array(w)), [1.0, 2.0, 3.0]) == V.tolist()


def test_constants_may_leave():
    assert inside(lambda t: float(np.ones_like(t)[0]), V) == 1.0
    assert inside(lambda t: int(np.floor(t)[2]), V) == 2


def test_stop_gradient_leaves_on_purpose():
    value, gradient = minigrad.value_and_grad(lambda x: float(minigrad.stop_gradient(x)[0]) * x[1], V)
    assert value == 0.75
    np.testing.assert_array_equal(gradient, [0.0, 0.5, 0.0])


# --- warnings of NumPy


def test_floating_point_warnings_have_the_users_line():
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as caught:
        minigrad.grad(lambda x: np.sum(np.log(x - x)), V)
    assert {w.filename for w in caught} == {__file__}
    with pytest.warns(RuntimeWarning, match="divide by zero encountered") as caught:
        minigrad.grad(lambda x: np.sum(x * (1 / np.zeros(3))), V)
    assert {w.filename for w in caught} == {__file__}


def test_floating_point_settings_of_the_user_hold():
    with np.errstate(all="ignore"):
        minigrad.grad(lambda x: np.sum(np.log(x - x)), V)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        minigrad.grad(lambda x: np.sum(np.log(x - x)), V)

    def quietly(x):
        with np.errstate(divide="ignore"):
            return np.sum(np.log(x - x))

    minigrad.grad(quietly, V)
    seen = []
    with np.errstate(divide="call", call=lambda kind, flag: seen.append(kind)):
        minigrad.grad(lambda x: np.sum(np.log(x - x)), V)
    assert seen == ["divide by zero"]
    before = np.geterr()
    with pytest.warns(RuntimeWarning):
        minigrad.grad(lambda x: np.sum(np.log(x - x)), V)
    assert np.geterr() == before
