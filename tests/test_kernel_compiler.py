"""The compiler of kernels: each construct of its language against NumPy, and sums of long rows."""

import math
import re
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import minigrad
from kernels import TYPES, call, elementwise, elementwise_source, function
from minigrad.compiler.kernel_compiler import optimised
from minigrad.compiler.processor import target


def floats(dtype, *special):
    rng = np.random.default_rng(3)
    return np.concatenate([rng.normal(size=37) * 3, special]).astype(dtype)


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b * a - b", lambda a, b: a + b * a - b),
        ("a / b", np.divide),
        ("-a", lambda a, b: -a),
        ("abs(a)", lambda a, b: np.abs(a)),
        ("abs(a) ** b", lambda a, b: np.abs(a) ** b),
        ("sqrt(a)", lambda a, b: np.sqrt(a)),
        ("sin(a) + cos(b)", lambda a, b: np.sin(a) + np.cos(b)),
        ("np.floor(a)", lambda a, b: np.floor(a)),
        ("np.ceil(a)", lambda a, b: np.ceil(a)),
        ("np.trunc(a)", lambda a, b: np.trunc(a)),
        ("maximum(a, b)", np.maximum),
        ("minimum(a, b)", np.minimum),
        ("exp(a)", lambda a, b: np.exp(a)),
        ("tanh(a) if a == a else INF", lambda a, b: np.where(np.isnan(a), np.inf, np.tanh(a))),
        ("(a if (a >= b) | (b != b) else b)", np.fmax),
    ],
)
def test_floats(expression, expected, kind):
    a, b = floats(TYPES[kind], *SPECIAL), floats(TYPES[kind], *SPECIAL)[::-1].copy()
    with np.errstate(all="ignore"):
        wanted = expected(a, b)
    tolerance = 1e-6 if kind == "f4" else 1e-12
    np.testing.assert_allclose(elementwise(expression, a, b, to=kind), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "i4", "b1"])
@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(sign, kind):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-2, 3, 50).astype(TYPES[kind]) for _ in range(2))
    if kind.startswith("f"):
        a[:3], b[2:5] = np.nan, np.nan
    wanted = eval(f"a {sign} b")
    np.testing.assert_array_equal(elementwise(f"a {sign} b", a, b, to="b1"), wanted)
    np.testing.assert_array_equal(elementwise(f"not a {sign} b", a, b, to="b1"), ~wanted)


@pytest.mark.parametrize("kind", ["i8", "i4"])
def test_integers_wrap_as_those_of_numpy_do(kind):
    limits = np.iinfo(TYPES[kind])
    a = np.array([limits.min, limits.max, -7, 0, 12], TYPES[kind])
    b = np.array([3, 5, -1, limits.max, 2], TYPES[kind])
    with np.errstate(over="ignore"):
        for expression in ("a + b", "a - b", "a * b", "-a"):
            np.testing.assert_array_equal(elementwise(expression, a, b, to=kind), eval(expression))
        np.testing.assert_array_equal(elementwise("abs(a)", a, to=kind), np.abs(a))
    np.testing.assert_array_equal(elementwise("maximum(a, b)", a, b, to=kind), np.maximum(a, b))
    np.testing.assert_array_equal(elementwise("minimum(a, b)", a, b, to=kind), np.minimum(a, b))


def test_booleans():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    np.testing.assert_array_equal(elementwise("a & b", a, b, to="b1"), a & b)
    np.testing.assert_array_equal(elementwise("a | b", a, b, to="b1"), a | b)
    np.testing.assert_array_equal(elementwise("maximum(a, b)", a, b, to="b1"), a | b)
    np.testing.assert_array_equal(elementwise("f4(a) - f4(b)", a, b, to="f4"), [0, 1, -1, 0])


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("given", TYPES)
def test_casts(given, to):
    a = np.array([0, 1, 3, 100], TYPES[given])
    np.testing.assert_array_equal(elementwise(f"{to}(a)", a, to=to), a.astype(TYPES[to]))


def test_any_number_but_zero_is_true():
    a = np.array([0.0, -0.0, 0.3, np.nan, -np.inf])
    np.testing.assert_array_equal(elementwise("b1(a)", a, to="b1"), a.astype(bool))
    np.testing.assert_array_equal(elementwise("(f8(1) if a else f8(2))", a, to="f8"), np.where(a, 1, 2))


def test_a_loop_with_steps_adds_up_what_is_in_a_part_of_the_rows():
    source = """SIZE = 3


def run(part, parts, scratch, table):
    x = pointer(table, 0, f4)
    y = pointer(table, 1, f8)
    s = place(scratch + 0, f4)
    low, high = part * 10 // parts, (part + 1) * 10 // parts
    for i in range(low, high):
        total = f8(0)
        for j0 in range(0, 7, 3):
            for j in range(j0, minimum(j0 + SIZE, 7)):
                store(s, j, load(x, i * 7 + j, 0, 3), 2, 3)
                total = plus(total, f8(load(s, j, 2, 3)))
        store(y, i, total + f8(j), 1, 3)
"""
    x, y = np.random.default_rng(5).normal(size=(10, 7)).astype(np.float32), np.full(10, np.nan)
    call(source, x, y, part=1, parts=3)
    np.testing.assert_allclose(y[3:6], x[3:6].sum(1, dtype=float) + 6, rtol=1e-15)
    assert np.isnan(y[:3]).all() and np.isnan(y[6:]).all()


def test_a_name_serves_again_for_another_type():
    source = """def run(part, parts, scratch, table):
    x = pointer(table, 0, f8)
    y = pointer(table, 1, i4)
    for j in range(5):
        a = load(y, j, 1, 2)
        store(y, j, a * a, 1, 2)
    for j in range(5):
        a = load(x, j, 0, 2)
        store(x, j, a * a, 0, 2)
"""
    x, y = np.random.default_rng(7).normal(size=5), np.arange(-2, 3, dtype=np.int32)
    a, b = x.copy(), y.copy()
    call(source, a, b)
    np.testing.assert_array_equal(a, x * x)
    np.testing.assert_array_equal(b, y * y)


STATEMENTS = {
    "if": """
def f(a, b) -> int:
    x = 7
    if a < b:
        x = a
    elif a == b:
        x, b = b + 1, x
    else:
        if b > 2:
            return -1
    return x * 100 + b
""",
    "while": """
def f(a, b) -> int:
    n, c = 0, a
    while c > 0 and n < 10:
        c -= b
        n += 1
    return n * 100 + c
""",
    "an endless loop is left by a return": """
def f(a, b) -> int:
    while True:
        a += 3
        for i in range(a):
            if i * i > b + 5:
                return i * 100 + a
""",
    "operators": """
N, M = 3, max(2, 1)


def f(a, b) -> int:
    x = a // N * 10 + a % M
    x += min(a, b) << 2
    x |= (a + 1) & 6
    return x + (a if b > 3 else N)
""",
    "conditions": """
def is_odd(a) -> bool:
    return a % 2 == 1


def f(a, b) -> int:
    both, either = is_odd(a) and is_odd(b), is_odd(a) or is_odd(b) or a == b
    x = 0
    if not both and (either or a > 3):
        x += 10
    if b - 1:
        x += 1
    return x + (100 if both == either else 200) + both
""",
    "a function that returns nothing": """
def note(a, address):
    if a == 2:
        return
    poke(address, a)


def f(a, b) -> int:
    poke(PLACE, 5)
    note(a, PLACE)
    return peek(PLACE) + b
""",
    "what does not matter is not looked at": """
def noted(a, digit) -> bool:
    poke(PLACE, 10 * peek(PLACE) + digit)
    return a > 1


def f(a, b) -> int:
    poke(PLACE, 0)
    if noted(a, 1) and noted(b, 2) or noted(a + b, 3) and (not noted(a, 4) or noted(b, 5)):
        return -peek(PLACE)
    return peek(PLACE)
""",
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_mean_what_they_mean_in_python(name):
    memory = np.zeros(1, np.int64)
    source = f"PLACE = {memory.ctypes.data}\n{STATEMENTS[name]}"
    python = {"peek": lambda address: int(memory[0]), "poke": lambda address, value: memory.put(0, value)}
    exec(source, python)
    compiled = function(source, "f", 2)
    for a in range(6):
        for b in range(1, 6):
            assert compiled(a, b) == python["f"](a, b), (a, b)


def test_another_type_in_a_branch_is_refused():
    source = "def f(a, b):\n    x = f4(1)\n    if a:\n        x = 1\n"
    with pytest.raises(AssertionError, match="another type: if a"):
        optimised(source, "kernel", target())


ATOMIC = """
def add(address, times):
    for _ in range(times):
        fetch_add(address, 2)
        fetch_add(address, -1)


def count(address, times):
    done = 0
    while done < times:
        old = peek(address)
        if swap(address, old, old + 1):
            done += 1


def take(address, value) -> int:
    return exchange(address, value)


def put(address, value):
    poke(address, value)
"""


@pytest.mark.parametrize("name", ["add", "count"])
def test_no_thread_comes_between(name):
    memory = np.zeros(1, np.int64)
    times = function(ATOMIC, name, 2)
    threads = [threading.Thread(target=times, args=(memory.ctypes.data, 300_000)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory[0] == 900_000


def test_exchange_returns_what_was_there():
    memory = np.array([7])
    assert function(ATOMIC, "take", 2)(memory.ctypes.data, 9) == 7
    assert memory[0] == 9


def test_the_order_in_which_other_threads_see_memory():
    """On x86 most of it costs nothing, and could be lost without a test noticing."""
    code = str(optimised(ATOMIC, "kernel", target()))
    for wanted in (
        r"atomicrmw add [^\n]* seq_cst", r"atomicrmw xchg [^\n]* seq_cst", r"cmpxchg [^\n]* seq_cst seq_cst",
        r"load atomic i64[^\n]* acquire", r"store atomic i64[^\n]* release",
    ):  # fmt: skip
        assert re.search(wanted, code), wanted


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_are_numpys_and_vectorised(name, kind):
    values = np.array([1.5, -2.0, *SPECIAL], TYPES[kind])
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    np.testing.assert_array_equal(elementwise(f"{name}(a, b)", a, b, to=kind), getattr(np, name)(a, b))
    code = str(optimised(elementwise_source(f"{name}(a, b)", 1000, kind, kind, to=kind), "kernel", target()))
    assert re.search(rf"(llvm\.{name}|select)[^\n]*<\d+ x (float|double)>", code)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize(("accumulate", "instruction"), [("plus", "fadd reassoc"), ("maximum", "maximum")])
def test_reductions_are_vectorised(accumulate, instruction, kind):
    source = f"""def run(part, parts, scratch, table):
    x = pointer(table, 0, {kind})
    y = pointer(table, 1, {kind})
    total = {kind}(0)
    for j in range(1000):
        total = {accumulate}(total, load(x, j, 0, 2))
    store(y, 0, total, 1, 2)
"""
    assert re.search(rf"{instruction}[^\n]*<\d+ x (float|double)>", str(optimised(source, "kernel", target())))


def reduced(reduce, row):
    """Reduce a row in a kernel; that of -x is one, that of x alone need not be."""
    return minigrad.compile(lambda x: reduce(-x), backend="llvm")(row)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 2, 7, 8, 31, 33, 64, 100, 1000, 5000])
def test_the_maximum_of_a_row_is_numpys(n, kind):
    row = np.random.default_rng(0).standard_normal(n).astype(TYPES[kind])
    greatest = minigrad.compile(lambda x: np.max(-x), backend="llvm")
    for place in {0, n // 3, n // 2, n - 1}:
        for value in (-9, np.inf, np.nan, -np.inf):
            changed = row.copy()
            changed[place] = value
            np.testing.assert_equal(greatest(changed), np.max(-changed))
    np.testing.assert_equal(greatest(np.full_like(row, np.inf)), -np.inf)


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_sums_of_long_rows_stay_accurate(kind):
    rng = np.random.default_rng(0)
    eps = float(np.finfo(TYPES[kind]).eps)
    for n in (1, 5, 100, 4095, 4096, 4097, 30_000, 2**21 + 3):
        row = rng.uniform(0.05, 0.15, n).astype(TYPES[kind])
        wanted = math.fsum(row.tolist())
        assert abs(reduced(np.sum, row) + wanted) <= 8 * eps * wanted
    one_after_the_other = float(np.cumsum(row)[-1])
    assert abs(one_after_the_other - wanted) > 8 * eps * wanted, "the bound is one that can be missed"


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_sums_of_infinities(kind):
    row = np.ones(10_000, TYPES[kind])
    row[5000] = np.inf
    assert reduced(np.sum, row) == -np.inf
    row[100] = -np.inf
    with np.errstate(invalid="ignore"):  # NumPy's warning, while it is traced
        assert np.isnan(reduced(np.sum, row))
    row[[100, 5000]] = np.nan, 1
    assert np.isnan(reduced(np.sum, row))
