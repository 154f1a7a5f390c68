"""Rows for minigrad/rules/elementwise.py."""

import numpy as np

from cases import binary, call, only, positive, real, row, unary

# The quotients lie between whole numbers, where these functions jump.
divisions = [*binary(only(4.6, 5.9), only(2.05, 2.25)), *binary(only(-5.9, -4.6), only(2.05, 2.25))]

ROWS = [
    # arithmetic
    row(np.add, binary(), analytic=True, complex=True),
    row(np.subtract, binary(), analytic=True, complex=True),
    row(np.multiply, binary(), analytic=True, complex=True),
    row(np.divide, binary(), analytic=True, complex=True),
    row(np.negative, unary(), analytic=True, complex=True),
    row(np.positive, unary(), analytic=True, complex=True),
    row(np.reciprocal, unary(), analytic=True, complex=True),
    row(np.square, unary(), analytic=True, complex=True),
    row(np.sqrt, unary(low=0.2), analytic=True, complex=True),
    row(np.cbrt, unary()),
    row(np.remainder, divisions, call(positive(4), np.inf), float32=1e-3),
    row(np.fmod, divisions, float32=1e-3),
    row(np.divmod, divisions, float32=1e-3),
    row(np.floor_divide, divisions),
    row(
        np.power,
        binary(positive, real),
        [call(real(3), n) for n in (0, 1, 2, 3, -1, 2.0)],
        call(positive(3), 0.5),
        call(real(3), np.array([2, 0, -1])),
        call(real(3), np.array([2.0, 0.0, -1.0])),
        call(real(3), np.int64(2)),
        call(2, real(3)),
        analytic=True,
        complex=True,
    ),
    row(np.float_power, binary(positive, real), call(real(3), 2), analytic=True, complex=True),
    # exponentials and logarithms
    row(np.exp, unary(), analytic=True, complex=True),
    row(np.exp2, unary(), analytic=True, complex=True),
    row(np.expm1, unary(), analytic=True, complex=True),
    row(np.log, unary(low=0.2), analytic=True, complex=True),
    row(np.log2, unary(low=0.2), analytic=True, complex=True),
    row(np.log10, unary(low=0.2), analytic=True, complex=True),
    row(np.log1p, unary(low=-0.7), analytic=True, complex=True),
    row(np.logaddexp, binary()),
    row(np.logaddexp2, binary()),
    # trigonometric and hyperbolic
    row(np.sin, unary(), analytic=True, complex=True),
    row(np.cos, unary(), analytic=True, complex=True),
    row(np.tan, unary(low=-1.2, high=1.2), analytic=True, complex=True),
    row(np.arcsin, unary(low=-0.8, high=0.8), analytic=True, complex=True),
    row(np.arccos, unary(low=-0.8, high=0.8), analytic=True, complex=True),
    row(np.arctan, unary(), analytic=True, complex=True),
    row(np.arctan2, binary()),
    row(np.hypot, binary()),
    row(np.sinh, unary(), analytic=True, complex=True),
    row(np.cosh, unary(), analytic=True, complex=True),
    row(np.tanh, unary(), analytic=True, complex=True),
    row(np.arcsinh, unary(), analytic=True, complex=True),
    row(np.arccosh, unary(low=1.2, high=3), analytic=True, complex=True),
    row(np.arctanh, unary(low=-0.8, high=0.8), analytic=True, complex=True),
    row(np.sinc, unary(), analytic=True),
    row(np.i0, unary(), exact=False),
    row(np.deg2rad, unary()),
    row(np.radians, unary()),
    row(np.rad2deg, unary()),
    row(np.degrees, unary()),
    # kinks
    row(np.absolute, unary(), complex=True),
    row(np.fabs, unary()),
    row(np.sign, unary(), complex=True),
    row(np.maximum, binary()),
    row(np.minimum, binary()),
    row(np.fmax, binary()),
    row(np.fmin, binary()),
    row(
        np.clip,
        call(real(3, 2), -1, 1),
        call(real(4), None, 0.5),
        call(real(4), 0.5, None),
        call(real(4), a_min=-1, a_max=real(4, low=0.1)),
        call(real(4), real(2, 4), real(2, 1)),
        call(real(3, 2), real(2, low=-2, high=-1), real()),
    ),
    row(
        np.where,
        call(np.array([True, False, True]), real(3), real(3)),
        call(np.array([[1], [0]]), real(3), real()),
        call(np.array([True, False]), real(2), 0.0),
        call(np.array([True, False]), 1, real(2)),
        analytic=True,
        complex=True,
    ),
    row(np.nan_to_num, unary(), call(real(3), nan=1.0, posinf=2.0), complex=True),
    row(np.copysign, binary()),
    row(np.ldexp, call(real(3, 2), np.array([2, -3])), call(real(), 3)),
    row(np.frexp, unary()),
    row(np.modf, unary(low=0.1, high=0.9), unary(low=-1.9, high=-1.1)),
    row(np.nextafter, binary()),
    row(np.heaviside, binary()),
    # complex parts
    row(np.real, unary(), complex=True),
    row(np.imag, unary(), complex=True),
    row(np.conjugate, unary(), complex=True),
    row(np.angle, unary(), call(real(3), deg=True), complex=True),
    row(np.real_if_close, unary()),
    # piecewise constant, or with no floating-point result
    *[row(f, unary()) for f in (np.floor, np.ceil, np.trunc, np.rint, "fix", np.spacing)],
    *[
        row(f, unary(), call(real(3, 2, low=1.41, high=1.44), 1), call(real(low=1.11, high=1.14), decimals=1))
        for f in (np.round, np.around)
    ],
    *[row(f, unary()) for f in (np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_not)],
    *[row(f, unary()) for f in (np.iscomplex, np.isreal, np.isposinf, np.isneginf)],
    *[
        row(f, binary())
        for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
    ],
    *[row(f, binary()) for f in (np.logical_and, np.logical_or, np.logical_xor)],
    # Of comparisons, as `(x > 0) & (y > 0)`: they take no floating-point numbers.
    *[
        row(f, call(real(3), real(3)), through=lambda x, y, f=f: f(x > 0, y > 0))
        for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    ],
    row(np.invert, call(real(3)), through=lambda x: np.invert(x > 0)),
    row(np.isclose, binary()),
    *[
        row(f, call(real(3), real(3)), call(real(3), 0.5))
        for f in (np.allclose, np.array_equal, np.array_equiv)
    ],
]
