"""What emitted sources look like: names, comments, shapes; and what the functions take and return."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import minigrad
from emitting import assert_same, on_the_tape, run
from minigrad.emit import adjoint_function, emit_adjoint, emit_forward
from minigrad.errors import MissingAdjoint

rng = np.random.default_rng(5)
X, W, S = (rng.normal(size=s).round(2) for s in ((3, 4), (4,), ()))
OUTSIDE = rng.normal(size=(3, 4))


def statements(emitted):
    """Return the statements of the function, without comments, shapes and docstring."""
    body = emitted.text.split('"""\n')[-1]
    code = [line.split("  # ")[0].strip() for line in body.splitlines()]
    return [line for line in code if line and not line.startswith(("#", "return"))]


# ---- names, comments, shapes --------------------------------------------------------------------


def scaled(x, w, eps=1e-3):
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)
    direction = x / length  # a unit vector
    return direction * w


def test_the_whole_text():
    line = scaled.__code__.co_firstlineno
    assert minigrad.adjoint_source(scaled, X, W) == f'''\
import numpy as np


def scaled_adjoint(g, x, w):
    """Adjoint of scaled (test_emit_text.py:{line}).

    g (3, 4), x (3, 4), w (4,) -> dx (3, 4), dw (4,); float64
    """
    eps = 0.001
    # test_emit_text.py:{line + 1}
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)  # (3, 1)
    # test_emit_text.py:{line + 2}
    direction = x / length                                         # (3, 4)

    # adjoint of test_emit_text.py:{line + 3}  return direction * w
    ddirection = g * w                                             # (3, 4)
    dw = np.sum(g * direction, axis=0)                             # (4,)
    # adjoint of test_emit_text.py:{line + 1}
    product = direction * np.sum(ddirection * direction, axis=-1, keepdims=True)  # (3, 4)
    dx = (ddirection - product) / length                           # (3, 4)
    return dx, dw
'''


def test_the_forward_as_source():
    line = scaled.__code__.co_firstlineno
    assert minigrad.forward_source(scaled, X, W) == f'''\
import numpy as np


def scaled(x, w):
    """scaled (test_emit_text.py:{line}).

    x (3, 4), w (4,) -> (3, 4); float64
    """
    eps = 0.001
    # test_emit_text.py:{line + 1}
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + eps)  # (3, 1)
    # test_emit_text.py:{line + 2}
    direction = x / length                                         # (3, 4)
    return direction * w
'''


def test_a_dtype_that_is_another_is_shown():
    text = minigrad.adjoint_source(lambda x: np.where(x > 0, x, 0.5 * x), X.astype(np.float32))
    assert "-> dx (3, 4); float32" in text
    assert "greater = x > 0" in text and "# (3, 4) bool" in text


def test_no_line_is_long_without_need():
    def f(x):
        return np.exp(np.sin(x) * np.cos(x)) / (1 + np.tanh(x) * np.sqrt(1 + x * x)) * np.log(2 + np.sin(x) ** 2)

    emitted = emit_adjoint(f, X)
    assert max(map(len, statements(emitted))) <= 90, emitted.text


def test_functions_without_source():
    scope = {"np": np}
    exec("def typed(x, k=2.5):\n    h = x * k\n    return np.exp(h)\n", scope)
    text = minigrad.adjoint_source(scope["typed"], X)
    assert "h = x * k" in text and "k = 2.5" in text and "dx = g * k * np.exp(h)" in text


def test_a_name_that_means_something_else_is_not_used():
    def f(x, g):
        np_, math_ = np.sin(x), np.exp(x)
        lambda_ = sum = np_ * g
        return sum + math_ * lambda_

    emitted = emit_adjoint(f, X, W)
    assert emitted.text.count("def f_adjoint(gradient, x, g):") == 1
    gradient, wanted = on_the_tape(f, [X, W], {})
    assert_same(run(emitted.function(), gradient, [X, W], {}), wanted, 1e-14)


# ---- parts of arrays ----------------------------------------------------------------------------


def both(f, *args):
    """Return the statements of the adjoint and of the function, after executing them."""
    g, wanted = on_the_tape(f, list(args), {})
    for tidy in (False, True):
        emitted = emit_adjoint(f, *args, tidy=tidy)
        assert_same(run(emitted.function(), g, list(args), {}), wanted, 1e-14 * tidy)
        forward = emit_forward(f, *args, tidy=tidy)
        np.testing.assert_array_equal(forward.function()(*args), f(*args))
    return statements(emitted), statements(forward)


def test_slices_print_as_slices():
    def f(x):
        out = np.sin(x)
        out[:, :, 0] *= 0.5
        return out

    adjoint, forward = both(f, rng.normal(size=(2, 3, 4)))
    assert adjoint == ["dout = np.copy(g)", "dout[:, :, 0] *= 0.5", "dx = dout * np.cos(x)"]
    assert forward == ["out = np.sin(x)", "out[:, :, 0] *= 0.5"]


def test_parts_of_parts_are_one_index():
    def f(x):
        out = np.sin(x)
        out[0][1] = 2 * x[1][2]
        row = out[1]
        row[1:] += 1.0
        return out

    adjoint, forward = both(f, rng.normal(size=(2, 3)))
    assert "dout[0, 1] = 0" in adjoint and "dx[1, 2] += 2 * g[0, 1]" in adjoint
    assert "out[0, 1] = 2 * x[1][2]" in forward and "out[1, 1:] = row[1:] + 1.0" in forward


def test_what_is_filled_part_by_part_is_taken_part_by_part():
    def f(x):
        out = np.zeros_like(x)
        for i in range(3):
            out[i] = 2 * x[i]
            out[i] += x[2 - i]
        return out

    adjoint, _ = both(f, X)
    assert adjoint[:3] == ["dx = np.zeros_like(x)", "dx[0] = g[2]", "dx[2] = 2 * g[2]"]
    assert not [line for line in adjoint if "copy" in line or "dout" in line]


def test_a_split_is_put_together_in_one_array():
    def f(a):
        i, o = np.split(a, 2, axis=1)
        return np.sin(i) * o

    adjoint, _ = both(f, X)
    assert adjoint[-3:] == ["da = np.zeros_like(a)", "da[:, 2:] = do", "da[:, :2] = di"]


def test_stacks_are_stacks():
    adjoint, _ = both(lambda x: np.tanh(np.stack([x[0], np.sin(x[1]), x[2]], axis=1)), X)
    assert "out = np.tanh(np.stack([x[0], np.sin(x[1]), x[2]], axis=1))" in adjoint
    assert "dx[2] = dstack[:, 2]" in adjoint


def test_np_add_at_is_written_in_place():
    def f(x, y, rows):
        out = np.sin(x)
        np.add.at(out, rows, y)
        return out * out

    emitted = emit_adjoint(f, X, X + 1, np.array([0, 2, 0]))
    assert statements(emitted)[:2] == ["out = np.sin(x)", "np.add.at(out, rows, y)"] and not emitted.constants
    both(f, X, X + 1, np.array([0, 2, 0]))


def test_values_assigned_where_indices_repeat():
    """Which value stays is worked out from the indices that the function is given, not from those of the call."""

    def f(x, rows):
        out = np.zeros_like(x)
        out[rows] = x
        return out

    emitted = emit_adjoint(f, X, np.array([0, 1, 2]))
    rows = np.array([1, 0, 1])
    g, wanted = on_the_tape(f, [X, rows], {})
    assert_same([emitted.function()(g, X, rows)], wanted, 0)


def test_sums_that_vanish_are_left_out():
    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    adjoint, _ = both(softmax, X)
    assert adjoint[-1] == "dx = out * (g - np.sum(g * out, axis=-1, keepdims=True))" and len(adjoint) == 3


def test_windows_are_put_back_slice_by_slice():
    f = lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1) ** 2
    adjoint, _ = both(f, X)
    assert adjoint[-2:] == ["dx[:, :3] = dsliding_window_view[..., 0]", "dx[:, 1:] += dsliding_window_view[..., 1]"]
    assert not emit_adjoint(f, X).constants


def test_the_forward_binds_names_again_as_the_user_does():
    def f(x, w):
        out = x * w
        for _ in range(2):
            out = out + np.sin(out)
        x = out * x
        out /= np.sum(out)
        return x - out

    adjoint, forward = both(f, X, W)
    assert forward[:3] == ["out = x * w", "out = out + np.sin(out)", "out = out + np.sin(out)"]
    assert forward[3:] == ["x = out * x", "out = out / np.sum(out)"]
    assert "out_2 = out + np.sin(out)" in adjoint and any(line.startswith("dout_2 = ") for line in adjoint)


def test_gradients_are_numbered_as_their_values():
    def f(x):
        p = np.exp(x)
        p /= np.sum(p, axis=-1, keepdims=True)
        return p @ W

    adjoint, _ = both(f, X)
    assert any(line.startswith("p_2 = p / ") for line in adjoint)
    assert {line.split(" = ")[0] for line in adjoint if line.startswith("dp")} == {"dp_2"}


def test_constants_have_their_dtype_in_the_docstring():
    mask = rng.random((3, 4)) < 0.5
    emitted = emit_adjoint(lambda x: np.where(mask, x, 0), X)
    assert "mask (3, 4) bool: constants of <lambda>; `emit_adjoint(...).constants` has them." in emitted.text
    text = minigrad.adjoint_source(lambda z, w: z * w, X + 1j, X)
    assert "z (3, 4), w (3, 4) float64 -> dz (3, 4), dw (3, 4) float64; complex128" in text


# ---- arguments and results ----------------------------------------------------------------------

Pair = namedtuple("Pair", "a b")


@dataclass
class Layer:
    weight: np.ndarray
    rest: list


STRUCTURES = {
    "a dict": ({"w": W, "a b": W + 1}, lambda p, x: x * p["w"] + p["a b"]),
    "a list in a tuple": (([W, W + 1], W), lambda p, x: x * p[0][0] + p[0][1] * p[1]),
    "a named tuple": (Pair(W, W + 1), lambda p, x: x * p.a + p.b),
    "a dataclass": (Layer(W, [W, None]), lambda p, x: x * p.weight + p.rest[0]),
    "nothing used": ([W, W], lambda p, x: x * p[1]),
}


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("tidy", [False, True])
def test_structures_of_arguments(name, tidy):
    params, f = STRUCTURES[name]
    g, wanted = on_the_tape(f, [params, X], {})
    got = adjoint_function(f, params, X, tidy=tidy)(g, params, X)
    assert minigrad.tree.structure(got[0]) == minigrad.tree.structure(params)
    assert_same(got, wanted, 1e-14)


@pytest.mark.parametrize("tidy", [False, True])
def test_structures_of_results(tidy):
    def f(x):
        return {"a": np.sin(x), "b": (np.sum(x), [x[0], x > 0])}

    g, wanted = on_the_tape(f, [X], {})
    assert_same([adjoint_function(f, X, tidy=tidy)(g, X)], wanted, 1e-14)


def test_arguments_without_arrays_are_part_of_the_text():
    def f(x, power, mask=None, *, scale=1.0, ids):
        return (x**power * scale)[ids] if mask is None else x * mask

    emitted = emit_adjoint(f, X, 3, scale=2.0, ids=np.array([0, 1, 1]))
    assert "def f_adjoint(g, x, ids):" in emitted.text
    g, wanted = on_the_tape(f, [X, 3], {"scale": 2.0, "ids": np.array([0, 1, 1])})
    assert_same([emitted.function()(g, X, ids=np.array([0, 1, 1]))], wanted, 1e-14)


def test_one_gradient_is_no_tuple():
    assert isinstance(adjoint_function(np.sin, X)(X, X), np.ndarray)
    assert isinstance(adjoint_function(np.multiply, X, X)(X, X, X), tuple)


def test_gradients_are_arrays_of_their_own():
    def f(x, y, z):
        return x + y.T, np.sum(z), x[::-1]

    square = rng.normal(size=(3, 3))
    for tidy in (False, True):
        g = (square.copy(), S, square.copy())
        got = adjoint_function(f, square, square, square, tidy=tidy)(g, square, square, square)
        for i, a in enumerate(got):
            assert a.flags.writeable
            others = [*got[:i], *got[i + 1 :], g[0], g[2], square]
            assert not any(np.shares_memory(a, b) for b in others), i


def test_arrays_from_outside_are_further_arguments():
    inner = rng.normal(size=(4, 4))

    def f(x):
        return (x @ inner) * OUTSIDE + np.arange(4.0)

    emitted = emit_adjoint(f, X)
    assert emitted.constants.keys() == {"inner", "OUTSIDE"}
    assert emitted.constants["inner"] is inner
    assert "def f_adjoint(g, x, OUTSIDE, inner):" in emitted.text
    assert "OUTSIDE (3, 4), inner (4, 4): constants of f; `emit_adjoint(...).constants` has them." in emitted.text
    assert "dx = g * OUTSIDE @ inner.T" in emitted.text
    g, wanted = on_the_tape(f, [X], {})
    assert_same([emitted.function()(g, X)], wanted, 1e-14)


def test_equal_arrays_from_outside_are_one():
    def f(x):
        return x * OUTSIDE + np.sin(x) * OUTSIDE.copy()

    (array,) = emit_adjoint(f, X).constants.values()
    np.testing.assert_array_equal(array, OUTSIDE)


def test_what_was_drawn_at_random_is_an_argument():
    def dropped(x, generator):
        keep = generator.random(x.shape) < 0.5
        return np.where(keep, 2 * x, 0)

    emitted = emit_adjoint(dropped, X, np.random.default_rng(1))
    keep = emitted.constants["keep"]
    np.testing.assert_array_equal(emitted.function()(np.ones((3, 4)), X), 2.0 * keep)


def test_what_is_no_numpy_is_a_function_among_the_arguments():
    third = minigrad.custom_adjoint(lambda x: np.array([v**3 for v in x.tolist()]), lambda g, x: 3 * g * x * x)
    emitted = emit_adjoint(lambda x: np.sin(third(x)), W)
    assert emitted.constants.keys() == {"function"}
    g, wanted = on_the_tape(lambda x: np.sin(third(x)), [W], {})
    assert_same([emitted.function()(g, W)], wanted, 1e-14)


def test_values_that_python_looks_at_are_told_of():
    def f(x, ids):
        return 2 * x if ids.max() > 1 else x

    text = minigrad.adjoint_source(f, X, np.array([0, 2]))
    assert f"test_emit_text.py:{f.__code__.co_firstlineno + 1}: Python code looked at values here" in text
    assert "looked at" not in minigrad.adjoint_source(scaled, X, W)


def test_a_missing_adjoint_is_missing_here_too():
    special = pytest.importorskip("scipy.special")
    with pytest.raises(MissingAdjoint, match=r"scipy\.special\.jv has no adjoint"):
        minigrad.adjoint_source(lambda v: special.jv(v, 1.0), W)


def test_functions_of_scipy_are_called_by_their_names():
    special = pytest.importorskip("scipy.special")
    text = minigrad.adjoint_source(lambda x: special.expit(x), W)
    assert "import scipy.special" in text and "scipy.special.expit(x)" in text


def test_it_is_an_adjoint_as_custom_adjoint_takes_one():
    f = minigrad.custom_adjoint(scaled, adjoint_function(scaled, X, W))
    g, wanted = on_the_tape(scaled, [X, W], {})
    _, pull = minigrad.vjp(f, X, W)
    assert_same(pull(g), wanted, 1e-14)
