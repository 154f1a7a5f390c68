"""Rows for minigrad/rules/elementwise.py."""

import numpy as np

from cases import binary, row, unary

ROWS = [
    row(np.add, binary(), analytic=True, complex=True),
    row(np.multiply, binary(), analytic=True, complex=True),
    row(np.tanh, unary(), analytic=True, complex=True),
    row(np.floor, unary()),
]
