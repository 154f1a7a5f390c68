"""Multi-head attention with an adjoint written out by hand, forty lines of it, as in a first implementation."""

import math

import numpy as np

HEADS = 2


def split(x):
    """(B, T, C) -> (B, H, T, D)"""
    return np.swapaxes(x.reshape(*x.shape[:2], HEADS, -1), 1, 2)


def join(x):
    """(B, H, T, D) -> (B, T, C)"""
    x = np.swapaxes(x, 1, 2)
    return x.reshape(*x.shape[:2], -1)


def attention(x, gain, w_q, w_k, w_v, w_o, mask):
    """Pre-norm causal attention with a residual path."""
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    xhat = x / rms
    normed = xhat * gain
    q = split(normed @ w_q)
    k = split(normed @ w_k)
    v = split(normed @ w_v)
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    masked = np.where(mask, scores, -np.inf)
    e = np.exp(masked - np.max(masked, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    heads = weights @ v
    joined = join(heads)
    return x + joined @ w_o


def attention_adjoint(g, x, gain, w_q, w_k, w_v, w_o, mask):
    """The same backwards."""
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    xhat = x / rms
    normed = xhat * gain
    q = split(normed @ w_q)
    k = split(normed @ w_k)
    v = split(normed @ w_v)
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ np.swapaxes(k, -1, -2) * scale
    masked = np.where(mask, scores, -np.inf)
    e = np.exp(masked - np.max(masked, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    joined = join(weights @ v)
    rows = normed.reshape(-1, x.shape[-1])

    dx = g.copy()
    dw_o = joined.reshape(rows.shape).T @ g.reshape(rows.shape)
    djoined = g @ w_o.T
    dheads = split(djoined)
    dweights = dheads @ np.swapaxes(v, -1, -2)
    dv = np.swapaxes(weights, -1, -2) @ dheads
    inner = np.sum(dweights * weights, axis=-1, keepdims=True)
    dscores = weights * (dweights - inner)
    dscaled = dscores * scale
    dq = dscaled @ k
    dk = np.swapaxes(dscaled, -1, -2) @ q
    dq_rows = join(dq).reshape(rows.shape)
    dk_rows = join(dk).reshape(rows.shape)
    dv_rows = join(dv).reshape(rows.shape)
    dw_q = rows.T @ dq_rows
    dw_k = rows.T @ dk_rows
    dw_v = rows.T @ dv_rows
    drows = dq_rows @ w_q.T
    drows = drows + dk_rows @ w_k.T
    drows += dv_rows @ w_v.T
    dnormed = drows.reshape(x.shape)
    dgain = np.sum(dnormed * xhat, axis=(0, 1))
    dxhat = dnormed * gain
    along = np.mean(dxhat * xhat, axis=-1, keepdims=True)
    dx += (dxhat - xhat * along) / rms
    return dx, dgain, dw_q, dw_k, dw_v, dw_o


def arguments(seed=0, batch=2, length=3, width=4):
    """Return an example of the arguments."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(width, width)) for _ in range(4)]
    mask = np.tri(length, dtype=bool)
    return rng.normal(size=(batch, length, width)), rng.uniform(0.5, 1.5, width), *weights, mask
