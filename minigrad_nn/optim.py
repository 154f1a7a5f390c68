"""Optimisers: each a pair of pure functions over trees of arrays.

    optimiser = adamw(1e-3)
    state = optimiser.init(params)
    params, state = optimiser.update(grads, state, params)

`update` is `apply` with the `numbers` of the step. `apply` is arrays in, arrays out, so that it can be compiled once
for all steps. No array is changed in place, and every array keeps the dtype of its parameter.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minigrad import tree
from minigrad.errors import MinigradError, StructureError
from minigrad_nn.schedule import Schedule, constant

__all__ = ["NonFiniteError", "Optimiser", "adamw", "clip_by_global_norm", "sgd"]

Params = Any  # a tree of arrays


class NonFiniteError(MinigradError, FloatingPointError):
    """A loss or a gradient is infinite or not a number."""


class Optimiser(NamedTuple):
    """`init(params) -> state` and `update(grads, state, params) -> (params, state)`.

    A state is a named tuple of the step and then the memory. `numbers(step)` is an array of what depends on the step
    only, and `apply(grads, memory, params, numbers) -> (params, memory)` does the rest.
    """

    init: Callable[[Params], Any]
    update: Callable[[Params, Any, Params], tuple[Params, Any]]
    numbers: Callable[[int], np.ndarray]
    apply: Callable[[Params, tuple[Params, ...], Params, np.ndarray], tuple[Params, tuple[Params, ...]]]


class AdamWState(NamedTuple):
    """What AdamW remembers."""

    step: int  # updates made so far
    mean: Params  # running mean of the gradients, shaped like the parameters
    square: Params  # running mean of their squares, shaped like the parameters


def adamw(
    rate: float | Schedule, b1: float = 0.9, b2: float = 0.95, eps: float = 1e-8, weight_decay: float = 0.1
) -> Optimiser:
    """Adam with decoupled weight decay on matrices only.

        mean   = b1 mean + (1 - b1) g
        square = b2 square + (1 - b2) g²
        p      = p - rate * (mean / (1 - b1^t) / (sqrt(square / (1 - b2^t)) + eps) + weight_decay p)

    The decay is chosen by rank: arrays of two or more axes shrink; gains and biases, however named, do not.
    A parameter whose gradient is zero still decays.

    Kingma & Ba 2015, arXiv:1412.6980; Loshchilov & Hutter 2019, arXiv:1711.05101

    Parameters
    ----------
    rate
        A number, or a function of the step, counted from 0.

    Raises
    ------
    ValueError
        If b1 or b2 is outside [0, 1), or eps is not positive: with eps 0 a zero gradient would be 0 / 0.
    """
    if not (0 <= b1 < 1 and 0 <= b2 < 1):
        raise ValueError(f"adamw: wanted b1 and b2 in [0, 1), got {b1} and {b2}")
    if not eps > 0:
        raise ValueError(f"adamw: wanted eps > 0, got {eps}; with 0 a zero gradient divides 0 by 0")
    schedule = rate if callable(rate) else constant(rate)

    def init(params: Params) -> AdamWState:
        refuse_shared(params)
        return AdamWState(0, tree.map(np.zeros_like, params), tree.map(np.zeros_like, params))

    def numbers(step: int) -> np.ndarray:
        # sqrt(square / c2) = sqrt(square) / sqrt(c2), so both corrections become one factor and one eps
        lr, t = float(schedule(step)), step + 1
        correction = math.sqrt(1 - b2**t)
        return np.array([lr * correction / (1 - b1**t), eps * correction, 1 - lr * weight_decay])

    def apply(
        grads: Params, memory: tuple[Params, ...], params: Params, numbers: np.ndarray
    ) -> tuple[Params, tuple[Params, ...]]:
        mean = tree.map(lambda m, g: b1 * m + (1 - b1) * g, memory[0], grads)
        square = tree.map(lambda s, g: b2 * s + (1 - b2) * (g * g), memory[1], grads)

        def step(p: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
            rate, eps_t, kept = (numbers[i].astype(p.dtype) for i in range(3))
            return (kept * p if p.ndim >= 2 else p) - rate * (m / (np.sqrt(s) + eps_t))

        return tree.map(step, params, mean, square), (mean, square)

    def update(grads: Params, state: AdamWState, params: Params) -> tuple[Params, AdamWState]:
        params, memory = apply(grads, state[1:], params, numbers(state.step))
        return params, AdamWState(state.step + 1, *memory)

    return Optimiser(init, update, numbers, apply)


class SGDState(NamedTuple):
    """What stochastic gradient descent remembers."""

    step: int  # updates made so far
    velocity: Params  # shaped like the parameters


def sgd(rate: float | Schedule, momentum: float = 0.0) -> Optimiser:
    """Gradient descent with momentum: `velocity = momentum velocity + g;  p = p - rate * velocity`.

    Raises
    ------
    ValueError
        If momentum is outside [0, 1).
    """
    if not 0 <= momentum < 1:
        raise ValueError(f"sgd: wanted momentum in [0, 1), got {momentum}")
    schedule = rate if callable(rate) else constant(rate)

    def init(params: Params) -> SGDState:
        refuse_shared(params)
        return SGDState(0, tree.map(np.zeros_like, params))

    def numbers(step: int) -> np.ndarray:
        return np.array([float(schedule(step))])

    def apply(
        grads: Params, memory: tuple[Params, ...], params: Params, numbers: np.ndarray
    ) -> tuple[Params, tuple[Params, ...]]:
        velocity = tree.map(lambda v, g: momentum * v + g, memory[0], grads)
        return tree.map(lambda p, v: p - numbers[0].astype(p.dtype) * v, params, velocity), (velocity,)

    def update(grads: Params, state: SGDState, params: Params) -> tuple[Params, SGDState]:
        params, memory = apply(grads, state[1:], params, numbers(state.step))
        return params, SGDState(state.step + 1, *memory)

    return Optimiser(init, update, numbers, apply)


def refuse_shared(params: Params) -> None:
    """Raise if one array stands at two places of the tree: after one update they would be two arrays.

    Raises
    ------
    StructureError
        Naming both places.
    """
    seen: dict[int, str] = {}
    for path, leaf in zip(tree.paths(params), tree.leaves(params), strict=True):
        if id(leaf) in seen:
            raise StructureError(
                f"one array is both {seen[id(leaf)].lstrip('.')} and {path.lstrip('.')}: updates would make "
                "it two. Keep a tied weight once in the tree and use it twice in the forward function"
            )
        seen[id(leaf)] = path


def clip_by_global_norm(grads: Params, max_norm: float) -> tuple[Params, float]:
    """Scale all gradients by one factor so that their joint norm is at most `max_norm`.

        norm = sqrt(sum of all g²);     g * max_norm / norm  where norm > max_norm, else g itself

    Clip the finished gradient: after accumulation, after unscaling.     Pascanu et al. 2013, arXiv:1211.5063

    Returns
    -------
    grads, norm
        The clipped tree and the norm before clipping, a Python float.

    Raises
    ------
    ValueError
        Unless max_norm > 0: a negative one would flip every sign.
    NonFiniteError
        If a gradient is infinite or NaN, naming it: scaled by max_norm / inf, all would be 0 or NaN.
    """
    if not max_norm > 0:
        raise ValueError(f"clip_by_global_norm: wanted max_norm > 0, got {max_norm}")
    leaves = tree.leaves(grads)
    total = sum(_sum_of_squares(g, np.float32) for g in leaves)
    if not math.isfinite(total):
        refuse_non_finite(grads)
        total = sum(_sum_of_squares(g, np.float64) for g in leaves)  # finite gradients, but not their squares
    norm = math.sqrt(total)
    if norm <= max_norm:
        return grads, norm
    factor = max_norm / norm
    return tree.map(lambda g: g * factor, grads), norm


def _sum_of_squares(g: np.ndarray, at_least: type[np.floating]) -> float:
    # float32 sums in BLAS, whose error clipping cannot notice; copies in float64 cost ten times more
    wide = g.astype(np.result_type(g, at_least), copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vdot(wide, wide))


def refuse_non_finite(grads: Params) -> None:
    """Raise a NonFiniteError that names every gradient with an infinite or NaN entry."""
    bad = [
        f"{path.lstrip('.')} ({g.size - np.count_nonzero(np.isfinite(g))} of {g.size} entries)"
        for path, g in zip(tree.paths(grads), tree.leaves(grads), strict=True)
        if not np.all(np.isfinite(g))
    ]
    if bad:
        raise NonFiniteError(f"gradients that are not finite: {', '.join(bad)}")
