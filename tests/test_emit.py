"""Emitted adjoints computed: for every row of tests/cases, every layer, and functions put together at random.

As recorded they are the tape's gradients bit for bit, in float64 and in float32; tidied, to 1e-14 of the largest
element.
"""

import numpy as np
import pytest

from adjoint_rows import MODES
from adjoint_rows import ROWS as LAYERS
from cases import cases, collect
from emitting import assert_same, on_the_tape, run
from minigrad.emit import emit_adjoint, emit_forward
from samples import generator

MOST_CASES = 8  # of a row: those behind are more combinations of the same parameters
OPS = [row for row in collect() if any(case(*case.primals) for case in cases(row))]
ops = pytest.mark.parametrize("row", OPS, ids=[row.name for row in OPS])


def check(f, args, kwargs, tidy, tolerance, who):
    g, wanted = on_the_tape(f, args, kwargs, who)
    emitted = emit_adjoint(f, *args, tidy=tidy, **kwargs)
    assert_same(run(emitted.function(), g, args, kwargs), wanted, tolerance, f"{who}\n{emitted.text}")


# ---- ops --------------------------------------------------------------------------------------


@ops
def test_an_op_as_recorded_is_bit_for_bit_the_tapes(row):
    for case in cases(row)[:MOST_CASES]:
        check(case, case.primals, {}, tidy=False, tolerance=0, who=case.name)


@ops
def test_an_op_tidied(row):
    for case in cases(row)[:MOST_CASES]:
        check(case, case.primals, {}, tidy=True, tolerance=1e-14, who=case.name)


@ops
def test_an_op_in_float32_stays_float32(row):
    for case in cases(row)[:3]:
        small = tuple(x.astype(np.float32) for x in case.primals)
        check(case, small, {}, tidy=False, tolerance=0, who=case.name)
        check(case, small, {}, tidy=True, tolerance=1e-5, who=case.name)


# ---- what has no derivative, and says where elements are or which count ---------------------------

PLACES = {
    "argsort": lambda x: x[np.argsort(x)],
    "argpartition": lambda x: x[np.argpartition(x, 2)],
    "lexsort": lambda x: x[np.lexsort((x, np.round(x)))],
    "lexsort of one": lambda x: x[np.lexsort((x,))],
    "searchsorted": lambda x: x * np.searchsorted(np.sort(x), x, side="right"),
    "digitize": lambda x: x * np.digitize(x, [-1, 0, 1], right=True),
    "argmax": lambda x: x[np.argmax(x)],
    "nonzero": lambda x: x[np.nonzero(x > 0)],
    "isin": lambda x: x * np.isin(x, x[:2], invert=True),
    "isclose": lambda x: x * np.isclose(x, x[0], atol=0.5),
    "all": lambda x: x * np.all(x > -9),
    "count_nonzero": lambda x: x * np.count_nonzero(x > 0),
    "floor_divide": lambda x: x * (x // 0.3),
    "round": lambda x: x * np.round(x, 2),
    "logical_xor": lambda x: x * np.logical_xor(x > 0, x < 1),
    "signbit": lambda x: x * np.signbit(x),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_and_tests(name):
    x = np.array([0.25, -1.5, 1.75, 0.5, -0.25])
    check(PLACES[name], (x,), {}, tidy=False, tolerance=0, who=name)
    check(PLACES[name], (x,), {}, tidy=True, tolerance=1e-14, who=name)


# ---- layers -----------------------------------------------------------------------------------

SIZES = ["ordinary", "no leading axes", "square heads", "one position"]


@pytest.mark.parametrize("mode", SIZES)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name, mode):
    row = LAYERS[name]
    args, kwargs = row.make(MODES[mode]())
    check(row.forward, args, kwargs, tidy=False, tolerance=0, who=name)
    check(row.forward, args, kwargs, tidy=True, tolerance=1e-14, who=name)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_in_float32_stays_float32(name):
    row = LAYERS[name]
    args, kwargs = row.make(MODES["ordinary"](dtype=np.float32))
    check(row.forward, args, kwargs, tidy=False, tolerance=0, who=name)
    check(row.forward, args, kwargs, tidy=True, tolerance=1e-5, who=name)


@pytest.mark.parametrize("name", LAYERS)
def test_the_forward_of_a_layer(name):
    row = LAYERS[name]
    args, kwargs = row.make(MODES["ordinary"]())
    arrays = {k: v for k, v in kwargs.items() if isinstance(v, (np.ndarray, tuple))}
    wanted = row.forward(*args, **kwargs)
    for tidy in (False, True):
        emitted = emit_forward(row.forward, *args, tidy=tidy, **kwargs)
        given = [x for x in args if not isinstance(x, (int, float))]
        assert_same([emitted.function()(*given, **arrays)], [wanted], 1e-15 if tidy else 0, emitted.text)


# ---- functions put together at random -----------------------------------------------------------

ONE = [
    "np.exp(0.3 * {a})", "np.tanh({a})", "np.sin({a})", "-{a}", "{a} * {a}", "{a} ** 2", "np.sqrt({a} * {a} + 1)",
    "2 * {a}", "{a} / 3", "1 / ({a} * {a} + 2)", "{a} + 0.5", "np.square({a})", "np.maximum({a}, 0.1)", "1 - {a}",
    "0.7 * {a}", "np.abs({a})", "np.reciprocal({a} * {a} + 1)", "np.sum(x * {a}, axis=-1, keepdims=True)",
    "np.mean(x * {a}, axis=-1, keepdims=True)", "np.sum(x + {a}, axis=0)", "np.mean(x - {a}, axis=0)", "np.mean({a})",
    "np.max(x + {a}, axis=-1, keepdims=True)", "np.var(x * {a}, axis=0)", "np.std(x + {a}, axis=-1, keepdims=True)",
    "(x * {a})[..., ::-1]", "np.ones(4) * {a}",
]  # fmt: skip
TWO = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / ({b} * {b} + 1)", "{a} * {b} + {a}", "{a} * {b} - {b} * {b}",
    "({a} - {b}) * ({a} + {b})", "np.where({a} > {b}, {a}, {b} * 0.5)",
]  # fmt: skip


def random_function(rng):
    """Return the source of a function of x (3, 4), w (4,), u (3, 1) and s (), of a few named steps."""
    names = ["x", "w", "u", "s"]

    def formula(depth):
        if not depth or rng.random() < 0.3:
            return names[rng.integers(len(names))]
        if rng.random() < 0.5:
            return f"({ONE[rng.integers(len(ONE))].format(a=formula(depth - 1))})"
        return f"({TWO[rng.integers(len(TWO))].format(a=formula(depth - 1), b=formula(depth - 1))})"

    lines = []
    for i in range(rng.integers(1, 6)):
        lines.append(f"    v{i} = {formula(3)}\n")
        names.append(f"v{i}")
    return f"def f(x, w, u, s):\n{''.join(lines)}    return {names[-1]} * 1.0\n"


@pytest.mark.parametrize("seed", range(150))
def test_a_random_function(seed):
    rng = generator(f"random function {seed}")
    source, scope = random_function(rng), {"np": np}
    exec(source, scope)
    args = [np.asarray(rng.normal(size=shape).round(2)) for shape in ((3, 4), (4,), (3, 1), ())]
    for tidy in (False, True):
        g, wanted = on_the_tape(scope["f"], args, {}, source)
        emitted = emit_adjoint(scope["f"], *args, tidy=tidy)
        got = run(emitted.function(), g, args, {})
        # A sum that cancels is as exact as its terms, which may be larger than the sum.
        size = max(np.max(np.abs(x), initial=1) for x in wanted)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * size if tidy else 0, err_msg=source + emitted.text)
