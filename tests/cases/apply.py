"""Rows for minigrad/rules/apply.py. The methods of ufuncs are in tests/test_ufunc_methods.py."""

import numpy as np

from cases import call, real, row

ROWS = [
    row(
        np.piecewise,
        call(real(6), lambda x: [x < 0, x >= 0], [lambda x: -x, lambda x: x * x]),
        call(real(2, 3), lambda x: [x < -0.5, x > 0.5], [1.5, np.exp, np.sin]),
        call(real(4), lambda x: [x < 0, x < 1], [np.exp, np.sin]),
        call(real(4), lambda x: x > 0, [lambda x, k: k * x, 0.0], 3.0),
        call(real(4), lambda x: [x > 0], [real(), real()]),
        call(real(), lambda x: [x > 0, x <= 0], [np.exp, np.sin]),
        through=lambda x, conditions, *args: np.piecewise(x, conditions(x), *args),
    ),
    row(
        np.apply_along_axis,
        call(np.cumsum, 0, real(3, 2)),
        call(lambda x: x[0] * x[1:], -1, real(2, 3)),
        call(lambda x: np.sum(x * x), 1, real(2, 3, 2)),
        call(lambda x: np.multiply.outer(x, x), 1, real(2, 2, 3)),
        call(lambda x, k, power: k * x**power, 0, real(3), 2.0, power=3),
    ),
    row(np.apply_over_axes, call(np.sum, real(2, 3, 2), [0, 2]), call(np.sum, real(2, 3), -1), analytic=True),
]
