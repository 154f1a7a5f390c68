"""The table of rules: what NumPy computes, and its adjoints. Importing this package fills the table."""

from minigrad.rules import elementwise, reduce, layout, index, contract, linalg, determinant, factor, fft  # isort: skip

__all__ = ["contract", "determinant", "elementwise", "factor", "fft", "index", "layout", "linalg", "reduce"]
