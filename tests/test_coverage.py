"""Nothing of NumPy is forgotten, and nothing loses a gradient in silence.

The functions are taken from NumPy itself. Each is in exactly one of the tables: differentiated, without derivative,
metadata, or refused with a reason and a way out; and it does what its table says. When a new NumPy adds a function,
`test_every_function_is_in_a_table` fails and names it.
"""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import minigrad
from cases import cases, collect, outputs
from minigrad import Tensor
from minigrad.errors import CutGraphError, MinigradError, UnsupportedError
from minigrad.op import COMPOSITES, OPS, REFUSED, Recorded, public_name
from minigrad.rules import unsupported
from numeric import central_difference

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "make_support.py"
spec = importlib.util.spec_from_file_location("make_support", SCRIPT)
support = importlib.util.module_from_spec(spec)
spec.loader.exec_module(support)

FUNCTIONS = sorted(support.functions(), key=public_name)
ROWS = collect()


def inside(f, x=None):
    """Call f with a Tensor and return what it returns, whatever that is."""
    seen = []

    def loss(t):
        seen.append(f(t))
        return np.sum(t)

    minigrad.grad(loss, np.array([0.5, 1.5, 2.5]) if x is None else x)
    return seen[0]


def detached(result):
    """Return the floating-point arrays in a result that are no Tensors: their gradient is lost."""
    return [
        x for x in outputs(result) if not isinstance(x, Recorded) and getattr(x, "dtype", np.dtype(int)).kind in "fc"
    ]


def test_every_function_is_in_a_table():
    forgotten = [public_name(f) for f in FUNCTIONS if support.status(f) is None]
    assert not forgotten, (
        f"NumPy {np.__version__} has functions that minigrad does not know: {', '.join(forgotten)}. Give each a rule "
        "(CONTRIBUTING.md, 'Add an op'), or a reason and a way out in minigrad/rules/unsupported.py; then run "
        "docs/make_support.py."
    )


def test_no_function_is_in_two_tables():
    tables = [set(OPS), set(COMPOSITES), set(REFUSED)]
    assert len(set.union(*tables)) == sum(map(len, tables))


def test_no_table_has_what_numpy_does_not_dispatch():
    """A function that never asks its arguments needs no rule: a rule for it would never be called."""
    scipys = {f for f, op in OPS.items() if op.name.startswith("scipy.")}
    assert not {public_name(f) for f in {*OPS, *COMPOSITES} - scipys - set(FUNCTIONS)}


def test_a_new_function_is_noticed(monkeypatch):
    monkeypatch.delitem(OPS, np.tanh)
    with pytest.raises(AssertionError, match=r"does not know: np\.tanh\. Give each a rule"):
        test_every_function_is_in_a_table()


def test_the_page_is_up_to_date():
    page = support.PAGE.read_text(encoding="utf-8")
    version = ".".join(np.__version__.split(".")[:2])
    if f"for NumPy {version};" not in page:
        pytest.skip(f"docs/support.md was written for another NumPy than {version}")
    assert page == support.page(), "run python docs/make_support.py"


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_no_result_is_detached(row):
    """What depends on a Tensor's values is a Tensor, or no floating-point number."""
    for case in cases(row):
        results = []
        minigrad.vjp(lambda *x, case=case, results=results: results.append(case.result(*x)), *case.primals)
        elsewhere = outputs(case.result(*(0.999 * x for x in case.primals)))
        for got, there in zip(outputs(results), elsewhere, strict=True):
            assert not detached(got) or np.array_equal(got, there), case


# --- what is refused

ATTEMPTS = [
    lambda f, t: f(3, like=t),
    lambda f, t: f([1.0], like=t),
    lambda f, t: f(3, 1.0, like=t),
    lambda f, t: f("no such file", like=t),
    lambda f, t: f(np.add, (2, 2), like=t),
    lambda f, t: f([1.0], float, like=t),
    lambda f, t: f(b"12345678", like=t),
    lambda f, t: f("no such folder/file", t),
    lambda f, t: f(t),
    lambda f, t: f(t, t),
    lambda f, t: f(t, t, t),
    lambda f, t: f(t, t, t, t),
    lambda f, t: f((t, t), (2, 2)),
]


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if support.status(f) == "refused"], ids=public_name)
def test_what_is_refused_says_why(function):
    def refused(t):
        for attempt in ATTEMPTS:
            try:
                attempt(function, t)
            except UnsupportedError as error:
                return str(error)
            except (TypeError, ValueError, AttributeError, CutGraphError):
                continue  # not how this function is called
        return None

    message = inside(refused)
    assert message, f"{public_name(function)} was not refused"
    name = public_name(function)
    assert message.startswith(f"{name} of a Tensor is not supported: {unsupported.reason(function)}")
    assert "test_coverage.py" in message and "\n  fix " in message


def test_what_nobody_knows_is_refused_too():
    with pytest.raises(UnsupportedError, match="clip of a Tensor is not supported: text has no derivative"):
        inside(lambda t: np._core.umath.clip(t, 0, 1))  # a private ufunc, as an example
    assert support.refusal(lambda x: x) is None


# --- methods and attributes of ndarray

# For whole numbers, for subclasses, and for Python itself: NumPy's arrays of floats raise TypeError, and so do Tensors.
NOT_FOR_FLOATS = {f"__{prefix}{name}shift__" for prefix in ("", "r", "i") for name in ("l", "r")}
FOR_SUBCLASSES = {"__array_finalize__", "__array_wrap__", "__class_getitem__"}
ONLY_RAISES = {"__delitem__"}


def test_every_method_of_ndarray_is_there_or_refused():
    own = {name for cls in Tensor.__mro__[:-1] for name in vars(cls)}
    there = {name for name in dir(np.ndarray) if hasattr(np.zeros((1, 1)), name)}  # old names only raise
    there -= {name for name in there if re.match("_[^_]", name)}  # private, as _set_shape of NumPy 2.5
    missing = there - set(dir(object)) - own - set(unsupported.METHODS)
    assert missing == NOT_FOR_FLOATS | FOR_SUBCLASSES | ONLY_RAISES


@pytest.mark.parametrize("name", sorted(unsupported.METHODS))
def test_refused_methods_say_why(name):
    def use(t):
        found = getattr(t, name)
        return found("float32") if callable(found) else found

    if name.startswith("__"):
        assert not inside(lambda t: hasattr(t, name))  # as NumPy and others ask
    elif name in ("item", "tolist"):
        with pytest.raises(CutGraphError, match="which would lose its gradient"):
            inside(lambda t: getattr(np.sum(t), name)())
    else:
        with pytest.raises(
            UnsupportedError, match=rf"ndarray\.{name} of a Tensor is not supported: .*\n.*test_coverage"
        ):
            inside(use)


def test_metadata_of_a_tensor_is_that_of_its_array():
    x = np.zeros((2, 3), np.float32, order="F")
    names = "shape dtype ndim size itemsize nbytes strides device".split()
    assert inside(lambda t: [getattr(t, n) for n in names], x) == [getattr(x, n) for n in names]
    assert inside(
        lambda t: (len(t), t.flags.f_contiguous, t.to_device("cpu") is t, t.__array_namespace__() is np), x
    ) == (
        2,
        True,
        True,
        True,
    )
    assert inside(lambda t: (0.5 in t, 0.7 in t, np.sum(t) in t)) == (True, False, False)


METADATA = {
    np.shape: lambda f, x: f(x),
    np.result_type: lambda f, x: f(x, np.float32),
    np.can_cast: lambda f, x: f(x, np.float32),
    np.common_type: lambda f, x: f(x, x),
    np.min_scalar_type: lambda f, x: f(x),
    np.array2string: lambda f, x: f(x, precision=2),
    np.array_str: lambda f, x: f(x),
    np.array_repr: lambda f, x: f(x),
    np.shares_memory: lambda f, x: f(x, x),
    np.may_share_memory: lambda f, x: f(x, x[:1]),
}


@pytest.mark.parametrize("function", METADATA, ids=public_name)
def test_metadata_functions_answer_as_for_the_array(function):
    x, call = np.array([0.5, 1.5]), METADATA[function]
    try:
        wanted = call(function, x)
    except TypeError:
        with pytest.raises(TypeError):
            inside(lambda t: call(function, t), x)
    else:
        assert inside(lambda t: call(function, t), x) == wanted


# --- the methods of ufuncs

UFUNCS = [f for f in FUNCTIONS if isinstance(f, np.ufunc) and f.nin == 2 and f.nout == 1 and f.signature is None]
METHODS = {
    "reduce": lambda f, x: f.reduce(x),
    "reduce along the last axis": lambda f, x: f.reduce(x, axis=-1, keepdims=True),
    "accumulate": lambda f, x: f.accumulate(x),
    "reduceat": lambda f, x: f.reduceat(x, [0, 2, 1], axis=1),
    "outer": lambda f, x: f.outer(x, np.array([0.7, 1.3])),
    "at": lambda f, x: changed(f, x),
}


def changed(ufunc, x):
    """Return a copy of x after `ufunc.at` has worked on it."""
    y = np.copy(x)
    ufunc.at(y, (np.array([1, 0]), np.array([0, 2])), np.array([0.7, 1.3]))
    return y


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=public_name)
def test_methods_of_ufuncs(ufunc, method):
    """The value is NumPy's, the gradient that of differences; or it is refused; or NumPy itself does not do it."""
    if ufunc in (np.arctan2, np.power) and method in ("reduce along the last axis", "reduceat"):
        pytest.skip("NumPy's result depends on how the array lies in memory; a Tensor's is that of repeated calls")
    x = np.array([[1.31, 0.74, 2.13, 0.92], [1.72, 1.07, 0.58, 1.49]])

    def f(x):
        return METHODS[method](ufunc, x)

    try:
        wanted = f(x)
    except (TypeError, ValueError) as error:
        with pytest.raises((type(error), MinigradError)):
            inside(f, x)
        return
    try:
        got = inside(f, x)
    except UnsupportedError:
        assert support.status(ufunc) == "refused", "refused for one method only"
        return
    assert not detached(got)
    np.testing.assert_allclose(minigrad.stop_gradient(got), wanted, rtol=1e-14)
    if wanted.dtype.kind == "f":
        rng = np.random.default_rng(0)
        g, direction = rng.normal(size=wanted.shape), rng.normal(size=x.shape)
        _, pull = minigrad.vjp(f, x)
        slope = central_difference(lambda x: np.sum(g * f(x)), (x,), (direction,))
        np.testing.assert_allclose(np.sum(pull(g)[0] * direction), slope, rtol=1e-7, atol=1e-7)


def test_every_keyword_of_a_ufunc_is_right_or_refused():
    x = np.array([0.5, 1.5, 2.5])
    calls = {
        "dtype": lambda t: np.sqrt(t, dtype=np.float32),
        "out": lambda t: np.sqrt(t, out=np.zeros_like(t)),
        "where": lambda t: np.sqrt(t, out=np.ones_like(t), where=np.array([True, False, True])),
        "casting": lambda t: np.add(t, 1, casting="same_kind"),
    }
    for name, call in calls.items():
        got = inside(call, x)
        assert not detached(got), name
        np.testing.assert_allclose(minigrad.stop_gradient(got), call(x), err_msg=name)
    with pytest.raises(CutGraphError, match="asked to write a Tensor into a plain array"):
        inside(lambda t: np.sqrt(t, out=np.zeros(3)), x)


def test_refusals_name_a_way_out():
    """Each reason is followed by what to do instead."""
    for reason in {*REFUSED.values(), *unsupported.METHODS.values()}:
        if "scipy" not in reason:
            assert ":" in reason or reason.startswith(("use ", "with ")), reason
