"""The formulas of compiled kernels: their error in ulp, the ends of the number line, and vector code.

The references are NumPy's in a wider type: float64 for float32, the machine's long double for float64.
"""

import math
import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from kernels import NAMES as KINDS
from kernels import elementwise, elementwise_source
from minigrad.compiler.kernel_compiler import optimised, target
from minigrad.compiler.vector_math import FORMULAS

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
WIDER = {np.float32: np.float64, np.float64: np.longdouble}
# Where long double is no wider than float64, the reference has an error of its own.
BOUND = {np.float32: 2.0, np.float64: 2.0 if np.finfo(np.longdouble).nmant > 52 else 3.0}


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
    "tanh": np.tanh,
}
NAMES = pytest.mark.parametrize("name", sorted(REFERENCES))


def apply(name, x):
    """Compute a function in a kernel."""
    return elementwise(f"{name}(a)", x, to=KINDS[x.dtype])


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


def test_every_formula_is_tested():
    assert set(FORMULAS) == set(REFERENCES)


@DTYPES
@NAMES
def test_sums_in_any_order_around_a_formula_leave_it_as_it_is(name, dtype):
    """`reassoc`, which `plus` has, would make x of (x + c) - c within the formula."""
    x = samples(dtype)
    zero, kind = np.zeros_like(x), KINDS[x.dtype]
    wanted = apply(name, x) + zero  # 0 for -0
    np.testing.assert_array_equal(elementwise(f"plus({name}(plus(a, b)), b)", x, zero, to=kind), wanted)


@DTYPES
@NAMES
def test_loops_are_vectorised(name, dtype):
    kind = KINDS[np.dtype(dtype)]
    code = str(optimised(elementwise_source(f"{name}(a)", 1000, kind, to=kind), "kernel", target()))
    assert re.search(r"fmul contract <\d+ x (float|double)>", code)
    assert not re.search(r"fmul contract (float|double)", code), "and nothing of it is left for the end"
