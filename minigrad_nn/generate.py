"""Continue a text: choose a token, append it, feed it back.

B batch   T time   V vocabulary   (...) any leading axes

The keys and values of the past are kept, so each new token costs one position. Past the context the oldest are
dropped and the window slides: a token sees itself and the `context - 1` before it, and its position goes on
counting, as RoPE depends on differences alone. Kept values still know a little of what has left the window. For
the default model on Shakespeare that is worth 1.4409 nats per character, where running the last 64 characters
again for each new one gives 1.4401, at many times the cost.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minigrad.errors import MinigradError
from minigrad_nn.layers import argmax_rows, softmax
from minigrad_nn.model import Config, decode

__all__ = ["SamplingError", "choose", "continuations", "draw", "generate", "generate_batch", "top_k", "top_p"]


class SamplingError(MinigradError, ValueError):
    """A sampling parameter outside its range, or nothing to continue."""


def top_k(logits: np.ndarray, k: int) -> np.ndarray:
    """Keep the k largest logits of each row and set the others to -inf: (..., V) -> (..., V).

    Exactly k are kept: of equal ones the first. k >= V keeps all.     Fan et al. 2018, arXiv:1805.04833

    Raises
    ------
    SamplingError
        If k is not positive.
    """
    _check_k(k)
    if logits.dtype.kind != "f":
        logits = logits.astype(np.float64)  # whole numbers have no -inf
    order = np.argsort(-logits, axis=-1, kind="stable")[..., :k]
    kept = np.full_like(logits, -np.inf)
    np.put_along_axis(kept, order, np.take_along_axis(logits, order, axis=-1), axis=-1)
    return kept


def top_p(probabilities: np.ndarray, p: float) -> np.ndarray:
    """Keep the fewest most probable tokens that together reach p, renormalised: (..., V) -> (..., V).

    At least one token is kept, and with p = 1 every one.     Holtzman et al. 2020, arXiv:1904.09751

    Raises
    ------
    SamplingError
        Unless 0 < p <= 1.
    """
    _check_p(p)
    if p == 1:
        return probabilities  # a rounded cumulative sum may reach 1 before the last token
    order = np.argsort(-probabilities, axis=-1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=-1)
    # Eight tokens of 0.1 reach 0.8, which a sum rounded at each of them misses by a bit.
    reached = np.cumsum(ordered, axis=-1, dtype=np.longdouble).astype(ordered.dtype)
    before = np.concatenate([np.zeros_like(reached[..., :1]), reached[..., :-1]], axis=-1)
    kept = np.zeros_like(probabilities)
    np.put_along_axis(kept, order, np.where(before < p, ordered, 0), axis=-1)
    return kept / kept.sum(axis=-1, keepdims=True)


def _check_k(k: int) -> None:
    if not isinstance(k, int | np.integer) or k < 1:
        raise SamplingError(f"top_k: wanted k >= 1, a whole number, got {k}; to keep every token, leave top-k out")


def _check_p(p: float) -> None:
    if not 0 < p <= 1:
        raise SamplingError(f"top_p: wanted 0 < p <= 1, got {p}")


def draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw one token per row: (..., V) -> (...) integers. A token of probability 0 is never drawn."""
    reached = np.cumsum(probabilities, axis=-1, dtype=np.float64)
    level = rng.random((*probabilities.shape[:-1], 1)) * reached[..., -1:]
    # rounding may lift the level to the total, so the last token that can be drawn is the limit
    last = probabilities.shape[-1] - 1 - np.argmax(probabilities[..., ::-1] > 0, axis=-1)
    return np.minimum(np.sum(reached <= level, axis=-1), last)


def choose(
    logits: np.ndarray,
    rng: np.random.Generator | None,
    temperature: float = 1.0,
    k: int | None = None,
    p: float | None = None,
) -> np.ndarray:
    """Choose one token per row: logits (..., V) -> (...) integers.

    Temperature 0 takes the most probable token, the first of equal ones, and needs no `rng`. Otherwise the
    logits are divided by the temperature, the k largest kept, the softmax taken in float64, and of that the
    most probable tokens up to p kept.

    Raises
    ------
    SamplingError
        If the temperature is negative or not finite, k or p is out of range, or the largest logit of a row is not
        finite: of NaN nothing is more probable than anything else.
    """
    if not 0 <= temperature < np.inf:
        raise SamplingError(f"temperature should be 0 (greedy) or positive and finite, got {temperature}")
    if k is not None:
        _check_k(k)
    if p is not None:
        _check_p(p)
    top = np.max(logits, axis=-1)
    if not np.all(np.isfinite(top)):
        raise SamplingError(f"the largest logit of a row should be finite, got {top[~np.isfinite(top)].flat[0]}")
    if temperature == 0:
        return argmax_rows(logits)
    if rng is None:
        raise SamplingError("sampling draws random numbers: pass a numpy Generator, or temperature 0")
    # less the largest: it stays finite however small the temperature, and a softmax does not change when it is shifted
    with np.errstate(over="ignore"):  # what is far below the largest may become -inf
        scaled = (logits.astype(np.float64) - top[..., None]) / temperature
    probabilities = softmax(scaled if k is None else top_k(scaled, k))
    return draw(probabilities if p is None else top_p(probabilities, p), rng)


def continuations(
    params: dict[str, Any],
    prompts: np.ndarray,
    config: Config,
    rng: np.random.Generator | None = None,
    temperature: float = 1.0,
    k: int | None = None,
    p: float | None = None,
    real: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """Yield the next token of every row, (B,), and go on without end.

    Of a prompt longer than the context, the last `context` tokens are used. Nothing is kept between calls.

    Parameters
    ----------
    prompts
        (B, T), T >= 1.
    real
        Which tokens of the prompts are not padding on the left: bool (B, T). None: all are.

    Raises
    ------
    SamplingError
        If the prompts are empty.
    """
    if prompts.ndim != 2 or prompts.shape[1] == 0:
        raise SamplingError(f"prompts should be (B, T) with at least one token each, got {prompts.shape}")
    window = config.context
    new, cache = prompts[:, -window:], None
    real = None if real is None else real[:, -window:]
    while True:
        scores, cache = decode(params, new, config, cache, real)
        cache = cache.last(window - 1)
        chosen = choose(scores[:, -1], rng, temperature, k, p)
        yield chosen
        new = chosen[:, None]
        if real is not None:
            real = np.pad(real, ((0, 0), (0, 1)), constant_values=True)


def generate_batch(
    params: dict[str, Any],
    prompts: Sequence[np.ndarray],
    config: Config,
    n_tokens: int,
    rng: np.random.Generator | None = None,
    temperature: float = 1.0,
    k: int | None = None,
    p: float | None = None,
    end_token: int | None = None,
) -> list[np.ndarray]:
    """Continue several prompts, of any lengths, by at most `n_tokens` tokens each.

    A row that has produced `end_token` keeps it as its last token and stops; the others go on. An `end_token`
    in a prompt stops nothing, and n_tokens = 0 returns the prompts.

    Raises
    ------
    SamplingError
        If a prompt is empty or not of integers, n_tokens is negative, or a sampling parameter is out of range.
    """
    if n_tokens < 0:
        raise SamplingError(f"n_tokens should be at least 0, got {n_tokens}")
    if any(len(prompt) == 0 for prompt in prompts):
        raise SamplingError("a prompt is empty; at least one token is needed to continue from")
    for prompt in map(np.asarray, prompts):
        if prompt.ndim != 1 or prompt.dtype.kind not in "iu":
            raise SamplingError(f"a prompt should be (T,) integers, got {prompt.shape} {prompt.dtype}")
    rows = [[int(token) for token in prompt] for prompt in prompts]
    if n_tokens == 0 or not rows:
        return [np.asarray(row) for row in rows]
    longest = max(map(len, rows))
    padded = np.asarray([[0] * (longest - len(row)) + row for row in rows])
    real = np.asarray([[False] * (longest - len(row)) + [True] * len(row) for row in rows])
    finished = np.zeros(len(rows), dtype=bool)
    steps = continuations(params, padded, config, rng, temperature, k, p, None if real.all() else real)
    for _, new in zip(range(n_tokens), steps, strict=False):  # the second has no end
        for row in np.flatnonzero(~finished):
            rows[row].append(int(new[row]))
        if end_token is not None:
            finished |= new == end_token
            if finished.all():
                break
    return [np.asarray(row) for row in rows]


def generate(
    params: dict[str, Any],
    prompt: np.ndarray,
    config: Config,
    n_tokens: int,
    rng: np.random.Generator | None = None,
    temperature: float = 1.0,
    k: int | None = None,
    p: float | None = None,
    end_token: int | None = None,
) -> np.ndarray:
    """Continue one prompt (T,) as `generate_batch` does: (T + at most n_tokens,)."""
    return generate_batch(params, [prompt], config, n_tokens, rng, temperature, k, p, end_token)[0]
