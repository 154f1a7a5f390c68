"""Adjoints of the dense layers.          I in   O out   C channels   F hidden   (...) any leading axes"""

import numpy as np

from minigrad_nn.adjoints.activations import silu, silu_adjoint
from minigrad_nn.adjoints.broadcast import like


def transposed(x: np.ndarray) -> np.ndarray:
    """The matrices of x, transposed: (..., n, m) -> (..., m, n)"""
    return np.swapaxes(x, -1, -2)


def matmul_adjoint(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Adjoint of a @ b, for b with two axes or more.   a (..., n, k) or (k,), b (..., k, m) -> da, db

    <g, da b> = <g b', da> and <g, a db> = <a' g, db>, where <,> sums products. Leading axes are summed back.
    """
    if a.ndim == 1:                                                 # a row: give it, and g, the axis n = 1
        da, db = matmul_adjoint(np.expand_dims(g, -2), a[np.newaxis], b)
        return da[0], db
    return like(g @ transposed(b), a), like(transposed(a) @ g, b)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """x @ weight + bias"""
    return x @ weight if bias is None else x @ weight + bias


def linear_adjoint(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    """Adjoint of `layers.linear`.   g (..., O) -> dx (..., I), dweight (I, O), and dbias (O,) if it has one

    A matrix product, and an addition, which hands g on, summed over the axes the bias was broadcast along.
    """
    dx, dweight = matmul_adjoint(g, x, weight)
    return (dx, dweight) if bias is None else (dx, dweight, like(g, bias))


def swiglu(x: np.ndarray, w_gate: np.ndarray, w_up: np.ndarray, w_down: np.ndarray) -> np.ndarray:
    """(silu(x @ w_gate) * (x @ w_up)) @ w_down"""
    return (silu(x @ w_gate) * (x @ w_up)) @ w_down


def swiglu_adjoint(
    g: np.ndarray, x: np.ndarray, w_gate: np.ndarray, w_up: np.ndarray, w_down: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Adjoint of `layers.swiglu`.   g (..., C) -> dx (..., C), dw_gate (C, F), dw_up (C, F), dw_down (F, C)

    Back through hidden = silu(gate) up:  dgate = silu'(gate) (up dhidden),  dup = silu(gate) dhidden.
    x feeds gate and up, so dx is a sum of two.     Shazeer 2020, arXiv:2002.05202
    """
    gate, up = x @ w_gate, x @ w_up                                 # (..., F)
    dhidden, dw_down = matmul_adjoint(g, silu(gate) * up, w_down)
    dx_gate, dw_gate = matmul_adjoint(silu_adjoint(dhidden * up, gate), x, w_gate)
    dx_up, dw_up = matmul_adjoint(dhidden * silu(gate), x, w_up)
    return dx_gate + dx_up, dw_gate, dw_up, dw_down
