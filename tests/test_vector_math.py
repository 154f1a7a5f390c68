"""The functions of compiled kernels: their error in ulp, the ends of the number line, and vector code.

The references are NumPy's in a wider type: float64 for float32, the machine's long double for float64.
"""

import functools
import math
import re

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from minigrad.compiler import vector_math  # noqa: E402

KERNEL_FLAGS = frozenset({"reassoc", "contract", "nsz", "arcp"})
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
WIDER = {np.float32: np.float64, np.float64: np.longdouble}
# Where long double is no wider than float64, the reference has an error of its own.
BOUND = {np.float32: 2.0, np.float64: 2.0 if np.finfo(np.longdouble).nmant > 52 else 3.0}


def sigmoid(x):
    """The reference; exp(-|x|) does not overflow."""
    small = np.exp(-abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def erf(x):
    """The reference: 2/sqrt(pi) x exp(-x**2) (1 + 2x**2/3 + (2x**2)**2/15 + ...), all terms positive."""
    size = np.minimum(abs(x), 7)
    total = term = np.ones_like(x)
    for n in range(1, 250):
        term = term * (2 * size * size) / (2 * n + 1)
        total = total + term
    pi = 4 * np.arctan(x.dtype.type(1))
    return np.copysign(2 / np.sqrt(pi) * size * np.exp(-size * size) * total, x)


REFERENCES = {
    "erf": erf,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}
NAMES = pytest.mark.parametrize("name", sorted(REFERENCES))


@functools.cache
def loop(name, flags=KERNEL_FLAGS):
    """A kernel that applies a function to each element of an array."""
    function = getattr(vector_math, name)

    @numba.njit(error_model="numpy", fastmath=set(flags) or False)
    def kernel(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    return kernel


def apply(name, x, flags=KERNEL_FLAGS):
    """Call the kernel on an array."""
    out = np.empty_like(x)
    loop(name, flags)(x, out)
    return out


# Where a search through all float32 found the largest errors, of these formulas or of simpler ones.
HARD = [-1.1218764, -0.3448082, 0.12510899, 0.17305370, 0.39264706, 0.43415293, 0.5189192, 0.91968864]


def samples(dtype):
    """Numbers of all sizes, many near 0 and 1, the ends of each function's range, infinities and NaN."""
    rng = np.random.default_rng(5)
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    info = np.finfo(dtype)
    anywhere = rng.integers(0, np.iinfo(bits).max, 20_000, dtype=bits, endpoint=True).view(dtype)
    large = math.log(float(info.max))
    least = float(info.smallest_subnormal)
    intervals = [(-1, 1), (-6, 6), (-0.5, 2), (-1.2 * large, 1.1 * large)]
    uniform = [rng.uniform(low, high, 4000) for low, high in intervals]
    ends = [large, -large, math.log(float(info.tiny)), math.log(least), 1, -1, 0.92, 6]
    near_ends = [np.linspace(end - 1e-4, end + 1e-4, 101) for end in ends]
    exact = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, least, -least, *HARD]
    exact += [float(info.max), float(info.tiny), float(info.eps), 1 - float(info.epsneg)]
    return np.concatenate([anywhere, *[np.asarray(part, dtype) for part in (*uniform, *near_ends, exact)]])


def reference(name, x):
    """The value in the wider type."""
    with np.errstate(all="ignore"):
        return REFERENCES[name](x.astype(WIDER[x.dtype.type]))


def ulps(y, wanted):
    """The distance of a result in units of its last place; infinities and NaN have to be equal."""
    info = np.finfo(y.dtype)
    wide = wanted.dtype.type
    with np.errstate(all="ignore"):
        rounded = wanted.astype(y.dtype)
        unit = np.ldexp(wide(1), np.frexp(wanted)[1] - (info.nmant + 1))
        distance = abs(y.astype(wide) - wanted) / np.maximum(unit, wide(info.smallest_subnormal))
    equal = (y == rounded) | (np.isnan(y) & np.isnan(rounded))
    return np.where(np.isfinite(distance), distance, np.where(equal, 0, np.inf))


@DTYPES
@NAMES
def test_error_is_at_most_two_ulp(name, dtype):
    x = samples(dtype)
    y = apply(name, x)
    error = ulps(y, reference(name, x))
    worst = np.argmax(error)
    assert error[worst] <= BOUND[dtype], f"{name}({x[worst]!r}) = {y[worst]!r}: {error[worst]:.2f} ulp"


@DTYPES
@NAMES
def test_ends_are_exact(name, dtype):
    """Where the value is a number of the type, it is the result, with its sign."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.0, 1e30, -1e30, 1e-30, -1e-30], dtype)
    wanted = reference(name, x)
    exact = (wanted == wanted.astype(dtype)) | np.isnan(wanted)
    got = apply(name, x)
    np.testing.assert_array_equal(got[exact], wanted[exact].astype(dtype))
    known = exact & ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])
    assert known[0], "f(0) is such a value for all of them"


@DTYPES
def test_odd_functions_are_odd(dtype):
    x = samples(dtype)
    for name in ("erf", "tanh"):
        np.testing.assert_array_equal(apply(name, -x), -apply(name, x))


@NAMES
def test_results_do_not_depend_on_the_flags_of_the_kernel(name):
    """`reassoc` would make x of (x + c) - c; other instructions of the kernel do have it."""
    for dtype in (np.float32, np.float64):
        x = samples(dtype)
        plain = apply(name, x, flags=frozenset())
        flagged = apply(name, x)
        np.testing.assert_array_equal(plain, flagged)
        zero = plain == 0
        np.testing.assert_array_equal(np.signbit(plain[zero]), np.signbit(flagged[zero]))


def vectorised(kernel, instruction):
    """Whether all versions of an optimised kernel have the instruction on vectors, by LLVM's own account."""
    versions = kernel.inspect_llvm().values()
    return all(re.search(rf"{instruction}[^\n]*<\d+ x (float|double)>", code) for code in versions)


@NAMES
def test_loops_are_vectorised(name):
    kernel = loop(name)
    apply(name, np.ones(3, np.float32))
    assert vectorised(kernel, "fmul contract")


@DTYPES
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_are_numpys(name, dtype):
    values = np.array([1.5, -2.0, np.inf, -np.inf, np.nan, 0.0], dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    function = getattr(vector_math, name)

    @numba.njit(fastmath=set(KERNEL_FLAGS))
    def kernel(x, y, out):
        for i in range(x.size):
            out[i] = function(x[i], y[i])

    out = np.empty_like(x)
    kernel(x, y, out)
    np.testing.assert_array_equal(out, getattr(np, name)(x, y))
    assert vectorised(kernel, name) or vectorised(kernel, "select")


@DTYPES
def test_row_max_is_numpys_and_vectorised(dtype):
    rng = np.random.default_rng(0)
    row_max = vector_math.row_max
    for n in (1, 2, 7, 8, 31, 33, 64, 100, 1000):
        row = rng.standard_normal(n).astype(dtype)
        for place in {0, n // 3, n // 2, n - 1}:
            for value in (9, np.inf, np.nan, -np.inf):
                changed = row.copy()
                changed[place] = value
                np.testing.assert_equal(row_max(changed), np.max(changed))
        assert type(row_max(row)) is float  # numba returns Python's
    assert row_max(np.full(40, -np.inf, dtype)) == -np.inf
    assert row_max(np.empty(0, dtype)) == -np.inf
    assert vectorised(row_max, "maximum")


@DTYPES
def test_row_sum_is_vectorised_and_stays_accurate_in_long_rows(dtype):
    rng = np.random.default_rng(0)
    eps = float(np.finfo(dtype).eps)
    for n in (0, 1, 5, 100, 4095, 4096, 4097, 30_000, 2**21 + 3):
        row = rng.uniform(0.05, 0.15, n).astype(dtype)
        wanted = math.fsum(row.tolist())
        assert abs(vector_math.row_sum(row) - wanted) <= 8 * eps * wanted
    assert vectorised(vector_math.row_sum, "fadd reassoc")
    one_after_the_other = float(np.cumsum(row)[-1])
    assert abs(one_after_the_other - wanted) > 8 * eps * wanted, "the bound is one that can be missed"


@DTYPES
def test_row_sum_of_infinities(dtype):
    row = np.ones(10_000, dtype)
    row[5000] = np.inf
    assert vector_math.row_sum(row) == np.inf
    row[100] = -np.inf
    assert math.isnan(vector_math.row_sum(row))
    assert math.isnan(vector_math.row_sum(np.array([1, np.nan, 2], dtype)))
    assert vector_math.row_sum(np.full(8192, np.finfo(dtype).max, dtype)) == np.inf


def test_integers_are_refused():
    with pytest.raises(numba.TypingError, match="exp takes float32 or float64, got int64: cast first"):
        apply("exp", np.arange(3))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'cosh'"):
        _ = vector_math.cosh
