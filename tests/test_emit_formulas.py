"""The formulas of emitted sources: tidied as a person would, brackets where they must be, numbers exactly."""

import math

import numpy as np
import pytest

import minigrad
from emitting import assert_same, on_the_tape, run
from minigrad.emit import emit_adjoint, emit_forward

rng = np.random.default_rng(5)
X, W, V = (rng.normal(size=s).round(2) for s in ((3, 4), (4,), (4, 3)))


def statements(emitted):
    """Return the statements of the function, without comments, shapes and docstring."""
    body = emitted.text.split('"""\n')[-1]
    code = [line.split("  # ")[0].strip() for line in body.splitlines()]
    return [line for line in code if line and not line.startswith(("#", "return"))]


# ---- formulas ---------------------------------------------------------------------------------

FORMULAS = {
    "the same term twice": (lambda x: x * x, [X], ["dx = 2 * g * x"]),
    "a mean": (lambda x: np.mean(x, axis=-1), [X], ["dx = np.copy(np.broadcast_to(g[..., None] / 4, x.shape))"]),
    "a mean of a product": (lambda x, w: np.mean(x * w), [X, W], [
        "dx = np.copy(np.broadcast_to(g * w / 12, x.shape))", "dw = g * np.sum(x, axis=0) / 12",
    ]),
    "numbers": (lambda x: 2 * (x / 4) * 0.5, [X], ["dx = g / 4"]),
    "what cancels": (lambda x, w: (x + w) - w, [X, W], ["dx = np.copy(g)", "dw = np.zeros_like(w)"]),
    "x * 1 + 0": (lambda x: np.sin(x * 1 + 0), [X], ["dx = g * np.cos(x)"]),
    "a sign twice": (lambda x: -np.exp(-x), [X], ["dx = g * np.exp(-x)"]),
    "a common factor": (lambda x: x * np.tanh(x), [X], [
        "tanh = np.tanh(x)", "dx = g * (tanh + x * (1 - tanh * tanh))",
    ]),
    "a broadcast undone": (lambda x, w: x * w, [X, W], ["dx = g * w", "dw = np.sum(g * x, axis=0)"]),
    "an axis kept": (lambda x: x / np.sum(x, axis=-1, keepdims=True), [X], [
        "total = np.sum(x, axis=-1, keepdims=True)",
        "dx = (g - np.sum(g * (x / total), axis=-1, keepdims=True)) / total",
    ]),
    "a transpose of a transpose": (lambda x, v: x.T.T @ v, [X, V], ["dv = x.T @ g", "dx = g @ v.T"]),
    "leading axes of a product": (lambda x, v: x @ v, [rng.normal(size=(2, 3, 4)), V], [
        "dx = g @ v.T", "dv = np.reshape(x, (-1, 4)).T @ np.reshape(g, (-1, 3))",
    ]),
    "a known quotient": (lambda x, w: np.exp(x / w), [X, W], [
        "ratio = x / w", "dratio = g * np.exp(ratio)", "dx = dratio / w", "dw = -np.sum(dratio * ratio, axis=0) / w",
    ]),
    "a matrix and a vector": (lambda a, v: a @ v, [X, W], ["da = v * g[..., None]", "dv = a.T @ g"]),
    "a vector and a matrix": (lambda v, a: v @ a, [V[:, 0], V], ["dv = a @ g", "da = v[..., None] * g[None]"]),
    "parts": (lambda x: np.concatenate([x[:, 1:], x[:, :1]], axis=1), [X], [
        "dx = np.zeros_like(x)", "dx[:, :1] = g[:, 3:]", "dx[:, 1:] = g[:, :3]",
    ]),
    "rows that may repeat": (lambda x: x[np.array([0, 2, 0, 1, 1, 2, 0, 0, 1])], [X], [
        "dx = np.zeros_like(x)", "np.add.at(dx, indices, g)",
    ]),
    "rows that do not": (lambda x: x[np.array([2, 0])], [X], ["dx = np.zeros_like(x)", "dx[np.array([2, 0])] = g"]),
    "added to a part": (lambda x: np.sum(x, axis=0) + x[0], [X], [
        "dx = np.copy(np.broadcast_to(g, (3, 4)))", "dx[0] += g",
    ]),
    "an assignment": (lambda x: assigned(x), [X], ["y = np.copy(x)", "y[0] = 2 * x[1]"]),
}  # fmt: skip


def assigned(x):
    y = np.copy(x)
    y[0] = 2 * x[1]
    return np.tanh(y)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula(name):
    f, args, wanted = FORMULAS[name]
    emitted = emit_adjoint(f, *args)
    assert statements(emitted)[: len(wanted)] == wanted, emitted.text
    g, gradients = on_the_tape(f, args, {}, name)
    assert_same(run(emitted.function(), g, args, {}), gradients, 1e-14)


PRECEDENCE = [
    "x - (w - x)", "(x - w) - x", "x / (w / x)", "x / w * x", "x * (w / x)", "-(x * w)", "(-x) * w", "-(x + w)",
    "(x + w) ** 2", "(-x) ** 2", "2.0 ** (x * w)", "x ** 2 ** 1", "-(x ** 2)", "(x @ v) @ (v.T @ v)", "x @ (v @ (v.T))",
    "(x > w) & (x < 1)", "((x > w) == (x > 0)) * x", "x * ((x > 0) | (w < 0))", "~(x > w) * x", "(x + w)[..., 0]",
    "(x + w).T", "(x * w).astype(np.float32)", "x - -w", "x * -2", "-2 - x", "(1 - x) / -w", "(x @ v)[0] / (w @ v)",
]  # fmt: skip


# A Tensor's ** is np.power; in NumPy 2.0 that of arrays is np.square, which differs in the last digit.
MANY = np.linspace(0.1, 3, 1000)
LAST_DIGIT = 0 if np.array_equal(MANY**2, np.power(MANY, 2)) else 1e-15


@pytest.mark.parametrize("formula", PRECEDENCE)
def test_precedence(formula):
    scope = {"np": np}
    exec(f"def f(x, w, v):\n    return {formula}\n", scope)
    for tidy in (False, True):
        emitted = emit_forward(scope["f"], X, W, V, tidy=tidy)
        got = emitted.function()(*[a for a, name in ((X, "x"), (W, "w"), (V, "v")) if name in "xwv"])
        tolerance = 1e-15 if tidy else LAST_DIGIT
        np.testing.assert_allclose(got, scope["f"](X, W, V), rtol=tolerance, err_msg=emitted.text)


NUMBERS = [
    1e-300, -2.5, 0.1, -0.0, math.inf, -math.inf, 3, -3, True, 1 + 2j, -1j, 1 - 0j, math.pi, 2 / 3, -1 / 7,
    math.sqrt(0.5), math.sqrt(2 / math.pi), 1 / math.sqrt(2 * math.pi), np.float64(0.1), np.float32(0.1), np.int64(7),
    10**20, np.array([0.1, 0.2, 0.3, np.nan]), np.arange(4), np.zeros(4, np.float32), np.full(4, 2.5),
    np.array([1, 0, 1, 1], bool), np.ones(4) * 1j, np.float32([0.1, 0.2, 0.3, 0.7]), np.eye(4)[:3], np.tri(3, 4, 1),
    np.array(0.1),
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers(number, dtype):
    """Exactly as they are; where the text is tidied, to the last digit."""
    x = X.astype(dtype)

    def f(x):
        return x * number + number

    with np.errstate(all="ignore"):
        for tidy in (False, True):
            emitted = emit_forward(f, x, tidy=tidy)
            got, wanted = emitted.function()(x), f(x)
            assert got.dtype == wanted.dtype, emitted.text
            np.testing.assert_allclose(got, wanted, rtol=2e-15 if tidy else 0, err_msg=emitted.text)
            if not tidy:
                signs = [np.signbit(np.real(v[~np.isnan(v)])) for v in (got, wanted)]
                np.testing.assert_array_equal(*signs, err_msg=emitted.text)


def test_numbers_that_are_written_as_what_they_are():
    text = minigrad.adjoint_source(lambda x: x * math.sqrt(2 / math.pi) + np.sin(x / 3) * (1 / math.sqrt(8)), X)
    assert "math.sqrt(2 / math.pi)" in text and "1 / math.sqrt(8)" in text and "import math" in text
    assert "math.sqrt" not in minigrad.adjoint_source(lambda x: x * math.sqrt(2 / math.pi), X, tidy=False)
