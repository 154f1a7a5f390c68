"""Forward functions of a transformer, in plain NumPy: they run on arrays and on Tensors alike.

Every function works along the last axis, or the last two, on any leading axes: each sequence of a batch gets
exactly what it gets alone. A bias or a gain is another array, never a flag. float32 stays float32; what squares or
sums half precision does so in float32, and rounds once at the end.

B batch   T time   C channels   F hidden channels   V vocabulary   (...) any leading axes
"""

import math
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from minigrad import Tensor, erf, require, stop_gradient
from minigrad.errors import DtypeError, MinigradError, ShapeError
from minigrad_nn.precision import in_float32, is_half

__all__ = [
    "Array",
    "RangeError",
    "argmax_rows",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "gelu_tanh",
    "layer_norm",
    "linear",
    "log_softmax",
    "relu",
    "relu_squared",
    "rms_norm",
    "rmsnorm",
    "sigmoid",
    "silu",
    "softmax",
    "swiglu",
    "swiglu_hidden_size",
    "zero_centred_rms_norm",
]

Array: TypeAlias = Any  # an ndarray or a minigrad.Tensor: a layer need not know


class RangeError(MinigradError, ValueError, IndexError):
    """A number outside the range it must be in: a token id, a target, a rate, a size."""


# ---- normalisation -------------------------------------------------------------------------------


def rmsnorm(x: Array, eps: float = 1e-8) -> Array:
    """Divide by the root mean square of the last axis; nothing to learn.

        x / sqrt(mean(x²) + eps)

    x (..., C) -> (..., C).     Zhang & Sennrich 2019, arXiv:1910.07467, without the gain
    """
    if is_half(x.dtype):
        return in_float32(rmsnorm, x, eps)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """Divide by the root mean square of the last axis, then scale.

        x / sqrt(mean(x²) + eps) * weight

    x (..., C), weight (C,) -> (..., C); ShapeError.     Zhang & Sennrich 2019, arXiv:1910.07467
    """
    if is_half(x.dtype, weight.dtype):
        return in_float32(rms_norm, x, weight, eps)
    _check_channels("rms_norm", "x", x, weight=weight)
    return rmsnorm(x, eps) * weight


def zero_centred_rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """Like `rms_norm`, with a gain stored as its distance from one, so that weight decay pulls it to one.

        x / sqrt(mean(x²) + eps) * (1 + weight)

    x (..., C), weight (C,) -> (..., C); ShapeError.     Gemma Team 2024, arXiv:2403.08295
    """
    if is_half(x.dtype, weight.dtype):
        return in_float32(zero_centred_rms_norm, x, weight, eps)
    _check_channels("zero_centred_rms_norm", "x", x, weight=weight)
    return rmsnorm(x, eps) * (1 + weight)


def layer_norm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """Normalise the last axis to mean 0 and variance 1, then scale and shift.

        (x - mean(x)) / sqrt(var(x) + eps) * weight + bias

    x (..., C), weight (C,), bias (C,) -> (..., C); ShapeError.     Ba et al. 2016, arXiv:1607.06450
    """
    if is_half(x.dtype, weight.dtype):
        return in_float32(layer_norm, x, weight, bias, eps)
    _check_channels("layer_norm", "x", x, weight=weight, bias=bias)
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)  # (..., 1)
    return centred / np.sqrt(variance + eps) * weight + bias


def _check_channels(function: str, of: str, x: Array, **vectors: Array) -> None:
    """Raise ShapeError unless each vector has one number per channel, those of the argument named `of`."""
    for name, vector in vectors.items():
        if vector.shape != x.shape[-1:]:
            raise ShapeError(
                f"{function}: {name} should be {x.shape[-1:]}, one for each channel of {of} {x.shape}, "
                f"got {vector.shape}"
            )


# ---- activations ---------------------------------------------------------------------------------


def relu(x: Array) -> Array:
    """Return max(x, 0), with slope 0 at 0; NaN stays NaN.     x (...) -> (...)"""
    return np.where(x <= 0, 0, x)  # np.maximum would share the slope at 0 between its two arguments


def relu_squared(x: Array) -> Array:
    """Return max(x, 0)², whose slope 2 max(x, 0) is continuous.     x (...) -> (...)

    So et al. 2021, arXiv:2109.08668
    """
    positive = np.maximum(x, 0)
    return positive * positive


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), as (1 + tanh(x / 2)) / 2.     x (...) -> (...)

    tanh cannot overflow, is analytic, and takes 0.26 ms for (768, 384) float32 where a stable pair of
    exponentials takes 0.64. The error is that of numbers near 1: in the tail at x << 0 the result is right to
    1e-16 (float64), not to 16 digits.
    """
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def silu(x: Array) -> Array:
    """Return x sigmoid(x), also called swish.     x (...) -> (...)

    Hendrycks & Gimpel 2016, arXiv:1606.08415; Ramachandran et al. 2017, arXiv:1710.05941
    """
    return x * sigmoid(x)


def gelu_tanh(x: Array) -> Array:
    """Approximate `gelu`, as GPT-2 and Gemma do.

        x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))) / 2

    x (...) -> (...).     Hendrycks & Gimpel 2016, arXiv:1606.08415
    """
    scale = math.sqrt(2 / math.pi)
    return 0.5 * x * (1 + np.tanh(x * (scale + scale * 0.044715 * (x * x))))


def gelu(x: Array) -> Array:
    """Return x times the probability that a standard normal number is below x.

        x (1 + erf(x / sqrt(2))) / 2

    x (...) -> (...).     Hendrycks & Gimpel 2016, arXiv:1606.08415
    """
    return 0.5 * x * (1 + erf(x * (1 / math.sqrt(2))))


# ---- softmax -------------------------------------------------------------------------------------

# A softmax does not change when its row is shifted, so the shift that keeps exp finite needs no gradient: it
# would be zero, and a quarter of the time forwards and back.


def softmax(x: Array) -> Array:
    """Turn the last axis into probabilities: exp(x) / sum(exp(x)), finite for any finite x.

    x (..., V) -> (..., V).     `attention.masked_softmax` is for rows that may be entirely -inf.
    """
    if is_half(x.dtype):
        return in_float32(softmax, x)
    e = np.exp(x - np.max(stop_gradient(x), axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(x: Array) -> Array:
    """Return log(softmax(x)) over the last axis, without taking the log of a small number.

    x (..., V) -> (..., V).
    """
    if is_half(x.dtype):
        return in_float32(log_softmax, x)
    shifted = x - np.max(stop_gradient(x), axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


# ---- linear --------------------------------------------------------------------------------------


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return x @ weight, plus a bias where there is one.

    x (..., C), weight (C, F), bias (F,) -> (..., F); ShapeError.
    """
    if is_half(x.dtype, weight.dtype):
        return in_float32(linear, x, weight, bias)
    if weight.ndim != 2 or x.shape[-1:] != weight.shape[:1]:
        raise ShapeError(
            f"linear: x should be (..., C) for a weight (C, F), got x {x.shape} and weight {weight.shape}"
        )
    if bias is None:
        return x @ weight
    _check_channels("linear", "weight", weight, bias=bias)
    return x @ weight + bias


def swiglu(x: Array, w_gate: Array, w_up: Array, w_down: Array) -> Array:
    """Feed forward through a gated hidden layer.

        (silu(x @ w_gate) * (x @ w_up)) @ w_down

    x (..., C), w_gate (C, F), w_up (C, F), w_down (F, C) -> (..., C); ShapeError.

    Shazeer 2020, arXiv:2002.05202
    """
    if is_half(x.dtype, w_gate.dtype, w_up.dtype, w_down.dtype):
        return in_float32(swiglu, x, w_gate, w_up, w_down)
    shapes = x.shape[-1:], w_gate.shape, w_up.shape, w_down.shape[:-1]
    if w_gate.ndim != 2 or shapes != (w_gate.shape[:1], w_gate.shape, w_gate.shape, w_gate.shape[1:]):
        raise ShapeError(
            "swiglu: x should be (..., C), w_gate and w_up (C, F), w_down (F, C), "
            f"got {x.shape}, {w_gate.shape}, {w_up.shape}, {w_down.shape}"
        )
    return (silu(x @ w_gate) * (x @ w_up)) @ w_down


def swiglu_hidden_size(width: int) -> int:
    """Return the hidden size that gives three matrices the weights of two with four times the width.

    8/3 of the width, rounded up to a multiple of 64. RangeError unless width is positive.
    """
    if width < 1:
        raise RangeError(f"swiglu_hidden_size: width should be at least 1, got {width}")
    return (8 * width // 3 + 63) // 64 * 64


# ---- tokens in, loss out -------------------------------------------------------------------------


def embedding(weight: Array, ids: np.ndarray) -> Array:
    """Look up a row of the table for each id; the gradient adds into the rows looked up.

    weight (V, C), ids (...) of integers in 0..V-1 -> (..., C).

    DtypeError for ids that are not integers, RangeError for an id without a row.
    """
    if isinstance(weight, Tensor) and is_half(weight.dtype):  # a row is exact, but what its gradient adds up is not
        return in_float32(embedding, weight, ids)
    ids = _integers("embedding", "ids", ids)
    rows = weight.shape[0]
    require((ids >= 0) & (ids < rows), partial(_no_row, weight.shape), ids)
    return np.take(weight, ids, axis=0)


def cross_entropy(logits: Array, targets: np.ndarray, ignore_index: int = -100) -> Array:
    """Mean of -log softmax(logits)[target] over the rows whose target is not `ignore_index`.

        mean(logsumexp(logits) - logits[target])

    logits (..., V), targets (...) of integers in 0..V-1 -> (). An ignored row has gradient exactly 0,
    whatever its logits; when every row is ignored, the loss is 0. The target is indexed, not multiplied by a
    one-hot row, so a logit of -inf is a class of probability 0.

    ShapeError, DtypeError for targets that are not integers, RangeError for a target without a class.
    """
    if is_half(logits.dtype):
        return in_float32(cross_entropy, logits, targets, ignore_index)
    targets = _integers("cross_entropy", "targets", targets)
    if targets.shape != logits.shape[:-1]:
        raise ShapeError(
            f"cross_entropy: targets should be {logits.shape[:-1]}, one per row of logits {logits.shape}, "
            f"got {targets.shape}"
        )
    classes = logits.shape[-1]
    kept = targets != ignore_index
    require(~kept | ((targets >= 0) & (targets < classes)), partial(_no_class, classes, ignore_index), targets)
    if isinstance(kept, Tensor):
        # Compiled: which rows are kept is known at each run only, so all are computed and the others count for 0.
        logits, targets = np.where(kept[..., None], logits, 0), np.where(kept, targets, 0)
        losses = np.where(kept[..., None], _row_losses(logits, targets), 0)
        return np.sum(losses) / np.maximum(np.sum(kept), 1).astype(losses.dtype)
    if not kept.all():
        logits, targets = logits[kept], targets[kept]  # (N, V), (N,)
    return np.sum(_row_losses(logits, targets)) / max(targets.size, 1)


def _row_losses(logits: Array, targets: np.ndarray) -> Array:
    """-log softmax(logits)[target]: logits (..., V), targets (...) -> (..., 1)"""
    shifted = logits - np.max(stop_gradient(logits), axis=-1, keepdims=True)
    chosen = np.take_along_axis(shifted, targets[..., None], axis=-1)
    return np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)) - chosen


def _no_row(shape: tuple[int, ...], ids: np.ndarray) -> RangeError:
    wrong = ids[(ids < 0) | (ids >= shape[0])].ravel()[0]
    return RangeError(f"embedding: ids should be in 0..{shape[0] - 1} for weight {shape}, got {wrong}")


def _no_class(classes: int, ignore_index: int, targets: np.ndarray) -> RangeError:
    wrong = targets[(targets != ignore_index) & ((targets < 0) | (targets >= classes))].ravel()[0]
    return RangeError(
        f"cross_entropy: targets should be in 0..{classes - 1} for logits (..., {classes}), "
        f"or ignore_index = {ignore_index}, got {wrong}"
    )


def argmax_rows(logits: Array) -> np.ndarray:
    """Return where each row is largest, the first place on a tie.     logits (..., V) -> (...) of integers"""
    return np.argmax(logits, axis=-1)


def dropout(x: Array, rate: float, rng: np.random.Generator) -> Array:
    """Zero each number with probability `rate` and divide the rest by 1 - rate: the mean stays.

    x (...) -> (...). A rate of 0 returns x and draws nothing, a rate of 1 gives zeros.

    RangeError for a rate outside 0..1, DtypeError for an rng that is not a Generator.

    Srivastava et al. 2014, jmlr.org/papers/v15/srivastava14a.html
    """
    if not 0 <= rate <= 1:
        raise RangeError(f"dropout: rate should be in 0..1, got {rate}")
    if rate == 0:
        return x
    if not isinstance(rng, np.random.Generator):
        raise DtypeError(
            f"dropout: rng should be a numpy.random.Generator, got {type(rng).__name__}; "
            "make one with np.random.default_rng(seed)"
        )
    keep = rng.random(x.shape) >= rate
    return np.where(keep, x, 0) * (0.0 if rate == 1 else 1 / (1 - float(rate)))


def _integers(function: str, name: str, numbers: np.ndarray) -> np.ndarray:
    """Return the numbers as an array; raise DtypeError unless they are integers."""
    if not hasattr(numbers, "dtype"):
        numbers = np.asarray(numbers)  # a list, or one int
        if not numbers.size:
            numbers = numbers.astype(np.int64)  # of an empty list NumPy makes float64
    if numbers.dtype.kind not in "iu":
        raise DtypeError(
            f"{function}: {name} should be integers, got {numbers.dtype}; "
            f"if they are whole numbers: {name}.astype(np.int64)"
        )
    return numbers
