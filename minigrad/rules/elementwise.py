"""Elementwise functions. Broadcasting is undone by the reverse loop, so that no rule mentions it.

A rule's parameters say what is kept: g the gradient of the result, out the result, x and y the inputs.
Complex numbers: for dL = Re(sum(g dx)), g is the gradient; holomorphic rules then need no conjugates.
"""

from math import log as _log
from math import pi

import numpy as np

from minigrad.op import Op, available, composite, define

LN2, LN10 = _log(2), _log(10)


def elementwise(function, inputs, *adjoints, **options):
    """Define an elementwise op."""
    return define(function, inputs, *adjoints, kind="elementwise", **options)


# --- arithmetic
elementwise(np.add, "x y", lambda g: g, lambda g: g)
elementwise(np.subtract, "x y", lambda g: g, lambda g: -g)
elementwise(np.multiply, "x y", lambda g, y: g * y, lambda g, x: g * x)
elementwise(np.divide, "x y", lambda g, y: g / y, lambda g, y, out: -g * out / y)
elementwise(np.negative, "x", lambda g: -g)
elementwise(np.positive, "x", lambda g: g)
elementwise(np.reciprocal, "x", lambda g, out: -g * out * out)
elementwise(np.square, "x", lambda g, x: g * (2 * x))
elementwise(np.sqrt, "x", lambda g, out: g / (2 * out))
elementwise(np.cbrt, "x", lambda g, out: g / (3 * (out * out)))
elementwise(np.remainder, "x y", lambda g: g, lambda g, x, y: -g * np.floor_divide(x, y))
# The quotient is that of the remainder: trunc(1 / 0.1) is 10, but fmod(1, 0.1) is 1 - 9 * 0.1.
elementwise(np.fmod, "x y", lambda g: g, lambda g, x, y, out: -g * np.rint((x - out) / y))
composite(np.divmod)(lambda x, y: (np.floor_divide(x, y), np.remainder(x, y)))


def power_base_adjoint(g, x, y):
    """y x**(y-1), and 0 for 0**0: x**0 is constant."""
    if np.ndim(y) == 0 and isinstance(y, (int, float)):
        if y == 2:
            return g * (2 * x)
        return g * (y * np.power(x, y - 1)) if y != 0 else g * 0
    flat = np.equal(y, 0) & np.equal(x, 0)
    return g * (y * np.power(x, np.where(flat, 1, y - 1)))


def power_exponent_adjoint(g, x, y, out):
    """out log(x), and 0 where x is 0: 0**y is constant for y > 0. Of a small integer, np.log is a float16."""
    zero = np.equal(x, 0)
    return g * (out * np.where(zero, 0, np.log(np.where(zero, 1, x).astype(out.dtype))))


elementwise(np.power, "x y", power_base_adjoint, power_exponent_adjoint)
elementwise(np.float_power, "x y", power_base_adjoint, power_exponent_adjoint)

# --- exponentials and logarithms
elementwise(np.exp, "x", lambda g, out: g * out)
elementwise(np.exp2, "x", lambda g, out: g * (out * LN2))
elementwise(np.expm1, "x", lambda g, out: g * (out + 1))
elementwise(np.log, "x", lambda g, x: g / x)
elementwise(np.log2, "x", lambda g, x: g / (x * LN2))
elementwise(np.log10, "x", lambda g, x: g / (x * LN10))
elementwise(np.log1p, "x", lambda g, x: g / (x + 1))


def share(x, out, exp):
    """Return exp(x - out), and 0 where both are -inf: an operand of -inf has no share in the sum."""
    difference = np.where(np.equal(x, out), 0, x - np.where(np.equal(x, out), 0, out))
    return np.where(np.equal(x, -np.inf), 0, exp(np.where(np.equal(x, out), 0, difference)))


elementwise(
    np.logaddexp,
    "x y",
    lambda g, x, out: g * share(x, out, np.exp),
    lambda g, y, out: g * share(y, out, np.exp),
)
elementwise(
    np.logaddexp2,
    "x y",
    lambda g, x, out: g * share(x, out, np.exp2),
    lambda g, y, out: g * share(y, out, np.exp2),
)

# --- trigonometric and hyperbolic


def root_of_one_minus_square(x):
    """sqrt(1 - x**2). Beyond 1 it has a cut, whose side depends on the sign of a zero: 1 + 0j would lose it.

    Of real numbers near 1 the square would lose the last digits, which are all that is left of 1 - x**2.
    """
    return np.sqrt(complex(1, -0.0) - x * x if np.iscomplexobj(x) else (1 - x) * (1 + x))


elementwise(np.sin, "x", lambda g, x: g * np.cos(x))
elementwise(np.cos, "x", lambda g, x: -g * np.sin(x))
elementwise(np.tan, "x", lambda g, out: g * (1 + out * out))
elementwise(np.arcsin, "x", lambda g, x: g / root_of_one_minus_square(x))
elementwise(np.arccos, "x", lambda g, x: -g / root_of_one_minus_square(x))
elementwise(np.arctan, "x", lambda g, x: g / (1 + x * x))
elementwise(np.sinh, "x", lambda g, x: g * np.cosh(x))
elementwise(np.cosh, "x", lambda g, x: g * np.sinh(x))
elementwise(np.tanh, "x", lambda g, out: g * (1 - out * out))
elementwise(np.arcsinh, "x", lambda g, x: g / np.sqrt(x * x + 1))
elementwise(np.arccosh, "x", lambda g, x: g / (np.sqrt(x - 1) * np.sqrt(x + 1)))
elementwise(np.arctanh, "x", lambda g, x: g / ((1 - x) * (1 + x)))


def radius(x, y):
    """Return the distance from the origin, and 1 there: what is divided by it is 0 then."""
    size = np.hypot(x, y)
    return np.where(np.equal(size, 0), 1, size)


# Divide twice by the radius rather than once by its square, which underflows for tiny and overflows for large x.
elementwise(
    np.arctan2,
    "y x",
    lambda g, y, x: g * (x / radius(x, y)) / radius(x, y),
    lambda g, y, x: -g * (y / radius(x, y)) / radius(x, y),
)


def hypot_adjoint(g, x, out):
    """x / out, and 0 at the origin."""
    return g * (x / np.where(np.equal(out, 0), 1, out))


elementwise(np.hypot, "x y", hypot_adjoint, lambda g, y, out: hypot_adjoint(g, y, out))
for _function in (np.deg2rad, np.radians):
    elementwise(_function, "x", lambda g: g * (pi / 180))
for _function in (np.rad2deg, np.degrees):
    elementwise(_function, "x", lambda g: g * (180 / pi))


def sinc_adjoint(g, x):
    """(cos(pi x) - sinc(x)) / x, and its series near 0, where the difference would lose every digit."""
    near = np.abs(x) < 1e-2
    z = pi * pi * x * x
    series = -(pi * pi) * x * (1 / 3 - z * (1 / 30 - z * (1 / 840 - z / 45360)))
    apart = np.where(near, 1, x)
    return g * np.where(near, series, (np.cos(pi * apart) - np.sinc(apart)) / apart)


elementwise(np.sinc, "x", sinc_adjoint)


def bessel_value(x, *, order):
    """The modified Bessel function of the first kind: the mean of cos(order t) exp(x cos t) over a circle.

    For a periodic integrand the trapezoidal rule converges exponentially: 256 points do for any finite result.
    """
    t = np.arange(256) * (2 * pi / 256)
    x = np.asarray(x)
    return np.mean(np.cos(order * t) * np.exp(x[..., None] * np.cos(t)), axis=-1).astype(x.dtype)[()]


bessel = Op(
    bessel_value,
    "x",
    (lambda g, x, order: g * (bessel(x, order=abs(order - 1)) + bessel(x, order=order + 1)) / 2,),
    "the modified Bessel function",
    kind="elementwise",
)
elementwise(np.i0, "x", lambda g, x: g * bessel(x, order=1))

# --- kinks: the conventions are in docs/conventions.md
elementwise(np.absolute, "x", lambda g, x: g * np.conj(np.sign(x)))


def sign_adjoint(g, x, out):
    """Of a complex number, the direction x / |x| turns with the part of dx that is at right angles to it."""
    if out.dtype.kind != "c":
        return None
    size = np.abs(x)
    return (g - np.real(g * out) * np.conj(out)) / np.where(np.equal(size, 0), 1, size) * np.not_equal(size, 0)


elementwise(np.sign, "x", sign_adjoint)
elementwise(np.fabs, "x", lambda g, x: g * np.sign(x))


def _winner(wins):
    """Return the adjoint of a choice between two values: g to the one that won, half to each when they are equal."""

    def first(g, x, y):
        return g * (wins(x, y) + 0.5 * np.equal(x, y)).astype(g.dtype)

    def second(g, x, y):
        return g * (wins(y, x) + 0.5 * np.equal(x, y)).astype(g.dtype)

    return first, second


elementwise(np.maximum, "x y", *_winner(np.greater))
elementwise(np.minimum, "x y", *_winner(np.less))
elementwise(np.fmax, "x y", *_winner(lambda x, y: np.greater(x, y) | (np.isnan(y) & ~np.isnan(x))))
elementwise(np.fmin, "x y", *_winner(lambda x, y: np.less(x, y) | (np.isnan(y) & ~np.isnan(x))))


def _clip_bind(a, a_min=None, a_max=None, *out, min=None, max=None):  # NumPy's own names; out may stand fourth
    return (a, a_min if min is None else min, a_max if max is None else max), {"out": out[0]} if out else {}


def _clip_inside(g, x, lo, hi):
    inside = np.True_
    if lo is not None:
        inside = inside & np.greater_equal(x, lo)
    if hi is not None:
        inside = inside & np.less_equal(x, hi)
    return np.where(inside, g, 0)


def _clip_low(g, x, lo, hi):
    return np.where(np.less(x, lo) if hi is None else np.less(x, lo) & np.less_equal(lo, hi), g, 0)


def _clip_high(g, x, lo, hi):
    return np.where(np.greater(x, hi) if lo is None else np.greater(x, hi) | np.greater(lo, hi), g, 0)


elementwise(
    np.clip,
    "x lo hi",
    _clip_inside,
    _clip_low,
    _clip_high,
    bind=_clip_bind,
    call=lambda x, lo, hi: np.clip(x, lo, hi),
)
elementwise(
    np.where,
    "condition x y",
    None,
    lambda g, condition: np.where(condition, g, 0),
    lambda g, condition: np.where(condition, 0, g),
)
_nan_to_num = Op(
    np.nan_to_num, "x", (lambda g, x: np.where(np.isfinite(x), g, 0),), "np.nan_to_num", kind="elementwise"
)


@composite(np.nan_to_num)
def nan_to_num(x, copy=True, **replacements):
    """Replace what is not finite; with copy=False, in place."""
    out = _nan_to_num(x, **replacements)
    if copy:
        return out
    x[...] = out
    return x


elementwise(np.copysign, "x y", lambda g, x, y: g * np.where(np.signbit(x) == np.signbit(y), 1, -1), None)
elementwise(np.ldexp, "x n", lambda g, n: np.ldexp(g, n), None)
elementwise(np.nextafter, "x y", lambda g: g, None)
define(np.modf, "x", lambda g: g[0])
_exponent = Op(lambda x: np.frexp(x)[1], "x", (None,), "np.frexp")


@composite(np.frexp)
def frexp(x):
    """Split into a mantissa and a power of two; the power is locally constant."""
    exponent = _exponent(x)
    return np.ldexp(x, -exponent), exponent


# --- complex parts
define(np.real, "x", lambda g: g, kind="view", call=lambda x: np.real(x))
define(np.imag, "x", lambda g: g * -1j, kind="view", call=lambda x: np.imag(x))
elementwise(np.conjugate, "x", lambda g: np.conj(g))
elementwise(np.real_if_close, "x", lambda g: g)


def angle_adjoint(g, x, deg):
    """Im(conj(x) dx) / |x|**2, times 180/pi for degrees."""
    if x.dtype.kind != "c":
        return None
    size = np.abs(x)
    return g * (180 / pi if deg else 1) * (-1j * np.conj(x) / size) / size


define(np.angle, "x", angle_adjoint, kind="elementwise", call=lambda x, deg=False: np.angle(x, deg))

# --- piecewise constant: no gradient flows
for _function in (np.floor, np.ceil, np.trunc, np.rint, np.spacing, np.isnan, np.isfinite, np.isinf):
    define(_function, "x", None)
for _function in available("fix"):  # deprecated in NumPy 2.5
    define(_function, "x", None)
for _function in (np.signbit, np.logical_not, np.invert, np.iscomplex, np.isreal, np.isposinf, np.isneginf):
    define(_function, "x", None)
for _function in (np.floor_divide, np.heaviside):
    define(_function, "x y", None, None)
for _function in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
    define(_function, "x y", None, None)
for _function in (
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
):
    define(_function, "x y", None, None)
for _function in (np.round, np.around):
    define(_function, "x", None)
for _function in (np.isclose, np.allclose, np.array_equal, np.array_equiv):
    define(_function, "a b", None, None)
