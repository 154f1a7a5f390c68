"""The compiler of kernels: each construct of its language against NumPy, and code that is kept on disk."""

import ctypes

import numpy as np
import pytest

pytest.importorskip("numba")

from minigrad.compiler import kernel_cache
from minigrad.compiler.kernel_cache import kernel_module

TYPES = {"f4": np.float32, "f8": np.float64, "i8": np.int64, "i4": np.int32, "b1": np.bool_}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "cache_folder", lambda: tmp_path)
    kernel_module.cache_clear()
    yield tmp_path
    kernel_module.cache_clear()


def call(kernel, *arrays, part=0, parts=1):
    table = np.array([a.ctypes.data for a in arrays], np.int64)
    scratch = np.zeros(64, np.int64)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(kernel.run.address)
    function(part, parts, scratch.ctypes.data, table.ctypes.data)


def elementwise(expression, *arrays, to):
    """Compute an expression of a, b, ... for each element."""
    names = "abc"[: len(arrays)]
    kinds = [next(k for k, t in TYPES.items() if t == x.dtype) for x in arrays]
    lines = [f"    m{i} = pointer(table, {i}, {kind})" for i, kind in enumerate([*kinds, to])]
    lines.append(f"    for j in range({arrays[0].size}):")
    n = len(arrays)
    lines += [f"        {name} = load(m{i}, j, {i}, {n + 1})" for i, name in enumerate(names)]
    lines.append(f"        store(m{n}, j, {expression}, {n}, {n + 1})")
    out = np.empty(arrays[0].shape, TYPES[to])
    call(kernel_module("\n".join(["def run(part, parts, scratch, table):", *lines, ""])), *arrays, out)
    return out


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
    call(kernel_module(source), x, y, part=1, parts=3)
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
    call(kernel_module(source), a, b)
    np.testing.assert_array_equal(a, x * x)
    np.testing.assert_array_equal(b, y * y)


def test_code_is_read_from_disk_and_made_anew_where_it_is_damaged(own_cache, monkeypatch):
    made = []
    compile_source = kernel_cache.compile_source
    monkeypatch.setattr(kernel_cache, "compile_source", lambda *args: made.append(args) or compile_source(*args))
    x = np.random.default_rng(6).normal(size=5)

    def triple():
        kernel_module.cache_clear()
        kernel_cache._engine.cache_clear()
        np.testing.assert_array_equal(elementwise("a * f8(3)", x, to="f8"), x * 3)

    triple()
    triple()
    assert len(made) == 1
    (file,) = own_cache.iterdir()
    for damaged in (b"", file.read_bytes()[:-1], file.read_bytes().replace(b"ELF", b"FLE") + b"x"):
        n = len(made)
        file.write_bytes(damaged)
        triple()
        assert len(made) == n + 1
