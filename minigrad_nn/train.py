"""Train a model on a text: the loop, and the measure of how well it went."""

import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import minigrad
from minigrad import tree
from minigrad.errors import MinigradError
from minigrad_nn import model
from minigrad_nn.data import Split, random_batch, windows
from minigrad_nn.extras import require
from minigrad_nn.model import Config
from minigrad_nn.optim import AdamWState, NonFiniteError, Optimiser, adamw, clip_by_global_norm, refuse_non_finite
from minigrad_nn.schedule import warmup_cosine

__all__ = ["Recipe", "RecipeError", "Trained", "evaluate", "train"]


class RecipeError(MinigradError, ValueError):
    """A recipe that cannot be followed."""


@dataclass(frozen=True)
class Recipe:
    """How to train."""

    steps: int = 1500
    batch: int = 12  # sequences a step
    rate: float = 3e-3  # peak learning rate
    floor: float = 0.1  # last learning rate, as a fraction of the peak
    warmup: int = 100  # steps until the peak; at most a tenth of all steps are used
    b2: float = 0.99  # AdamW's memory of squares
    weight_decay: float = 0.1
    clip: float = 1.0  # largest norm of the gradient
    evaluate_every: int = 500  # steps between evaluations on held-out text
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise RecipeError(f"Recipe: {name} should be at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise RecipeError(f"Recipe: seed should be at least 0, got {self.seed}")
        for name in ("rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise RecipeError(f"Recipe: {name} should be positive and finite, got {getattr(self, name)}")
        if self.warmup < 0 or self.weight_decay < 0 or not 0 <= self.floor <= 1:
            raise RecipeError(
                "Recipe: wanted warmup >= 0, weight_decay >= 0 and floor in [0, 1], "
                f"got {self.warmup}, {self.weight_decay} and {self.floor}"
            )

    def schedule(self) -> Callable[[int], float]:
        """The learning rate as a function of the step."""
        warmup = min(self.warmup, self.steps // 10)
        return warmup_cosine(self.rate, warmup, self.steps, self.floor * self.rate)


class Trained(NamedTuple):
    """What training leaves, and all that its next step depends on."""

    params: dict[str, Any]
    step: int  # steps made
    losses: list[float]  # training loss of each step
    validation: list[tuple[int, float]]  # (steps made, validation loss)
    interrupted: bool  # stopped by Ctrl-C before the last step
    memory: tuple[Any, ...]  # of the optimiser: trees shaped like the parameters
    draws: Mapping[str, Any]  # state of the generator that the batches are drawn with


def train(
    start: dict[str, Any] | Trained,
    config: Config,
    text: Split,
    recipe: Recipe,
    show: bool = True,
    compiled: bool = True,
    keep: Callable[[Trained], None] | None = None,
) -> Trained:
    """Follow the recipe. Ctrl-C ends it early, after a whole step, and what was reached is returned.

    Parameters
    ----------
    start
        The first parameters: `init(config, rng)`, or those of a checkpoint (`load`, and `extend` where the text has
        new characters), with its config and its tokenizer. The optimiser's memory and the learning rate start anew,
        and the steps are counted from here; with the seed of an earlier run the same places of the text are drawn.
        Or what an interrupted training of the same recipe and text has left: it goes on as if nothing had been.
    show
        Whether to show a progress bar with loss, characters per second and time left, on standard error.
    compiled
        Whether to compile the training step, which is then planned once and updates the parameters in place (those
        of the caller are copied first). Otherwise every step is plain NumPy, to look inside.
    keep
        Is called, after each evaluation but the last, with what training has reached. Its arrays change afterwards.

    Raises
    ------
    NonFiniteError
        If the loss or a gradient is infinite or NaN, naming the step.
    """
    optimiser = adamw(recipe.schedule(), b2=recipe.b2, weight_decay=recipe.weight_decay)
    take_step = compiled_step(config, recipe, optimiser) if compiled else eager_step(config, recipe, optimiser)
    rng = np.random.default_rng(recipe.seed)
    if not isinstance(start, Trained):
        start = Trained(start, 0, [], [], False, optimiser.init(start)[1:], rng.bit_generator.state)
    params, memory = tree.map(np.copy, (start.params, start.memory))
    state = AdamWState(start.step, *memory)
    rng.bit_generator.state = draws = start.draws
    losses, validation = start.losses.copy(), start.validation.copy()
    interrupted = False

    def reached() -> Trained:
        return Trained(params, len(losses), losses, validation, interrupted, state[1:], draws)

    with _progress_bar(recipe, config, start.step, show) as bar, ctrl_c_waits() as waiting:
        try:
            for step in range(start.step, recipe.steps):
                ids, targets = random_batch(text.train, recipe.batch, config.context, rng)
                loss, params, state = take_step(params, state, ids, targets)

                draws = rng.bit_generator.state
                losses.append(loss)
                bar.set_description(f"step {step + 1}, {_mean_of_last(losses, 20)}", refresh=False)
                bar.update(targets.size)
                if waiting:
                    raise KeyboardInterrupt
                if (step + 1) % recipe.evaluate_every == 0 or step + 1 == recipe.steps:
                    held_out = evaluate(params, windows(text.validation, 16, config.context), config)
                    validation.append((step + 1, held_out))
                    if show:
                        recent = _mean_of_last(losses, recipe.evaluate_every)
                        bar.write(f"step {step + 1:5}   {recent}   validation loss {held_out:.4f}")
                    if keep is not None and step + 1 < recipe.steps:
                        keep(reached())
        except KeyboardInterrupt:
            interrupted = True
        except NonFiniteError as error:
            raise NonFiniteError(
                f"training diverged at step {len(losses) + 1}: {error}; try a lower learning rate"
            ) from error
    return reached()


Step = Callable[[Any, Any, np.ndarray, np.ndarray], tuple[float, Any, Any]]
"""`take_step(params, state, ids, targets) -> (loss, params, state)`"""


def eager_step(config: Config, recipe: Recipe, optimiser: Optimiser) -> Step:
    """Return the training step as it reads: a gradient, clipped, and an update."""

    def step(params: Any, state: Any, ids: np.ndarray, targets: np.ndarray) -> tuple[float, Any, Any]:
        loss, grads = minigrad.value_and_grad(model.loss, params, ids, targets, config)
        refuse_divergence(float(loss))
        grads, _ = clip_by_global_norm(grads, recipe.clip)
        params, state = optimiser.update(grads, state, params)
        return float(loss), params, state

    return step


def compiled_step(config: Config, recipe: Recipe, optimiser: Optimiser) -> Step:
    """Return the same step, compiled: it overwrites the parameters and the optimiser's memory.

    Where the loss or the gradient is not finite nothing is overwritten.
    """

    def step(params: Any, memory: Any, ids: np.ndarray, targets: np.ndarray, numbers: np.ndarray) -> Any:
        loss, grads = minigrad.value_and_grad(model.loss, params, ids, targets, config)
        norm = np.sqrt(sum(np.vdot(g, g) for g in tree.leaves(grads)))
        factor = np.minimum(recipe.clip / norm, 1)
        clipped = tree.map(lambda g: g * factor, grads)
        updated = optimiser.apply(clipped, memory, params, numbers)
        finite = np.isfinite(norm) & np.isfinite(loss)
        return loss, norm, *tree.map(lambda new, old: np.where(finite, new, old), updated, (params, memory))

    compiled = minigrad.compile(step, donate=(0, 1))

    def take_step(params: Any, state: Any, ids: np.ndarray, targets: np.ndarray) -> tuple[float, Any, Any]:
        number, *memory = state
        loss, norm, params, memory = compiled(params, tuple(memory), ids, targets, optimiser.numbers(number))
        refuse_divergence(float(loss))
        if not math.isfinite(norm):
            _, grads = minigrad.value_and_grad(model.loss, params, ids, targets, config)
            refuse_non_finite(grads)
            raise NonFiniteError(f"the norm of the gradient is {norm}")
        return float(loss), params, type(state)(number + 1, *memory)

    return take_step


@contextmanager
def ctrl_c_waits() -> Iterator[list[int]]:
    """Note a first Ctrl-C in the list instead of raising: a step that updates in place must not stop in its middle.

    A second one raises at once. Signals can be handled in the main thread only; elsewhere nothing changes.
    """
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


Batch = tuple[np.ndarray, np.ndarray]  # tokens and their targets, each (B, T)


def evaluate(params: dict[str, Any], batches: Iterable[Batch], config: Config) -> float:
    """Return the mean loss over all targets of all batches: a smaller batch counts for less."""
    total, count = 0.0, 0
    for ids, targets in batches:
        total += float(model.loss(params, ids, targets, config)) * targets.size
        count += targets.size
    return total / count


def refuse_divergence(loss: float) -> None:
    """Raise a NonFiniteError if a loss is infinite or NaN."""
    if not math.isfinite(loss):
        raise NonFiniteError(f"the loss is {loss}")


def _mean_of_last(losses: list[float], most: int) -> str:
    last = losses[-most:]
    return f"loss {np.mean(last):.4f} (mean of {len(last)} steps)"


def _progress_bar(recipe: Recipe, config: Config, step: int, show: bool) -> Any:
    tqdm = require("tqdm", "the progress bar").tqdm
    characters = recipe.batch * config.context
    return tqdm(
        initial=step * characters,
        total=recipe.steps * characters,
        unit=" characters",
        unit_scale=True,
        disable=not show,
        dynamic_ncols=True,
        mininterval=0.2 if sys.stderr.isatty() else 15,  # a log file wants few lines
        bar_format="{desc}  {percentage:3.0f}% |{bar}| {rate_fmt}  {elapsed} gone, {remaining} left",
    )
