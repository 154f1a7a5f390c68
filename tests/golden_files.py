"""The sources in tests/golden: what `minigrad.adjoint_source` writes for each layer, some ops and some usual functions.

They make a change of the emitter reviewable: `git diff tests/golden`. tests/test_golden.py compares and executes them.
To write them again, from the root of the project:

    PYTHONPATH=. python tests/golden_files.py

Line numbers are left out, so that an edit of layers.py changes only what it means.
"""

import re
from functools import partial
from pathlib import Path

import numpy as np

from adjoint_rows import ROWS, Sample, args
from minigrad.emit import Emitted, emit_adjoint
from minigrad_nn import attention, layers, model

FOLDER = Path(__file__).parent / "golden"
rng = np.random.default_rng(3)


def normal(*shape):
    return rng.normal(size=shape).round(2)


# ---- layers -----------------------------------------------------------------------------------


def multi_head_attention(x, weights, **fixed):
    return attention.multi_head_attention(x, weights, **fixed)[0]


def cross_attention(x, weights, context, **fixed):
    return attention.multi_head_attention(x, weights, context=context, **fixed)[0]


def block(x, params, **fixed):
    return model.block(x, params, **fixed)[0]


def dropout(x, rate):
    return layers.dropout(x, rate, np.random.default_rng(5))


def attention_with_dropout(q, k, v, rate, mask=None):
    return attention.attention_with_dropout(q, k, v, mask, rate=rate, rng=np.random.default_rng(5))


def multi_head_with_dropout(x, weights, **fixed):
    attend = partial(attention.attention_with_dropout, rate=0.3, rng=np.random.default_rng(5))
    return attention.multi_head_attention(x, weights, attend=attend, **fixed)[0]


def wrapped(row):
    """Return the forward of a row under a name, where the table has a lambda."""
    for prefix, function in (("multi_head_attention, cross", cross_attention),
                             ("multi_head_attention, dropout", multi_head_with_dropout),
                             ("multi_head", multi_head_attention),
                             ("attention_with_dropout", attention_with_dropout),
                             ("block", block)):
        if row.startswith(prefix):
            return function
    return ROWS[row].forward


# ---- functions as people write them -----------------------------------------------------------


class Recurrent:
    def __init__(self):
        self.Wx, self.Wh, self.b = normal(3, 4), normal(4, 4), normal(4)

    def forward(self, x, h):
        for t in range(x.shape[1]):
            h = np.tanh(x[:, t] @ self.Wx + h @ self.Wh + self.b)
        return h


def batch_norm(x, gamma, beta, eps=1e-5):
    mu = np.mean(x, axis=0)
    var = np.var(x, axis=0)
    xhat = (x - mu) / np.sqrt(var + eps)
    return gamma * xhat + beta


def two_layers(x, W1, b1, W2, b2):
    h = np.maximum(0, np.dot(x, W1) + b1)
    scores = np.dot(h, W2) + b2
    return scores


def negative_log_likelihood(scores, y):
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    logp = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.sum(logp[np.arange(len(y)), y]) / len(y)


def mean_squared_error(pred, target):
    return np.mean((pred - target) ** 2)


def convolution(x, w, b):
    n, k = len(x), len(w)
    out = np.zeros_like(x, shape=(n - k + 1,))
    for i in range(n - k + 1):
        out[i] = np.sum(x[i : i + k] * w) + b
    return out


def logistic(w, X, y):
    z = X @ w
    p = 1 / (1 + np.exp(-z))
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


def einsum_attention(q, k, v):
    s = np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])
    p = np.exp(s) / np.sum(np.exp(s), axis=-1, keepdims=True)
    return np.einsum("hts,hsd->htd", p, v)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def divergence(p, q):
    return np.sum(p * np.log(p / q))


def filled(x):
    y = np.zeros_like(x)
    y[0] = 2 * x[1]
    y[1:] = x[:-1] ** 2
    y += x
    return np.sum(y) + y[0]


def tree(params, x):
    return {"sum": np.sum(params["w"] * x), "scaled": params["layers"][0] * x[0]}


def convolution_by_columns(x, W, b):
    (n, c, h, w), (f, _, k, _) = x.shape, W.shape
    ho, wo = h - k + 1, w - k + 1
    cols = np.zeros_like(x, shape=(n, c, k, k, ho, wo))
    for i in range(k):
        for j in range(k):
            cols[:, :, i, j] = x[:, :, i : i + ho, j : j + wo]
    rows = cols.transpose(0, 4, 5, 1, 2, 3).reshape(n * ho * wo, -1)
    out = rows @ W.reshape(f, -1).T + b
    return out.reshape(n, ho, wo, f).transpose(0, 3, 1, 2)


def lstm_cell(x, h, c, Wx, Wh, b):
    i, f, o, u = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    c = 1 / (1 + np.exp(-f)) * c + 1 / (1 + np.exp(-i)) * np.tanh(u)
    return np.tanh(c) / (1 + np.exp(-o)), c


def attention_in_place(q, k, v, mask):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    s[:, ~mask] = -1e9
    s -= np.max(s, axis=-1, keepdims=True)
    p = np.exp(s)
    p /= np.sum(p, axis=-1, keepdims=True)
    return p @ v


def hinge(scores, y):
    rows = np.arange(len(y))
    margins = np.maximum(0, scores - scores[rows, y][:, None] + 1)
    margins[rows, y] = 0
    return np.sum(margins) / len(y)


def windows(x, w):
    return np.lib.stride_tricks.sliding_window_view(x, 3, axis=1) @ w


def messages(h, source, target):
    m = np.zeros_like(h)
    np.add.at(m, target, h[source])
    return np.tanh(h + m)


def rotation_in_place(x, cos, sin):
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def damped(x):
    out = np.sin(x)
    out[:, :, 0] *= 0.5
    out[0][1] += x[1][0]
    return out


FUNCTIONS = {
    "attention_in_place": (attention_in_place, args(normal(2, 3, 4), normal(2, 3, 4), normal(2, 3, 4), np.tri(3) > 0)),
    "convolution_by_columns": (convolution_by_columns, args(normal(2, 3, 4, 4), normal(5, 3, 2, 2), normal(5))),
    "damped": (damped, args(normal(2, 2, 3))),
    "hinge": (hinge, args(normal(4, 3), np.array([0, 2, 1, 1]))),
    "lstm_cell": (
        lstm_cell, args(normal(2, 3), normal(2, 4), normal(2, 4), normal(3, 16), normal(4, 16), normal(16))
    ),
    "messages": (messages, args(normal(4, 3), np.array([0, 1, 3]), np.array([1, 2, 0]))),
    "rotation_in_place": (rotation_in_place, args(normal(2, 4, 6), normal(4, 3), normal(4, 3))),
    "windows": (windows, args(normal(2, 9), normal(3))),
    "batch_norm": (batch_norm, args(normal(5, 3), normal(3), normal(3))),
    "convolution": (convolution, args(normal(4), normal(2), normal())),
    "divergence": (divergence, args(abs(normal(4)) + 0.1, abs(normal(4)) + 0.1)),
    "einsum_attention": (einsum_attention, args(normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 4))),
    "filled": (filled, args(normal(4))),
    "logistic": (logistic, args(normal(3), normal(5, 3), y=np.array([1.0, 0, 1, 1, 0]))),
    "mean_squared_error": (mean_squared_error, args(normal(5, 3), normal(5, 3))),
    "negative_log_likelihood": (negative_log_likelihood, args(normal(5, 3), np.array([0, 1, 2, 1, 0]))),
    "recurrent": (Recurrent().forward, args(normal(2, 2, 3), normal(2, 4))),
    "tree": (tree, args({"w": normal(2, 3), "layers": [normal(3)]}, normal(2, 3))),
    "two_layers": (two_layers, args(normal(5, 3), normal(3, 4), normal(4), normal(4, 2), normal(2))),
    "unit": (unit, args(normal(2, 3))),
    "op_clip": (np.clip, args(normal(4), -0.5, 0.5)),
    "op_concatenate": (lambda x, y: np.concatenate([x, y]), args(normal(2, 3), normal(4, 3))),
    "op_cumsum": (np.cumsum, args(normal(2, 3), axis=1)),
    "op_logaddexp": (np.logaddexp, args(normal(3), normal(3))),
    "op_matmul": (np.matmul, args(normal(2, 3, 4), normal(4, 5))),
    "op_max": (np.max, args(normal(2, 3), axis=-1)),
    "op_prod": (np.prod, args(normal(3))),
    "op_repeat": (np.repeat, args(normal(2, 3), 2, axis=0)),
    "op_solve": (np.linalg.solve, args(normal(3, 3) + 3 * np.eye(3), normal(3))),
    "op_sort": (np.sort, args(normal(4))),
    "op_std": (np.std, args(normal(2, 3), axis=0)),
    "op_take": (lambda x, ids: np.take(x, ids, axis=1), args(normal(2, 3), np.array([2, 0, 2]))),
    "op_where": (lambda x: np.where(x > 0, np.exp(x), 2 * x), args(normal(4))),
}  # fmt: skip


def golden():
    """Return (file name, function, its arguments, its keyword arguments) for every golden file."""
    rows = []
    for name, row in ROWS.items():
        moving, fixed = row.make(Sample())
        forward = dropout if name.startswith("dropout") else wrapped(name)
        if name.startswith("dropout"):
            moving, fixed = [*moving, fixed["rate"]], {}
        fixed = {name: value for name, value in fixed.items() if name != "seed"}
        rows.append((re.sub(r"\W+", "_", f"layer_{name}"), forward, moving, fixed))
    rows += [(name, f, moving, fixed) for name, (f, (moving, fixed)) in FUNCTIONS.items()]
    return rows


def without_numbers(text):
    """Return a source without the line numbers in it."""
    return re.sub(r"(\w\.py):\d+", r"\1", text)


def write_all():
    """Write every golden file whose contents have changed, and delete those that no row has."""
    wanted = {}
    for name, f, moving, fixed in golden():
        emitted: Emitted = emit_adjoint(f, *moving, **fixed)
        wanted[FOLDER / f"{name}.py"] = without_numbers(emitted.text)
    for path in set(FOLDER.glob("*.py")) - set(wanted):
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    write_all()
