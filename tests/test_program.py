"""Programs by hand: running, printing, validating, and the passes that simplify them."""

import numpy as np
import pytest

from minigrad.errors import MinigradError
from minigrad.op import OPS, Op
from minigrad.program import Const, Equation, Program, Var, naming, validate, without_dead_code
from minigrad.rules.index import Slot, assign, cast, gather, getitem, scatter
from minigrad.simplify import fold, permutation, share, simplify

FLOAT = np.dtype(np.float64)
ADD, MULTIPLY, NEGATIVE, SUM = (OPS[f] for f in (np.add, np.multiply, np.negative, np.sum))


def var(*shape, name=None, dtype=FLOAT):
    return Var(shape, np.dtype(dtype), name)


def program(inputs, *equations, outputs=None):
    """Return the program of (out, op, inputs, params) rows; its result is that of the last."""
    made = [Equation((out,), op, tuple(given), params, of=ADD) for out, op, given, params in equations]
    return validate(Program(tuple(inputs), tuple(made), outputs or (made[-1].outs[0],), "p"))


def ops(p):
    return [eq.op.name for eq in p.equations]


def same(before, after, *arrays):
    """Assert that two programs compute the same numbers."""
    for a, b in zip(before(*arrays), after(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


def test_a_program_runs_and_prints():
    x, y, out = var(2, 3, name="x"), var(3), var(2, 3, name="out")
    p = program([x, y], (out, ADD, [x, y], {}))
    a, b = np.ones((2, 3)), np.arange(3.0)
    np.testing.assert_array_equal(p(a, b)[0], a + b)
    assert str(p) == ("p(x:float64[2, 3], t0:float64[3]):\n  out:float64[2, 3] = np.add(x, t0)\n  return out")
    with pytest.raises(MinigradError, match="p takes 2 arrays, got 1"):
        p(a)


def test_names_are_distinct():
    x, y, z = var(name="x"), var(name="x"), var()
    p = program([x], (y, NEGATIVE, [x], {}), (z, NEGATIVE, [y], {}))
    assert list(naming(p).values()) == ["x", "x_2", "t0"]


def test_validate_finds_what_is_undefined_or_defined_twice():
    x, y = var(), var()
    double = Equation((y,), NEGATIVE, (x,), {})
    with pytest.raises(AssertionError, match="uses an undefined variable"):
        validate(Program((x,), (Equation((x,), NEGATIVE, (y,), {}),), (x,)))
    with pytest.raises(AssertionError, match="defines a variable twice"):
        validate(Program((x,), (double, double), (y,)))
    with pytest.raises(AssertionError, match="an output is undefined"):
        validate(Program((x,), (), (y,)))
    with pytest.raises(AssertionError, match="an input appears twice"):
        validate(Program((x, x), (), ()))


def test_dead_code_goes_and_effects_stay():
    x, dead, kept, out = var(2), var(2), var(2), var(2)
    effect = Op(lambda x: x, "x", (None,), "check", kind="effect")
    p = program([x], (dead, NEGATIVE, [x], {}), (kept, effect, [x], {}), (out, ADD, [x, x], {}))
    assert ops(without_dead_code(p)) == ["check", "np.add"]


def test_equal_equations_are_shared():
    x, y = var(2, 3), var(2, 3)
    a, b, c, total = var(2, 3), var(2, 3), var(2, 3), var(2, 3)
    p = program(
        [x, y],
        (a, MULTIPLY, [x, y], {}),
        (b, MULTIPLY, [y, x], {}),  # commutes
        (c, ADD, [a, b], {}),
        (total, MULTIPLY, [c, Const(2.0)], {}),
    )
    shared = without_dead_code(share(p))
    assert ops(shared) == ["np.multiply", "np.add", "np.multiply"]
    same(p, shared, np.ones((2, 3)), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Const(0.0), Const(-0.0)),
        (Const(1), Const(1.0)),
        (Const(True), Const(1)),
        (Const(np.float32(1)), Const(1.0)),
        (Const(np.ones(2)), Const(np.ones(2))),
    ],
)
def test_constants_that_differ_are_not_shared(one, other):
    x, a, b, out = var(2), var(2), var(2), var(2)
    p = program([x], (a, MULTIPLY, [x, one], {}), (b, MULTIPLY, [x, other], {}), (out, ADD, [a, b], {}))
    assert len(share(p).equations) == 3


def test_a_reduction_is_the_same_however_its_axes_are_written():
    x, a, b, out = var(2, 3), var(2), var(2), var(2)
    p = program(
        [x],
        (a, SUM, [x, Const(True)], {"axis": -1}),
        (b, SUM, [x, Const(True)], {"axis": (1,), "keepdims": False}),
        (out, ADD, [a, b], {}),
    )
    assert ops(simplify(p)) == ["np.sum", "np.add"]


X = np.arange(6.0).reshape(2, 3)
NOTHING = {
    "x * 1": (MULTIPLY, lambda x: [x, Const(1)], {}),
    "1.0 * x": (MULTIPLY, lambda x: [Const(1.0), x], {}),
    "x / 1": (OPS[np.divide], lambda x: [x, Const(1)], {}),
    "x ** 1": (OPS[np.power], lambda x: [x, Const(1)], {}),
    "x + 0": (ADD, lambda x: [x, Const(0)], {}),
    "x - 0": (OPS[np.subtract], lambda x: [x, Const(0)], {}),
    "zeros + x": (ADD, lambda x: [Const(np.zeros((2, 3))), x], {}),
    "+x": (OPS[np.positive], lambda x: [x], {}),
    "conjugate of a real": (OPS[np.conjugate], lambda x: [x], {}),
    "real part of a real": (OPS[np.real], lambda x: [x], {}),
    "cast to its own dtype": (cast, lambda x: [x], {"dtype": FLOAT}),
    "broadcast to its own shape": (OPS[np.broadcast_to], lambda x: [x], {"shape": (2, 3)}),
    "reshape to its own shape": (OPS[np.reshape], lambda x: [x], {"shape": (2, 3)}),
    "transpose that moves nothing": (OPS[np.transpose], lambda x: [x], {"axes": (0, 1)}),
    "sum over no axes": (SUM, lambda x: [x, Const(True)], {"axis": ()}),
    "x[...]": (getitem, lambda x: [x], {"index": Ellipsis}),
    "x[:, :]": (getitem, lambda x: [x], {"index": (slice(None), slice(None))}),
}


@pytest.mark.parametrize("row", NOTHING.values(), ids=NOTHING)
def test_what_changes_nothing_is_dropped(row):
    op, inputs, params = row
    x, y, out = var(2, 3), var(2, 3), var(2, 3)
    p = program([x], (y, op, inputs(x), params), (out, NEGATIVE, [y], {}))
    simple = simplify(p)
    assert ops(simple) == ["np.negative"]
    same(p, simple, X)


SOMETHING = {
    "another dtype": (MULTIPLY, lambda x: [x, Const(np.ones((), complex))], {}, complex, (2, 3)),
    "another shape": (ADD, lambda x: [x, Const(np.zeros((4, 2, 3)))], {}, FLOAT, (4, 2, 3)),
    "x * -1": (MULTIPLY, lambda x: [x, Const(-1)], {}, FLOAT, (2, 3)),
    "0 - x": (OPS[np.subtract], lambda x: [Const(0), x], {}, FLOAT, (2, 3)),
    "x[:, ::-1]": (getitem, lambda x: [x], {"index": (slice(None), slice(None, None, -1))}, FLOAT, (2, 3)),
    "a transpose of a square": (OPS[np.transpose], lambda x: [x], {}, FLOAT, (3, 3)),
}


@pytest.mark.parametrize("row", SOMETHING.values(), ids=SOMETHING)
def test_what_changes_something_stays(row):
    op, inputs, params, dtype, shape = row
    x = var(*((3, 3) if shape == (3, 3) else (2, 3)))
    out = var(*shape, dtype=dtype)
    assert len(simplify(program([x], (out, op, inputs(x), params))).equations) == 1


def pair(first, second, shape, middle, given):
    """Return the program of one op after another."""
    x, y, z = var(*given), var(*middle), var(*shape)
    return program([x], (y, first[0], [x], first[1]), (z, second[0], [y], second[1]))


TWO = {
    "-(-x)": (pair((NEGATIVE, {}), (NEGATIVE, {}), (2, 3), (2, 3), (2, 3)), []),
    "transpose there and back": (
        pair((OPS[np.transpose], {"axes": (1, 2, 0)}), (OPS[np.transpose], {"axes": (2, 0, 1)}), *3 * [(3, 3, 3)]),
        [],
    ),
    "swapaxes and matrix_transpose": (
        pair((OPS[np.swapaxes], {"axis1": -1, "axis2": -2}), (OPS[np.matrix_transpose], {}), (2, 3), (3, 2), (2, 3)),
        [],
    ),
    "reshape of a reshape": (
        pair((OPS[np.reshape], {"shape": (6,)}), (OPS[np.reshape], {"shape": (3, 2)}), (3, 2), (6,), (2, 3)),
        ["np.reshape"],
    ),
    "reshape of x[:, None]": (
        pair(
            (getitem, {"index": (slice(None), None)}),
            (OPS[np.reshape], {"shape": (2, 3)}),
            (2, 3),
            (2, 1, 3),
            (2, 3),
        ),
        [],
    ),
    "broadcast of a broadcast": (
        pair(
            (OPS[np.broadcast_to], {"shape": (2, 3)}),
            (OPS[np.broadcast_to], {"shape": (4, 2, 3)}),
            (4, 2, 3),
            (2, 3),
            (3,),
        ),
        ["np.broadcast_to"],
    ),
}


@pytest.mark.parametrize("row", TWO.values(), ids=TWO)
def test_two_in_one(row):
    p, wanted = row
    simple = simplify(p)
    assert ops(simple) == wanted
    same(p, simple, np.random.default_rng(0).normal(size=p.inputs[0].shape))


def test_a_reduction_keeps_its_axes_itself():
    x, total, out = var(2, 3), var(2), var(2, 1)
    p = program([x], (total, SUM, [x, Const(True)], {"axis": 1}), (out, OPS[np.reshape], [total], {"shape": (2, 1)}))
    simple = simplify(p)
    assert [(eq.op.name, eq.params) for eq in simple.equations] == [("np.sum", {"axis": 1, "keepdims": True})]
    same(p, simple, X)


def test_elementwise_ops_stretch_by_themselves():
    x, y, wide, out = var(3), var(2, 3), var(2, 3), var(2, 3)
    p = program([x, y], (wide, OPS[np.broadcast_to], [x], {"shape": (2, 3)}), (out, ADD, [wide, y], {}))
    assert ops(simplify(p)) == ["np.add"]
    same(p, simplify(p), np.arange(3.0), X)
    alone = program([x], (wide, OPS[np.broadcast_to], [x], {"shape": (2, 3)}), (out, ADD, [wide, wide], {}))
    assert ops(simplify(alone)) == ["np.broadcast_to", "np.add"]  # nothing else has the shape


def test_the_adjoint_of_a_new_axis_is_a_reshape():
    g, out = var(2, 1, 3), var(2, 3)
    p = program([g], (out, scatter, [g], {"index": (slice(None), None), "shape": (2, 3)}))
    assert ops(fold(p)) == ["np.reshape"]
    same(p, fold(p), X[:, None])


def test_assignment_of_everything_is_the_value():
    x, value, out, end = var(2, 3), var(2, 3), var(2, 3), var(2, 3)
    p = program([x, value], (out, assign, [x, value], {"index": (Ellipsis,)}), (end, NEGATIVE, [out], {}))
    assert ops(simplify(p)) == ["np.negative"]
    same(p, simplify(p), X, X + 1)


def test_an_index_with_arrays_is_left_alone():
    x, index, out = var(4), var(2, dtype=int), var(2)
    p = program([x, index], (out, gather, [x, index], {"index": (Slot(0),)}))
    assert ops(simplify(p)) == ["getitem"]
    same(p, simplify(p), np.arange(4.0), np.array([3, 1]))


def test_names_are_taken_over():
    x, y, out = var(2, name="x"), var(2), var(2)
    z = var(2, name="scores")
    p = program([x], (y, NEGATIVE, [x], {}), (z, MULTIPLY, [y, Const(1)], {}), (out, NEGATIVE, [z], {}))
    assert fold(p).equations[0].outs[0].name == "scores"


def test_permutation():
    x = var(2, 3, 4)

    def of(function, **params):
        return permutation(Equation((x,), OPS[function], (x,), params))

    assert of(np.transpose, axes=None) == (2, 1, 0)
    assert of(np.swapaxes, axis1=0, axis2=-1) == (2, 1, 0)
    assert of(np.moveaxis, source=0, destination=-1) == (1, 2, 0)
    assert of(np.matrix_transpose) == (0, 2, 1)
    assert permutation(Equation((x,), NEGATIVE, (x,), {})) is None
