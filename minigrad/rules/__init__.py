"""The table of rules: what NumPy computes, and its adjoints. Importing this package fills the table."""

from minigrad.rules import elementwise, reduce, layout, index, contract, linalg  # isort: skip  # noqa: I001

__all__ = ["contract", "elementwise", "index", "layout", "linalg", "reduce"]
