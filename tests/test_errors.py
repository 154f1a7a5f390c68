"""The errors: their hierarchy, their texts, and the user's line in them."""

import builtins
import inspect
import linecache
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import minigrad
from minigrad import errors
from minigrad.errors import MinigradError, MissingAdjoint, SourceLine, UnusedParameterWarning
from minigrad.op import Op, missing

X = np.array([0.5, -1.0, 2.0])


# --- the hierarchy


def drawn():
    """The classes drawn in the docstring of errors.py, with their second base."""
    return dict(re.findall(r"^    (?:├── |└── )?(\w+) +\((\w+)\)", errors.__doc__, flags=re.MULTILINE))


def classes():
    return {name: x for name, x in vars(errors).items() if inspect.isclass(x) and issubclass(x, (Exception, Warning))}


def test_the_docstring_draws_every_class():
    bases = drawn()
    assert set(bases) | {"MinigradError"} == set(classes())
    for name, base in bases.items():
        assert issubclass(classes()[name], getattr(builtins, base)), name
        if base != "UserWarning":
            assert classes()[name].__bases__ == (MinigradError, getattr(builtins, base))


def test_every_class_says_what_it_is_for():
    for name, x in classes().items():
        assert x.__doc__ and len(x.__doc__) > 20, name
        assert name in errors.__all__


def test_a_cut_graph_is_no_type_error():
    """NumPy replaces a TypeError that `__float__` raises."""
    assert not issubclass(errors.CutGraphError, TypeError)


# --- lines


def test_source_lines():
    here = errors.here()
    assert re.fullmatch(r".*test_errors\.py:\d+    here = errors\.here\(\)", here)
    line = SourceLine(__file__, 1)
    assert str(line).endswith("test_errors.py:1    " + linecache.getline(__file__, 1).strip())
    assert str(SourceLine("<unknown source>", 3)) == "<unknown source>:3"


def test_lines_of_calls_over_several_lines():
    with pytest.raises(MinigradError) as caught:
        minigrad.grad(
            lambda x: np.sum(
                x.reshape(
                    3,
                    1,
                )
                .astype(np.float64)
                .tolist()
            ),
            X,
        )
    assert re.search(r"at +\S*test_errors\.py:\d+ +", str(caught.value))


def test_code_without_source():
    program = "import numpy as np, minigrad\nminigrad.grad(lambda x: float(x), np.array(1.0))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "CutGraphError" in result.stderr
    assert re.search(r"  at     <string>:2\b", result.stderr)


# --- texts that no other file tests


def undefined():
    return Op(lambda x, y: x * y, "x y", (lambda g, y: g * y, missing("nobody has written it")), "np.undefined")


def test_a_missing_adjoint():
    op = undefined()
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(op(x, X)), X), X)
    with pytest.raises(MissingAdjoint) as caught:
        minigrad.grad(lambda y: np.sum(op(X, y)), X)
    first, at, fix = str(caught.value).split("\n")[:3]
    assert first == "np.undefined has no adjoint with respect to 'y': nobody has written it"
    assert re.fullmatch(r"  at   \S*test_errors\.py:\d+ +minigrad\.grad\(lambda y: np\.sum\(op\(X, y\)\), X\)", at)
    assert fix.startswith("  fix  wrap the call in minigrad.custom_adjoint")


def test_a_missing_adjoint_is_no_trouble_where_no_gradient_arrives():
    op = undefined()
    gradient = minigrad.grad(lambda y: (op(X, y), np.sum(y))[1], X)
    np.testing.assert_array_equal(gradient, np.ones(3))


def test_an_op_with_too_few_adjoints():
    with pytest.raises(ValueError, match=r"np\.f: 2 inputs \(x y\) but 1 adjoints"):
        Op(lambda x, y: x, "x y", (lambda g: g,), "np.f")


def test_an_adjoint_with_a_gradient_of_the_wrong_shape():
    op = Op(lambda x: x * 2, "x", (lambda g: g[:2],), "np.short")
    with pytest.raises(
        errors.ShapeError,
        match=r"the adjoint of np\.short returned a gradient of shape \(2,\) for an input of shape \(3,\)",
    ):
        minigrad.grad(lambda x: np.sum(op(x)), X)


def test_an_error_inside_an_adjoint_names_the_op_and_the_line():
    def adjoint(g):
        raise RuntimeError("the original")

    op = Op(lambda x: x * 2, "x", (adjoint,), "np.broken")
    with pytest.raises(RuntimeError, match="the original") as caught:
        minigrad.grad(lambda x: np.sum(op(x)), X)
    notes = "\n".join(getattr(caught.value, "__notes__", []))
    assert "np.broken" in notes and "test_errors.py" in notes


# --- warnings


def unused(p):
    return np.sum(p[0])


def test_a_warning_is_given_once_per_line_of_the_user():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            minigrad.grad(unused, [X, X])
        minigrad.grad(unused, [X, X])
    assert len(caught) == 2
    assert {w.filename for w in caught} == {__file__}
    assert all(w.category is UnusedParameterWarning for w in caught)
    assert caught[0].lineno != caught[1].lineno


def test_warnings_can_be_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnusedParameterWarning, match=r"does not depend on p\[1\]"):
            minigrad.grad(unused, [X, X])
        with pytest.raises(RuntimeWarning, match="invalid value encountered in sqrt"):
            minigrad.grad(lambda x: np.sum(np.sqrt(x)), X)
        np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(x * x), X), 2 * X)


@pytest.mark.parametrize(
    ("f", "instead"),
    [
        (lambda x: np.lib.stride_tricks.as_strided(x, (3, 2), (8, 8)), "as_strided .*\n.*\n.*\n.*sliding_window_view"),
        (lambda x: np.vectorize(lambda a: a * a)(x), "np.vectorize .*\n.*\n.*\n.*functions broadcast"),
    ],
)
def test_functions_of_numpy_that_convert_their_arguments_are_named(f, instead):
    with pytest.raises(minigrad.errors.CutGraphError, match=instead):
        minigrad.grad(lambda x: np.sum(f(x)))(np.ones(4))


def test_a_position_instead_of_an_argument_is_noticed():
    with pytest.raises(minigrad.errors.DtypeError, match=r"a position is given by name: grad\(f, argnums=1\)"):
        minigrad.grad(lambda a, b: a * b, 1)
