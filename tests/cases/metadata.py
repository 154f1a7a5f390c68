"""Rows for minigrad/rules/metadata.py; tests/test_coverage.py has what they answer."""

import numpy as np

from cases import call, real, row


def described(function):
    """Return a function of the length of what the function says of arrays: dtypes and text are no arrays."""
    return lambda *args, **kwargs: len(str(function(*args, **kwargs)))


ROWS = [
    row(np.common_type, call(real(2), real(3)), through=described(np.common_type)),
    row(np.min_scalar_type, call(real(2)), call(real()), through=described(np.min_scalar_type)),
    row(np.array2string, call(real(2, 2)), call(real(2), precision=1), through=described(np.array2string)),
    row(np.array_repr, call(real(2, 2)), through=described(np.array_repr)),
    row(np.array_str, call(real(2, 2)), through=described(np.array_str)),
    row(np.shares_memory, call(real(2), real(2))),
    row(np.may_share_memory, call(real(2), real(2))),
]
