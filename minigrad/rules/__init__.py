"""The table of rules: what NumPy computes, and its adjoints. Importing this package fills the table."""

from minigrad.rules import elementwise, reduce, layout, joining, creation, padding  # isort: skip
from minigrad.rules import index, order, statistics, calculus, polynomials, apply  # isort: skip
from minigrad.rules import contract, einsum, linalg, determinant, factor, least_squares, fft  # isort: skip
from minigrad.rules import scimath, metadata, special, unsupported  # isort: skip

__all__ = [
    "apply",
    "calculus",
    "contract",
    "creation",
    "determinant",
    "einsum",
    "elementwise",
    "factor",
    "fft",
    "index",
    "joining",
    "layout",
    "least_squares",
    "linalg",
    "metadata",
    "order",
    "padding",
    "polynomials",
    "reduce",
    "scimath",
    "special",
    "statistics",
    "unsupported",
]
