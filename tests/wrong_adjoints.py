"""Adjoints that are wrong in every way there is, each with the function it belongs to and what a report must say.

They are what the checkers are checked with: tests/test_check_adjoint.py.
"""

import numpy as np


def rms_norm(x, gain):
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    x_norm = x / rms
    return x_norm * gain


def rms_norm_adjoint(g, x, gain):
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    x_norm = x / rms
    dgain = (g * x_norm).sum(tuple(range(x.ndim - 1)))
    dx_norm = g * gain
    dx = (dx_norm - x_norm * np.mean(dx_norm * x_norm, axis=-1, keepdims=True)) / rms
    return dx.astype(x.dtype), dgain.astype(gain.dtype)


def slightly_long(g, x, gain):
    dx, dgain = rms_norm_adjoint(g, x, gain)
    return 1.0005 * dx, dgain


def other_sign(g, x, gain):
    dx, dgain = rms_norm_adjoint(g, x, gain)
    return dx, -dgain


def mean_for_sum(g, x, gain):
    dx, dgain = rms_norm_adjoint(g, x, gain)
    return dx, dgain / x.shape[0]


def no_sum(g, x, gain):
    dx, _ = rms_norm_adjoint(g, x, gain)
    return dx, g * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def forgetful(g, x, gain):
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    _, dgain = rms_norm_adjoint(g, x, gain)
    return g * gain / rms, dgain


def without_gain(g, x, gain):
    return rms_norm_adjoint(g, x, np.ones_like(gain))


def one_missing(g, x, gain):
    return rms_norm_adjoint(g, x, gain)[0]


def exchanged(g, x, gain):
    return rms_norm_adjoint(g, x, gain)[::-1]


def says_none(g, x, gain):
    return rms_norm_adjoint(g, x, gain)[0], None


def not_finite(g, x, gain):
    dx, dgain = rms_norm_adjoint(g, x, gain)
    dx[1, 2] = np.nan
    return dx, dgain


def matmul(a, b):
    return a @ b


def transposed(g, a, b):
    return g @ b.T, (a.T @ g).T


def reshaped(g, a, b):
    return g @ b.T, (g.T @ a).reshape(b.shape)


def sine(x):
    return np.sin(x)


def all_zeros(g, x):
    return np.zeros_like(x)


def cotangent_ignored(g, x):
    return np.cos(x)


def in_float32(g, x):
    return (g * np.cos(x)).astype(np.float32)


def writes_to_its_input(g, x):
    dx = g * np.cos(x)
    x *= 2
    return dx


def writes_to_the_cotangent(g, x):
    g *= np.cos(x)
    return g.copy()


def nothing_to_do(x):
    return x + 1.0


def returns_an_alias(g, x):
    return g


def draws(g, x):
    return g * np.cos(x) * (1 + 1e-3 * np.random.default_rng().normal())


def squares_the_cotangent(g, x):
    return g * np.abs(g) * np.cos(x)


def tiny(x):
    return 1e-8 * np.sin(x)


def three_times_too_large(g, x):
    return 3e-8 * g * np.cos(x)


def masked_sum(scores, mask):
    return np.where(mask, np.exp(scores), 0.0)


def forgets_the_mask(g, scores, mask):
    return g * np.exp(scores)


def largest(x):
    return np.max(x, axis=-1)


def first_of_ties(g, x):
    dx = np.zeros_like(x)
    dx[np.arange(len(x)), np.argmax(x, axis=-1)] = g
    return dx


def scaled_rows(x, scale):
    return x * scale[:, None]


def missing_axis(g, x, scale):
    """Right by accident unless there are as many rows as columns; but then it is wrong without a word."""
    if x.shape[0] == x.shape[1]:
        return g * scale, (g * x).sum(1)
    return g * scale[:, None], (g * x).sum(1)


def added(x, bias):
    return x + bias


def forgets_size_one(g, x, bias):
    return g.copy(), g.sum(0) if bias.size > 1 else g.sum(0) / 2


def rows_and_columns(x):
    return np.sum(x, axis=0), np.sum(x, axis=1)


def swapped_results(g, x):
    by_column, by_row = g
    return np.broadcast_to(by_column, x.shape) - by_row[:, None]


RNG = np.random.default_rng(12)
X, GAIN = RNG.normal(size=(2, 4, 8)), RNG.normal(size=8)
SQUARE = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))
FLAT = RNG.normal(size=(3, 5))
MASK = RNG.random((3, 5)) < 0.6
TIED = np.array([[1.0, 3.0, 3.0, 0.5], [2.0, 1.0, -1.0, 0.0]])

# What the report must say of each: a pattern.
WRONG = {
    "a factor of 1.0005": (rms_norm, slightly_long, (X, GAIN), r"right gradient times 1\.0005"),
    "a sign": (rms_norm, other_sign, (X, GAIN), "the sign is wrong"),
    "a mean for a sum": (rms_norm, mean_for_sum, (X, GAIN), r"times 1/2, the size of axis 0 of x"),
    "a missing sum": (rms_norm, no_sum, (X, GAIN), r"a sum over axes \(0, 1\) is missing"),
    "a missing term": (rms_norm, forgetful, (X, GAIN), "the term through rms is missing"),
    "a missing gain": (rms_norm, without_gain, (X, GAIN), "element .* got"),
    "too few gradients": (rms_norm, one_missing, (X, GAIN), "should return 2 gradients, for x, gain"),
    "the wrong order": (rms_norm, exchanged, (X, GAIN), r"got shape \(8,\), expected shape \(2, 4, 8\)"),
    "None": (rms_norm, says_none, (X, GAIN), "no gradient was returned, but it is not zero"),
    "not finite": (rms_norm, not_finite, (X, GAIN), r"8 elements are not finite, the first at \(1, 2, 0\)"),
    "transposed": (matmul, transposed, SQUARE, r"transposed: .* axes \(0, 1\) interchanged"),
    "reshaped": (matmul, reshaped, (FLAT.T, RNG.normal(size=(3, 2))), "reshaped where it should be transposed"),
    "all zeros": (sine, all_zeros, (FLAT,), "all zeros"),
    "cotangent ignored": (sine, cotangent_ignored, (FLAT,), "incoming gradient is ignored"),
    "a dtype": (sine, in_float32, (FLAT,), "the gradient of x is float32, x is float64"),
    "writes to its input": (sine, writes_to_its_input, (FLAT,), "it writes to x"),
    "writes to the cotangent": (sine, writes_to_the_cotangent, (FLAT,), "it writes to the incoming gradient"),
    "an alias": (nothing_to_do, returns_an_alias, (FLAT,), "shares memory with the incoming gradient"),
    "not deterministic": (sine, draws, (FLAT,), "it gives the same twice: it does not"),
    "not linear": (sine, squares_the_cotangent, (FLAT,), "linear in the incoming gradient: twice"),
    "tiny, three times too large": (tiny, three_times_too_large, (FLAT,), "right gradient times 3"),
    "only where masked": (masked_sum, forgets_the_mask, (FLAT, MASK), "off only where mask is False"),
    "only at ties": (largest, first_of_ties, (TIED,), "off only at ties"),
    "only when square": (scaled_rows, missing_axis, (FLAT, RNG.normal(size=3)), "square"),
    "only at size 1": (added, forgets_size_one, (FLAT, RNG.normal(size=5)), "of size 1"),
    "one of two results": (rows_and_columns, swapped_results, (FLAT,), r"of out\[1\] with respect to x: WRONG"),
}
