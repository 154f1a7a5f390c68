"""Elementary functions as formulas that LLVM turns into vector code.

A call of the C library's exp keeps a loop scalar. These functions are sums, products and selections written straight
into a kernel, so that a plain loop over them is vectorised as it stands.

They take a float32 or float64 of the running kernel and return the same. The error is at most 2 ulp, for results below
the least normal number too. NaN, infinities and the sign of zero are NumPy's. sin and cos are not here: large arguments
need a branch.

The largest error found, in ulp: in float32 among all arguments from 2**-26 to 2**7 (log: 1/8 to 8) and one in 61 of the
others, in float64 among 10**7 where it is largest.

              float32   float64
    erf          1.19      1.17
    exp          0.96      0.86
    expm1        1.60      1.83
    log          0.83      0.85
    log1p        1.39      1.42
    tanh         1.67      1.60
"""

from __future__ import annotations

import math

from minigrad.compiler.llvm_value import Bits, Value, polynomial

__all__ = ["FORMULAS"]

# The polynomials are minimax, by Remez's exchange in 45 digits, their coefficients then rounded: highest
# power first, by the width of the type. Beside each is its largest error, relative to what it is used for.

_EXP = {  # (exp(r) - 1 - r) / r**2, |r| <= log(2)/2, ending in exactly 1/2: expm1 to 2**-25.7 and 2**-59.8
    32: (1.393990242e-3, 8.365266956e-3, 4.166641086e-2, 0.1666655689, 0.5),
    64: (
        2.092208892166114e-09, 2.510607887009707e-08, 2.755725147949078e-07, 2.7557253252930327e-06,
        2.4801587348598643e-05, 0.00019841269876465578, 0.0013888888888874183, 0.008333333333325789,
        0.041666666666666685, 0.1666666666666667, 0.5,
    ),
}  # fmt: skip
_LOG = {  # (2 artanh(s) - 2 s) / s**3 in s**2, s**2 <= 0.02945: log to 2**-34 and 2**-58
    32: (0.2285831869, 0.2857755125, 0.3999966979, 0.6666666865),
    64: (
        0.14721383390658324, 0.15321841247915474, 0.1818324442817012, 0.2222220507914847,
        0.2857142867485631, 0.3999999999974135, 0.6666666666666681,
    ),
}  # fmt: skip
_ERF_NEAR = {  # erf(x) / x - 1 in x**2, x <= _ERF_SPLIT: erf to 2**-25.1 and 2**-55.1
    32: (-5.999406567e-4, 4.994830582e-3, -2.676771954e-2, 0.1128184572, -0.3761249781, 0.1283791512),
    64: (
        -7.779469609801253e-10, 1.3710981017242605e-08, -1.6206313906212355e-07, 1.6447131591208226e-06,
        -1.4924712303682639e-05, 0.0001205529357699116, -0.0008548325929317657, 0.005223977606118543,
        -0.026866170643111476, 0.11283791670944185, -0.3761263890318352, 0.12837916709551256,
    ),
}  # fmt: skip
_ERF_FAR = {  # -log(erfc(x)) / x - 1, _ERF_SPLIT <= x <= _ERF_ONE: erf to 2**-27.0 and 2**-56.3
    32: (-2.139849385e-4, 3.214955563e-3, -2.288996428e-2, 0.1052618474, 0.635718286, 0.1285143644),
    64: (
        -1.5189065256454025e-12, 6.745024750415781e-11, -1.402476375077861e-09, 1.8131392677864528e-08,
        -1.6302898232385438e-07, 1.0781552583519342e-06, -5.3853460762479865e-06, 2.0351652296355445e-05,
        -5.6039144434084244e-05, 9.548758118060974e-05, -9.76215196847818e-07, -0.0005746572191134378,
        0.0016926066469222566, -0.00021203559882356486, -0.019124965056854744, 0.10277082719353683,
        0.6366202526590542, 0.12837911085963327,
    ),
}  # fmt: skip
_ERF_SPLIT = {32: 0.92, 64: 1.0}
_ERF_ONE = {32: 4.0, 64: 6.0}  # erf is 1 from here on, to the last bit

_LOG2_E = 1 / math.log(2)
_LN2_HIGH = {32: 0x162E4 / 2**17, 64: 0x162E42FEE / 2**33}  # log(2) to 15 and 32 bits: times n, it is exact
_LN2_LOW = {32: 1.4286068203094173e-06, 64: 1.9082149292705877e-10}  # the rest
_SQRT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)


def _round_to(x: Value, shift: int) -> float:
    """Return the number c for which x + c holds x, rounded, plus bias and shift in its lowest bits."""
    return float(1.5 * 2**x.digits + x.bias + shift)


def _reduce(x: Value, c: Value | float) -> tuple[Value, Value, Value]:
    """Return r and t, with x = n log(2) + r - t and |r - t| <= log(2)/2, and 2**(n + shift).

    c is _round_to(x, shift). The sum x/log(2) + c has no room for a fraction: it rounds to the nearest n, and
    its lowest bits are the field of an exponent, which is shifted to its place (the result is 0 if n + shift
    is -bias). t is n times the low bits of log(2).
    """
    total = x * _LOG2_E + c
    n = total - c
    scale = (total.bits() << x.digits).value()
    return x - n * _LN2_HIGH[x.width], n * _LN2_LOW[x.width], scale


def exp(x: Value) -> Value:
    """Return e**x."""
    # One factor 2**n cannot reach from the least subnormal to the largest number: if x > 0 take 2**(n-1) and
    # 2, else 2**(n+d) and 2**-d. At the lower bound the factor is 0 and the result exactly 0: the -inf of a
    # mask costs no slow arithmetic on subnormal numbers. At the upper bound the last product is inf.
    d = x.digits + 1
    up = x > 0
    x = x.at_least(-(x.bias + d) / _LOG2_E).at_most((x.bias + 1.4) / _LOG2_E)
    r, t, scale = _reduce(x, x.choose(up, _round_to(x, -1), _round_to(x, d)))
    r = r - t
    return ((polynomial(r, _EXP[x.width]) * r + 1) * r + 1) * scale * x.choose(up, 2.0, 2.0**-d)


def _expm1_near(r: Value) -> Value:
    return r + r * r * polynomial(r, _EXP[r.width])


def expm1(x: Value) -> Value:
    """Return e**x - 1."""
    # 2**n (1 + q) - 1, halved so that 2**(n-1) does not overflow. Beyond the lower bound the result is -1.
    inside = x.at_least(-(x.digits + 4) / _LOG2_E).at_most((x.bias + 1.4) / _LOG2_E)
    r, t, half = _reduce(inside, _round_to(x, -1))
    y = (half * _expm1_near(r - t) + (half - 0.5)) * 2
    return x.choose(abs(x) < 2.0 ** -(x.digits + 2), x, y)  # and -0 stays -0


def tanh(x: Value) -> Value:
    """Return the hyperbolic tangent."""
    # With exp(-2|x|) = 2**n (1 + q) and h = (1 - 2**n - 2**n q) / 2 it is y = h / (1 - h). The quotient has
    # too many rounding errors; in y = h + h y they count less. What h lost to rounding is added, times about
    # dy/dh.
    r, t, half = _reduce((abs(x) * -2).at_least(-(x.digits + 4) / _LOG2_E), _round_to(x, -1))
    part = half * _expm1_near(r - t)
    rest = 0.5 - half
    h = rest - part
    y = h / (0.5 + half + part)
    return (h + (h * y + ((rest - h) - part) * 1.5)).with_sign_of(x)


def _split(x: Value) -> tuple[Value, Value, Bits]:
    """Return n and f, with x = 2**n (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2), and bits of exponent n.

    x is a normal number above 0. To make a float of n + bias, its bits become the last ones of 2**digits.
    """
    one, root = x.bias << x.digits, _SQRT_HALF[x.width]
    bits = x.bits() + (one - root)
    n = ((bits >> x.digits) | (x.bias + x.digits << x.digits)).value() - (2.0**x.digits + x.bias)
    return n, ((bits & ((1 << x.digits) - 1)) + root).value() - 1, bits


def _log_of_split(n: Value, f: Value) -> Value:
    """Return n log(2) + log(1 + f).

    log(1 + f) = 2 artanh(s) with s = f / (2 + f), summed as f - (f**2/2 - s (f**2/2 + ...)) because f is
    exact: the arrangement of fdlibm's e_log.c (Sun Microsystems 1993).
    """
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    series = s * (half + z * polynomial(z, _LOG[f.width])) + n * _LN2_LOW[f.width]
    return n * _LN2_HIGH[f.width] - ((half - series) - f)


def _ends_of_log(x: Value, y: Value, pole: float) -> Value:
    """Return y, -inf at the pole, NaN below it, and infinity and NaN themselves."""
    outside = x.choose(x.compare("==", pole), -math.inf, math.nan)
    return x.choose(x > pole, x.choose(x < math.inf, y, x), outside)


def log(x: Value) -> Value:
    """Return the natural logarithm."""
    subnormal = x < 2.0 ** (1 - x.bias)
    n, f, _ = _split(x.choose(subnormal, x * 2.0**x.digits, x))
    return _ends_of_log(x, _log_of_split(n - x.choose(subnormal, x.digits, 0.0), f), 0.0)


def log1p(x: Value) -> Value:
    """Return log(1 + x)."""
    # What 1 + x loses to rounding joins f, times 2**-n; where n is 0 that makes f exactly x. It is half of it
    # times 2**(1-n), because the field of that exponent is never below 0.
    total = 1 + x
    lost = x - (total - 1)
    n, f, bits = _split(total)
    field = (1 << x.width - 1) - (1 << x.digits)
    scale = ((2 * x.bias + 1 << x.digits) - (bits & field)).value()
    y = _log_of_split(n, f + lost * 0.5 * scale)
    return x.choose(abs(x) < 2.0 ** -(x.digits + 2), x, _ends_of_log(x, y, -1.0))  # and -0 stays -0


def erf(x: Value) -> Value:
    """Return the error function."""
    size = abs(x).at_most(_ERF_ONE[x.width])
    near = size + size * polynomial(size * size, _ERF_NEAR[x.width])
    r, t, scale = _reduce(-size - size * polynomial(size, _ERF_FAR[x.width]), _round_to(x, 0))
    r = r - t
    far = 1 - ((polynomial(r, _EXP[x.width]) * r + 1) * r + 1) * scale
    return x.choose(size < _ERF_SPLIT[x.width], near, far).with_sign_of(x)


FORMULAS = {f.__name__: f for f in (erf, exp, expm1, log, log1p, tanh)}
