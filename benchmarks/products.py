"""The matrix products of a training step alone, from NumPy, into outputs made beforehand.

Each product of the model is three: itself, and one for the gradient of each operand. None is merged with another
(q, k and v are three, gate and up are two), and attention's are whole squares, as if nothing were masked.
A step whose products are not NumPy's can take less time than these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.work import Run, Work

__all__ = ["products_alone"]

Product = tuple[np.ndarray, np.ndarray, np.ndarray]  # a, b and where a @ b goes


def products_alone(**sizes: int) -> Run:
    """Return run(i), which multiplies; its result says nothing."""
    products = list(_products(Work(**sizes), sizes["batch"], sizes["length"]))

    def run(i: int) -> float:
        for a, b, out in products:
            np.matmul(a, b, out)
        return 0.0

    return run


def _products(work: Work, batch: int, length: int) -> Iterator[Product]:
    c = work.config
    rng = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)

    def linear(n_in: int, n_out: int) -> Iterator[Product]:
        """x @ w,  g @ w',  x' @ g, leading axes folded into one."""
        x, w, g = array(batch * length, n_in), array(n_in, n_out), array(batch * length, n_out)
        yield x, w, np.empty_like(g)
        yield g, w.T, np.empty_like(x)
        yield x.T, g, np.empty_like(w)

    def attention() -> Iterator[Product]:
        """The queries that share a key head one after the other: q @ k',  p @ v, and back."""
        rows = c.n_head // c.n_kv_head * length
        heads = (batch, c.n_kv_head)
        q, k, v = array(*heads, rows, c.head_dim), array(*heads, length, c.head_dim), array(*heads, length, c.head_dim)
        p = array(*heads, rows, length)
        yield q, k.mT, np.empty_like(p)
        yield p, k, np.empty_like(q)
        yield p.mT, q, np.empty_like(k)
        yield p, v, np.empty_like(q)
        yield q, v.mT, np.empty_like(p)
        yield p.mT, q, np.empty_like(v)

    for _ in range(c.n_layer):
        yield from linear(c.width, c.q_size)
        yield from linear(c.width, c.kv_size)
        yield from linear(c.width, c.kv_size)
        yield from attention()
        yield from linear(c.q_size, c.width)
        yield from linear(c.width, c.hidden_size)
        yield from linear(c.width, c.hidden_size)
        yield from linear(c.hidden_size, c.width)
    yield from linear(c.width, c.vocab_size)
