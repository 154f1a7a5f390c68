"""Traces: a function as a Program that holds for other values, the Program of its adjoint, and the names in both."""

import functools
import gc
import inspect
import weakref

import numpy as np
import pytest

import minigrad
from minigrad.adjoint import adjoint_program
from minigrad.errors import ControlFlowError, CutGraphError
from minigrad.op import OPS
from minigrad.program import Const
from minigrad.simplify import permutation
from minigrad.trace import name_of, parameter_names, trace

rng = np.random.default_rng(11)
MATRIX = rng.normal(size=(4, 3))
OUTSIDE = rng.normal(size=3)


def arrays(*shapes):
    return [np.asarray(rng.normal(size=shape)) for shape in shapes]


def names(program):
    return [eq.outs[0].name for eq in program.equations]


def agrees(f, *args, **kwargs):
    """Assert that the program of the adjoint gives the tape's gradients bit for bit, for other values too."""
    forward, backward = adjoint_program(f, *args, **kwargs)
    fixed = [x for x in kwargs.values() if isinstance(x, np.ndarray)]
    for shift in (0, 0.25):
        moved = [x + shift for x in args]
        out, pull = minigrad.vjp(lambda *a: f(*a, **kwargs), *moved)
        g = rng.normal(size=np.shape(out))
        np.testing.assert_array_equal(forward(*moved, *fixed)[0], out)
        for got, wanted in zip(backward(g, *moved, *fixed), pull(g), strict=True):
            np.testing.assert_array_equal(got, wanted)
    return forward, backward


# ---- trace ------------------------------------------------------------------------------------


def test_a_trace_holds_for_other_values():
    def f(x, w):
        return {"sum": np.sum(np.tanh(x @ w)), "top": np.max(x > 0, axis=0)}

    x, w = arrays((2, 3), (3, 4))
    program = trace(f, x, w)
    for shift in (0, 1):
        got = program(x + shift, w)
        wanted = f(x + shift, w)
        np.testing.assert_array_equal(got[0], wanted["sum"])
        np.testing.assert_array_equal(got[1], wanted["top"])


def test_what_no_result_needs_is_left_out():
    def f(x):
        np.exp(x)
        return np.sin(x)

    assert [eq.op.name for eq in trace(f, MATRIX).equations] == ["np.sin"]


def test_python_control_flow_on_values_is_refused():
    def f(x):
        return x if np.sum(x) > 0 else -x

    with pytest.raises(ControlFlowError, match="the branch taken now would be taken for ever"):
        trace(f, MATRIX)
    assert [eq.op.name for eq in trace(f, -np.ones(2), any_values=False).equations] == ["np.negative"]


def test_a_trace_of_a_gradient():
    def step(w, x):
        return w - 0.1 * minigrad.grad(lambda w: np.sum(np.tanh(x @ w) ** 2), w)

    x, w = arrays((2, 4), (4, 3))
    np.testing.assert_array_equal(trace(step, w, x)(w + 1, x)[0], step(w + 1, x))


def test_a_tensor_of_another_differentiation_is_refused():
    def outer(x):
        return trace(lambda y: y * x, MATRIX) and np.sum(x)

    with pytest.raises(CutGraphError, match="Tensor of another differentiation"):
        minigrad.grad(outer, MATRIX)


def test_trees_become_inputs_in_order():
    params = {"b": np.ones(2), "a": [np.ones(3), 2.0]}
    program = trace(lambda p: p["a"][0][:2] * p["b"] * p["a"][1], params)
    assert [v.name for v in program.inputs] == ["p_a_0", "p_b"]


# ---- adjoint_program --------------------------------------------------------------------------


def quadratic(x, a):
    y = x @ a
    z = np.tanh(y) * np.sum(y * y, axis=-1, keepdims=True)
    return z


def test_the_adjoint_is_that_of_the_tape():
    agrees(quadratic, *arrays((2, 3), (3, 3)))
    agrees(lambda x, *, w: np.sin(x) * w, *arrays((2, 3)), w=MATRIX[0])
    agrees(lambda x: np.concatenate([x[::2], np.maximum(x, 0.3)]), *arrays((5,)))


def test_backward_equations_know_what_they_are_the_adjoint_of():
    forward, backward = adjoint_program(quadratic, *arrays((2, 3), (3, 3)))
    assert all(eq.of is None for eq in forward.equations)
    ops = [eq.of.name for eq in backward.equations if eq.of is not None]
    assert list(dict.fromkeys(ops)) == ["np.multiply", "np.sum", "np.tanh", "np.matmul"]
    lines = [eq.source.text for eq in backward.equations if eq.of is OPS[np.matmul]]
    assert set(lines) == {"y = x @ a"}


def test_names_of_gradients():
    _, backward = adjoint_program(quadratic, *arrays((2, 3), (3, 3)))
    assert [v.name for v in backward.inputs] == ["g", "x", "a"]
    assert {"dy", "dx", "da"} <= set(names(backward))
    gradients = backward.notes["gradients"]
    named = {g.name: of.name for g, of in gradients.items() if g.name}
    assert named["dy"] == "y"


def test_only_positional_float_arguments_have_gradients():
    def f(x, ids, *, scale):
        return x[ids] * scale

    _, backward = adjoint_program(f, MATRIX, np.array([0, 2, 0]), scale=np.full(3, 2.0))
    assert [v.name for v in backward.inputs] == ["g", "x", "ids", "scale"]
    assert [v.name for v in backward.outputs] == ["dx"]
    g = np.ones((3, 3))
    wanted = np.zeros((4, 3))
    wanted[[0, 2]] = [[6.0] * 3, [3.0] * 3]
    np.testing.assert_array_equal(backward(g, MATRIX, np.array([0, 2, 0]), np.full(3, 3.0))[0], wanted)


def test_wrt_chooses_the_arguments():
    x, a = arrays((2, 3), (3, 3))
    _, backward = adjoint_program(quadratic, x, a, wrt=[1])
    assert [v.name for v in backward.outputs] == ["da"]


def test_several_results_have_a_gradient_each():
    def f(x):
        return {"sum": np.sum(x), "twice": 2 * x}

    forward, backward = adjoint_program(f, MATRIX)
    assert [v.name for v in backward.inputs] == ["g0", "g1", "x"]
    np.testing.assert_array_equal(backward(1.0, np.zeros((4, 3)), MATRIX)[0], np.ones((4, 3)))
    assert forward.notes["result"].keys == ("sum", "twice")


def test_arrays_from_outside_are_constants_that_know_their_names():
    inside = np.arange(3.0)

    class Layer:
        weight = np.ones(3)

        def __init__(self):
            self.scale = np.full(3, 2.0)

        def __call__(self, x, eps=1e-3):
            return (x + eps) * self.scale + x * OUTSIDE + x / (inside + 1)

    forward, _ = agrees(Layer(), MATRIX)
    constants = {a.name: a.value for eq in forward.equations for a in eq.inputs if isinstance(a, Const) and a.name}
    assert set(constants) == {"scale", "OUTSIDE", "eps"}
    assert constants["OUTSIDE"] is OUTSIDE


def test_what_an_adjoint_does_with_an_array_from_outside_is_recorded():
    weight = np.ones((3, 5))
    _, backward = adjoint_program(lambda x: x @ weight, MATRIX)
    (turned,) = [eq for eq in backward.equations if permutation(eq) == (1, 0)]
    assert turned.inputs[0].name == "weight"
    assert turned.inputs[0].value is weight


def test_a_checkpoint_is_recorded_as_what_it_calls():
    block = minigrad.checkpoint(lambda x: np.tanh(x) * x)
    forward, _ = agrees(lambda x: block(block(x)), MATRIX)
    assert [eq.op.name for eq in forward.equations] == ["np.tanh", "np.multiply"] * 2


def test_a_custom_adjoint_is_recorded():
    twice = minigrad.custom_adjoint(lambda x: x + x, lambda g, x: 2 * g * np.cos(x))
    _, backward = agrees(lambda x: np.sin(twice(x)), MATRIX)
    assert "np.cos" in [eq.op.name for eq in backward.equations]


def test_a_differentiation_inside_is_an_adjoint_too():
    def force(x):
        return -minigrad.grad(lambda x: np.sum(np.sin(x) ** 2), x)

    forward, _ = agrees(force, MATRIX)
    assert [eq.of is not None for eq in forward.equations][-2:] == [True, False]  # the last is the minus sign


def test_what_python_looks_at_is_noted():
    def f(x, ids):
        if ids.max() > 1:
            x = 2 * x
        return x[np.asarray(ids)] * float(len(ids))

    ids = np.array([0, 2])
    _, backward = adjoint_program(f, MATRIX, ids)
    places = [where for _, where in backward.notes["reads"]]
    assert [where.split("    ")[1] for where in places] == [
        "if ids.max() > 1:",
        "return x[np.asarray(ids)] * float(len(ids))",
    ]
    np.testing.assert_array_equal(backward(np.ones((2, 3)), MATRIX, ids)[0][::2], np.full((2, 3), 4.0))


def test_a_trace_for_any_values_lets_nothing_be_looked_at():
    for look in (np.asarray, float, int, bool, list):
        with pytest.raises((CutGraphError, ControlFlowError, TypeError)):
            trace(lambda n, look=look: look(n), np.array(3))
    assert trace(lambda n: np.arange(int(n)) + n, np.array(3), any_values=False)(np.array(3))[0].tolist() == [3, 4, 5]


def test_bounds_of_slices_are_looked_at():
    def f(x, n):
        return x[: n.max()]

    forward, _ = adjoint_program(f, MATRIX, np.array([1, 2]))
    assert forward.outputs[0].shape == (2, 3)
    assert forward.notes["reads"]


# ---- names ------------------------------------------------------------------------------------


def softly(x):
    return np.exp(x) / (1 + np.exp(x))


def test_a_variable_beats_the_name_of_a_function_and_that_a_parameter():
    def inner(p):
        return p * 2

    def f(x):
        a = inner(np.sin(x))  # sin(x) is only a parameter: p
        return inner(softly(a))  # softly(a) is what softly returned

    forward, _ = adjoint_program(f, MATRIX)
    named = {eq.op.name: [] for eq in forward.equations}
    for eq in forward.equations:
        named[eq.op.name].append((eq.outs[0].name, eq.outs[0].weak))
    assert named["np.sin"] == [("p", True)]
    assert named["np.multiply"] == [("a", False), ("out", True)]
    assert named["np.divide"] == [("softly", True)]


def test_parameters_of_the_function_itself_keep_their_names():
    def inner(x):
        return x - np.mean(x)

    def f(x):
        return inner(np.exp(x))

    forward, _ = adjoint_program(f, MATRIX)
    assert names(forward) == [None, None, "out"]  # np.exp(x) is the x of inner only


def test_a_parameter_that_is_assigned_to_is_a_variable():
    def inner(y):
        y = np.sin(y)
        y += 1
        return y

    forward, _ = adjoint_program(lambda x: inner(x) * 2, MATRIX)
    first = forward.equations[0].outs[0]
    assert (first.name, first.weak) == ("y", False)


def test_names_need_no_source():
    scope = {"np": np}
    exec("def f(x):\n    hidden = np.tanh(x)\n    return hidden * x", scope)
    forward, _ = adjoint_program(scope["f"], MATRIX)
    assert names(forward) == ["hidden", "out"]


def test_library_code_names_nothing():
    forward, _ = adjoint_program(lambda x: functools.reduce(np.add, [x, 2 * x, 3 * x]), MATRIX)
    assert not {"function", "sequence", "obj"} & set(names(forward))


def test_names_of_functions_and_parameters():
    def f(a, *rest, b=1, **more): ...

    assert name_of(f) == "f"
    assert name_of(functools.partial(f, 1)) == "f"
    assert name_of(lambda x: x) == "f"
    assert parameter_names(f, 4) == ["a", "rest0", "rest1", "rest2"]
    assert parameter_names(np.matmul, 2) == ["x1", "x2"]


def test_a_trace_does_not_keep_the_tapes_of_differentiations_inside():
    """They keep what their adjoints need: for a loop over blocks, memory would grow with all of them."""
    tapes, alive = [], []

    def loss(x):
        tapes.append(weakref.ref(x._tape))
        return np.sum(x * x)

    def f(x):
        gradient = minigrad.grad(loss)(x)
        gc.collect()
        alive.append(tapes[0]() is not None)
        return gradient

    trace(f, np.ones(3))
    assert alive == [False]


def test_what_a_backward_pass_computes_is_the_adjoint_of_a_line_and_a_checkpoint_goes_forward_again():
    def hidden(x, w):
        return np.tanh(x @ w)

    def loss(w, x):
        return np.sum(np.exp(minigrad.checkpoint(hidden)(x, w)))

    def twice(w, x):
        return minigrad.grad(lambda w: np.sum(minigrad.grad(loss, w, x)), w) * 3

    first = inspect.getsourcelines(hidden)[1]
    shown = [(eq.op.name, eq.source.short) for eq in trace(twice, np.ones((3, 2)), np.ones((2, 3))).equations]
    line = f"test_trace.py:{first + 1}"
    assert [place for name, place in shown if name == "np.tanh"] == [line, line]
    assert [place for name, place in shown if name == "np.matmul"][-1] == f"adjoint of {line}"
    assert shown[-1] == ("np.multiply", f"test_trace.py:{inspect.getsourcelines(twice)[1] + 1}")
