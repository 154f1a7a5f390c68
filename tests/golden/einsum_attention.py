import numpy as np


def einsum_attention_adjoint(g, q, k, v):
    """Adjoint of einsum_attention (golden_files.py).

    g (2, 3, 4), q (2, 3, 4), k (2, 5, 4), v (2, 5, 4) -> dq (2, 3, 4), dk (2, 5, 4), dv (2, 5, 4); float64
    """
    # golden_files.py  s = np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])
    s = np.einsum("htd,hsd->hts", q, k) / 2.0               # (2, 3, 5)
    # golden_files.py  p = np.exp(s) / np.sum(np.exp(s), axis=-1, keepdims=True)
    exp = np.exp(s)                                         # (2, 3, 5)
    p = exp / np.sum(exp, axis=-1, keepdims=True)           # (2, 3, 5)

    # adjoint of golden_files.py  return np.einsum("hts,hsd->htd", p, v)
    dp = np.einsum("htd,hsd->hts", g, v)                    # (2, 3, 5)
    dv = np.einsum("htd,hts->hsd", g, p)                    # (2, 5, 4)
    # adjoint of golden_files.py
    ds = p * (dp - np.sum(dp * p, axis=-1, keepdims=True))  # (2, 3, 5)
    # adjoint of golden_files.py
    deinsum = ds / 2.0                                      # (2, 3, 5)
    dq = np.einsum("hts,hsd->htd", deinsum, k)              # (2, 3, 4)
    dk = np.einsum("hts,htd->hsd", deinsum, q)              # (2, 5, 4)
    return dq, dk, dv
