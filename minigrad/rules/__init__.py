"""The table of rules: what NumPy computes, and its adjoints. Importing this package fills the table."""

from minigrad.rules import elementwise, reduce, layout, index, contract, linalg  # isort: skip

__all__ = ["contract", "elementwise", "index", "layout", "linalg", "reduce"]
