"""A trained model as one safetensors file: the arrays, and the config, tokenizer and step as its metadata."""

import dataclasses
import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad import tree
from minigrad.errors import MinigradError
from minigrad_nn.extras import require
from minigrad_nn.init import init, template
from minigrad_nn.model import Config
from minigrad_nn.tokenizer import CharacterTokenizer

__all__ = ["Checkpoint", "CheckpointError", "extend", "file_of", "load", "prepare", "save"]

FORMAT = "minigrad-1"
FILE = "model.safetensors"  # in a folder


class CheckpointError(MinigradError, ValueError):
    """A file that is not a whole checkpoint of ours, or that cannot be written."""


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    params: dict[str, Any]
    config: Config
    tokenizer: CharacterTokenizer
    step: int  # training steps made


def save(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; whatever happens, `path` holds either the old file or the whole new one.

    Raises
    ------
    CheckpointError
        If it cannot be written.
    MissingExtraError
        If safetensors is not installed.
    """
    metadata = {**described(checkpoint.config, checkpoint.tokenizer), "step": json.dumps(checkpoint.step)}
    write(path, checkpoint.params, FORMAT, metadata)


def described(config: Config, tokenizer: CharacterTokenizer) -> dict[str, str]:
    """Return the metadata that a model is made from."""
    return {"config": json.dumps(dataclasses.asdict(config)), "tokenizer": tokenizer.to_json()}


def write(path: str | Path, arrays: Any, format_: str, metadata: dict[str, str]) -> None:
    """Write a tree of arrays, named by their paths, and metadata, which says the format, as a safetensors file."""
    numpy_format = require("safetensors.numpy", "saving a checkpoint")
    content = numpy_format.save(
        {
            name: np.ascontiguousarray(leaf)  # safetensors would write a transposed view in memory order
            for name, leaf in zip(_names(arrays), tree.leaves(arrays), strict=True)
        },
        {"format": format_, **metadata},
    )
    content = _in_order(content)
    with _written(path):
        _replace(Path(path), content)


def _in_order(content: bytes) -> bytes:
    """Return a safetensors file with its header in order: safetensors writes metadata in another one each time."""
    size = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:size]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[size:]


def prepare(path: str | Path) -> None:
    """Make the folder of a checkpoint, and see that a file can be written there: before the work, not after it.

    Raises
    ------
    CheckpointError
        If that cannot be.
    """
    with _written(path):
        if Path(path).is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        part = _part_of(Path(path))
        part.touch()
        part.unlink()


def file_of(path: str | Path) -> Path:
    """Return the file of a checkpoint that is named by its file or by its folder."""
    path = Path(path)
    return path / FILE if path.is_dir() else path


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint: a file, or `model.safetensors` in a folder.

    Raises
    ------
    CheckpointError
        If there is no such file, it is cut short, not safetensors, not ours, or does not fit its config.
    MissingExtraError
        If safetensors is not installed.
    """
    path = file_of(path)
    arrays, metadata = read(path, FORMAT)
    with understood(path):
        config, tokenizer = model_of(metadata)
        step = int(json.loads(metadata["step"]))
    return Checkpoint(fit(arrays, template(config), path), config, tokenizer, step)


def read(path: Path, format_: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays of a safetensors file by name, and its metadata, if it is of this format."""
    safetensors = require("safetensors", "loading a checkpoint")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError as error:
        raise CheckpointError(
            f"there is no checkpoint {path}: `python -m minigrad_nn train --out DIR` writes DIR/{FILE}"
        ) from error
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error}") from error
    except TypeError as error:  # of bfloat16, for one
        raise CheckpointError(f"{path} has numbers that NumPy has not ({error}): convert them to float32") from error
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is not a whole safetensors file: {error}") from error
    if metadata.get("format") != format_:
        raise CheckpointError(
            f"{path} is a safetensors file, but not a checkpoint of minigrad_nn: its metadata says format "
            f"{metadata.get('format')!r}, and {format_!r} is what `python -m minigrad_nn train` writes"
        )
    return arrays, metadata


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Within this context metadata that is missing or wrong is said to be that of the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the metadata of {path} cannot be understood: {error}") from error


def model_of(metadata: dict[str, str]) -> tuple[Config, CharacterTokenizer]:
    """Return what `described` describes."""
    config = Config(**json.loads(metadata["config"]))
    tokenizer = CharacterTokenizer.from_json(metadata["tokenizer"])
    if tokenizer.vocab_size != config.vocab_size:
        raise ValueError(f"its tokenizer has {tokenizer.vocab_size} tokens and its config {config.vocab_size}")
    return config, tokenizer


def extend(checkpoint: Checkpoint, text: str, rng: np.random.Generator) -> Checkpoint:
    """Return the checkpoint with tokens for all characters of a text as well.

    The new rows of the embedding (and columns of a head that is not tied to it) are drawn as `init` draws them;
    all other parameters are those of before. Where no character is new, nothing changes.
    """
    tokenizer = CharacterTokenizer.of(checkpoint.tokenizer.characters + text)
    config = dataclasses.replace(checkpoint.config, vocab_size=tokenizer.vocab_size)
    params = checkpoint.params
    drawn = init(config, rng, params["embedding"].dtype)
    known = tokenizer.encode(checkpoint.tokenizer.characters)  # a token is a place in the alphabet: old ones move
    extended = params | {"embedding": drawn["embedding"]}
    extended["embedding"][known] = params["embedding"]
    if not config.tied:
        extended["head"] = drawn["head"]
        extended["head"][:, known] = params["head"]
    return Checkpoint(extended, config, tokenizer, checkpoint.step)


def fit(arrays: dict[str, np.ndarray], like: Any, path: str | Path) -> Any:
    """Put the arrays in their places in a tree, or say which are missing, unknown, misshapen or not floating."""
    wanted = dict(zip(_names(like), (leaf.shape for leaf in tree.leaves(like)), strict=True))
    wrong = [f"{name} is missing" for name in wanted.keys() - arrays.keys()]
    wrong += [f"{name} is unknown" for name in arrays.keys() - wanted.keys()]
    wrong += [
        f"{name} should be {wanted[name]}, got {arrays[name].shape}"
        for name in wanted.keys() & arrays.keys()
        if arrays[name].shape != wanted[name]
    ]
    wrong += [
        f"{name} should be floating, got {arrays[name].dtype}"
        for name in wanted.keys() & arrays.keys()
        if arrays[name].dtype.kind != "f"
    ]
    if wrong:
        raise CheckpointError(f"the arrays of {path} do not fit its config: {'; '.join(sorted(wrong))}")
    return tree.unflatten(tree.structure(like), [arrays[name] for name in wanted])


def _names(params: Any) -> list[str]:
    return [path.lstrip(".") for path in tree.paths(params)]


@contextmanager
def _written(path: str | Path) -> Iterator[None]:
    """Within this context what the system says of a file is said of the checkpoint that is to be written."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {path}: {error.strerror}: {error.filename or path}; choose another folder"
        ) from error


def _part_of(path: Path) -> Path:
    """Return where a checkpoint is written before it is whole, in its folder, which is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def _replace(path: Path, content: bytes) -> None:
    temporary = _part_of(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # the rename must not reach the disk before the content
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C included: leave no half-written file behind
        temporary.unlink(missing_ok=True)
        raise
