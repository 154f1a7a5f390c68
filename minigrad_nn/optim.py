"""Optimisers: each a pair of pure functions over trees of arrays.

    optimiser = adamw(1e-3)
    state = optimiser.init(params)
    params, state = optimiser.update(grads, state, params)

`update` is `apply` with the `numbers` of the step. `apply` is arrays in, arrays out, so that it can be compiled once
for all steps. No array is changed in place. A parameter keeps its dtype, which is that of its memory too; but for half
precision both the memory and the arithmetic are float32: in float16 the square of 1e-4 is 0, and so is an eps of 1e-8.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import minigrad
from minigrad import tree
from minigrad.errors import DtypeError, MinigradError, ShapeError, StructureError
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
        If b1 or b2 is outside [0, 1), eps is not positive (with 0 a zero gradient would be 0 / 0), or the rate or the
        decay is negative or not finite.
    """
    _check_settings("adamw", rate=rate, weight_decay=weight_decay)
    if not (0 <= b1 < 1 and 0 <= b2 < 1):
        raise ValueError(f"adamw: wanted b1 and b2 in [0, 1), got {b1} and {b2}")
    if not eps > 0:
        raise ValueError(f"adamw: wanted eps > 0, got {eps}; with 0 a zero gradient divides 0 by 0")
    schedule = rate if callable(rate) else constant(rate)

    def init(params: Params) -> AdamWState:
        refuse_shared(params)
        return AdamWState(0, tree.map(_memory, params), tree.map(_memory, params))

    def numbers(step: int) -> np.ndarray:
        # sqrt(square / c2) = sqrt(square) / sqrt(c2), so both corrections become one factor and one eps
        lr, t = float(schedule(step)), step + 1
        correction = math.sqrt(1 - b2**t)
        return np.array([lr * correction / (1 - b1**t), eps * correction, 1 - lr * weight_decay])

    def apply(
        grads: Params, memory: tuple[Params, ...], params: Params, numbers: np.ndarray
    ) -> tuple[Params, tuple[Params, ...]]:
        grads = tree.map(_gradient, grads, params)
        mean = tree.map(lambda m, g: b1 * m + (1 - b1) * g, memory[0], grads)
        square = tree.map(lambda s, g: b2 * s + (1 - b2) * (g * g), memory[1], grads)

        def step(p: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
            rate, eps_t, kept = (numbers[i].astype(m.dtype) for i in range(3))
            return _as((kept * p if p.ndim >= 2 else p) - rate * (m / (np.sqrt(s) + eps_t)), p.dtype)

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
        If momentum is outside [0, 1), or the rate is negative or not finite.
    """
    _check_settings("sgd", rate=rate)
    if not 0 <= momentum < 1:
        raise ValueError(f"sgd: wanted momentum in [0, 1), got {momentum}")
    schedule = rate if callable(rate) else constant(rate)

    def init(params: Params) -> SGDState:
        refuse_shared(params)
        return SGDState(0, tree.map(_memory, params))

    def numbers(step: int) -> np.ndarray:
        return np.array([float(schedule(step))])

    def apply(
        grads: Params, memory: tuple[Params, ...], params: Params, numbers: np.ndarray
    ) -> tuple[Params, tuple[Params, ...]]:
        grads = tree.map(_gradient, grads, params)
        velocity = tree.map(lambda v, g: momentum * v + g, memory[0], grads)
        return tree.map(lambda p, v: _as(p - numbers[0].astype(v.dtype) * v, p.dtype), params, velocity), (velocity,)

    def update(grads: Params, state: SGDState, params: Params) -> tuple[Params, SGDState]:
        params, memory = apply(grads, state[1:], params, numbers(state.step))
        return params, SGDState(state.step + 1, *memory)

    return Optimiser(init, update, numbers, apply)


def _check_settings(function: str, **settings: float | Schedule) -> None:
    for name, value in settings.items():
        if not callable(value) and not 0 <= value < math.inf:
            raise ValueError(f"{function}: wanted {name.replace('_', ' ')} >= 0 and finite, got {value}")


def _memory(p: np.ndarray) -> np.ndarray:
    """Return zeros for what is remembered of a parameter."""
    if p.dtype.kind != "f":
        raise DtypeError(f"an optimiser moves floating parameters, got {p.dtype} {p.shape}: keep it out of the tree")
    return np.zeros_like(p, dtype=np.result_type(p.dtype, np.float32))


def _gradient(g: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return a gradient in the dtype of the memory of its parameter; one of another shape would broadcast."""
    if g.shape != p.shape:
        raise ShapeError(f"a gradient should have the shape of its parameter, {p.shape}, got {g.shape}")
    return _as(g, np.result_type(p.dtype, np.float32))


def _as(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return x if x.dtype == dtype else x.astype(dtype)


def refuse_shared(params: Params) -> None:
    """Raise if one array, or a view of it, stands at two places of the tree: after one update they would be two arrays.

    Raises
    ------
    StructureError
        Naming both places.
    """
    seen: dict[int, str] = {}
    for path, leaf in zip(tree.paths(params), tree.leaves(params), strict=True):
        placed = isinstance(leaf, np.ndarray) and leaf.size  # empty arrays may all lie at one address
        address = leaf.__array_interface__["data"][0] if placed else id(leaf)
        if address in seen:
            raise StructureError(
                f"one array is both {seen[address].lstrip('.')} and {path.lstrip('.')}: updates would make "
                "it two. Keep a tied weight once in the tree and use it twice in the forward function"
            )
        seen[address] = path


def clip_by_global_norm(grads: Params, max_norm: float) -> tuple[Params, float]:
    """Scale all gradients by one factor so that their joint norm is at most `max_norm`.

        norm = sqrt(sum of all g²);     g * max_norm / norm  where norm > max_norm, else g itself

    Clip the finished gradient: after accumulation, after unscaling.     Pascanu et al. 2013, arXiv:1211.5063

    Returns
    -------
    grads, norm
        The clipped tree and the norm before clipping, a Python float (in a compiled function an array).

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
    if any(isinstance(g, minigrad.Tensor) for g in leaves):
        return _clip_in_program(grads, leaves, max_norm)
    norm = math.sqrt(sum(_sum_of_squares(g) for g in leaves))
    if not 1e-15 < norm < math.inf:
        refuse_non_finite(grads)
        norm = _scaled_norm(leaves)  # the gradients are finite and need not be zero, but their squares were not so
    if norm <= max_norm:
        return grads, norm
    factor = max_norm / norm
    return tree.map(lambda g: g * factor, grads), norm


def _clip_in_program(grads: Params, leaves: list[Any], max_norm: float) -> tuple[Params, Any]:
    """Clip in a function that is compiled: without a decision that depends on a value."""
    largest = functools.reduce(np.maximum, [np.max(np.abs(g), initial=0) for g in leaves]).astype(np.float64)
    scale = np.where(np.isfinite(largest) & (largest > 0), largest, 1)
    squares = [np.sum(np.square(np.abs(g / scale.astype(np.abs(g).dtype)))) for g in leaves]
    norm = scale * np.sqrt(functools.reduce(np.add, squares))
    minigrad.require(np.isfinite(norm), _not_finite, norm)
    factor = np.minimum(max_norm / np.maximum(norm, max_norm), 1)
    return tree.map(lambda g: g * factor.astype(np.abs(g).dtype), grads), norm


def _not_finite(norm: Any) -> NonFiniteError:
    return NonFiniteError(f"the norm of the gradient is {norm}")


def _sum_of_squares(g: np.ndarray) -> float:
    # float32 sums in BLAS, whose error clipping cannot notice; copies in float64 cost ten times more
    wide = g.astype(np.result_type(g, np.float32), copy=False)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return float(np.vdot(wide, wide).real)


def _scaled_norm(leaves: list[np.ndarray]) -> float:
    largest = max((float(np.max(np.abs(g), initial=0)) for g in leaves), default=0.0)
    if not largest:
        return 0.0
    with np.errstate(under="ignore"):
        return largest * math.sqrt(sum(_sum_of_squares(g.astype(np.float64) / largest) for g in leaves))


def refuse_non_finite(grads: Params) -> None:
    """Raise a NonFiniteError that names every gradient with an infinite or NaN entry."""
    bad = [
        f"{path.lstrip('.')} ({g.size - np.count_nonzero(np.isfinite(g))} of {g.size} entries)"
        for path, g in zip(tree.paths(grads), tree.leaves(grads), strict=True)
        if not np.all(np.isfinite(g))
    ]
    if bad:
        raise NonFiniteError(f"gradients that are not finite: {', '.join(bad)}")
