"""A training that is under way as one safetensors file, from which it goes on as if nothing had been."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from minigrad_nn import checkpoint
from minigrad_nn.checkpoint import CheckpointError
from minigrad_nn.init import template
from minigrad_nn.model import Config
from minigrad_nn.tokenizer import CharacterTokenizer
from minigrad_nn.train import Recipe, Trained

__all__ = ["FILE", "Training", "load", "save"]

FORMAT = "minigrad-training-1"
FILE = "training.safetensors"  # beside the model


class Training(NamedTuple):
    """A training, at its beginning or under way."""

    start: dict[str, Any] | Trained  # the first parameters, or what has been reached
    recipe: Recipe
    config: Config
    tokenizer: CharacterTokenizer
    before: int  # steps that the first parameters had been trained for


def save(path: Path, training: Training, trained: Trained, text: str) -> None:
    """Write what a training on this text has reached.

    Raises
    ------
    CheckpointError
        If it cannot be written.
    """
    metadata = {
        **checkpoint.described(training.config, training.tokenizer),
        "before": json.dumps(training.before),
        "recipe": json.dumps(dataclasses.asdict(training.recipe)),
        "losses": json.dumps(trained.losses),
        "validation": json.dumps(trained.validation),
        "draws": json.dumps(trained.draws),
        "text": digest(text),
    }
    checkpoint.write(path, {"params": trained.params, "memory": trained.memory}, FORMAT, metadata)


def load(path: Path, text: str) -> Training:
    """Read what a training on this text had reached.

    Raises
    ------
    CheckpointError
        If there is none, it is not whole, or it was another text.
    """
    if not path.exists():
        raise CheckpointError(
            f"there is no training to go on with: {path} is written at each evaluation and at Ctrl-C, "
            "and removed when training is finished"
        )
    arrays, metadata = checkpoint.read(path, FORMAT)
    with checkpoint.understood(path):
        config, tokenizer = checkpoint.model_of(metadata)
        recipe = Recipe(**json.loads(metadata["recipe"]))
        before = int(json.loads(metadata["before"]))
        losses, draws = json.loads(metadata["losses"]), json.loads(metadata["draws"])
        validation = [(step, loss) for step, loss in json.loads(metadata["validation"])]
        known = metadata["text"]
    if known != digest(text):
        raise CheckpointError(f"{path} is of a training on another text: give the same --text, or leave out --resume")
    params = template(config)
    trees = checkpoint.fit(arrays, {"params": params, "memory": (params, params)}, path)
    trained = Trained(trees["params"], len(losses), losses, validation, True, trees["memory"], draws)
    return Training(trained, recipe, config, tokenizer, before)


def digest(text: str) -> str:
    """Return what tells a text from others."""
    return hashlib.sha256(text.encode()).hexdigest()
