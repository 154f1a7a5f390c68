"""Functions that look at shapes, dtypes and memory only, or make text. They answer with plain values."""

import numpy as np

from minigrad.op import composite, define

composite(np.common_type)(lambda *arrays: np.common_type(*(np.empty(0, x.dtype) for x in arrays)))
for _function in (np.min_scalar_type, np.array2string, np.array_repr, np.array_str):
    define(_function, "a", None)
for _function in (np.shares_memory, np.may_share_memory):
    define(_function, "a b", None, None)

METADATA = {
    *(np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type, np.can_cast),  # in layout.py
    *(np.common_type, np.min_scalar_type, np.array2string, np.array_repr, np.array_str),
    *(np.shares_memory, np.may_share_memory),
    *(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from, np.einsum_path),  # in creation.py and einsum.py
}
"""These functions, for the table in the docs."""
