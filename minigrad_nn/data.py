"""Text to train on, and how batches are cut from it.

B batch   T context   N tokens of the text
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigrad.errors import MinigradError

__all__ = ["DataError", "Split", "language_reference", "random_batch", "read_text", "split", "windows"]


class DataError(MinigradError, ValueError):
    """A text that cannot be read, or is too short to train on."""


class Split(NamedTuple):
    """The two parts of a text: int64 tokens."""

    train: np.ndarray  # the first part, (N_train,)
    validation: np.ndarray  # the rest, held out, (N_validation,)


def language_reference() -> str:
    """Return the language reference that every Python carries, about 465,000 characters in Python 3.11.

    Raises
    ------
    DataError
        If this Python was built without its help texts.
    """
    try:
        from pydoc_data.topics import topics
    except ModuleNotFoundError as error:
        raise DataError("this Python has no pydoc_data.topics; pass a text with --text PATH") from error
    return "\n\n".join(topics[name] for name in sorted(topics))


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file.

    Raises
    ------
    DataError
        If there is no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        return Path(path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text: byte {error.object[error.start]:#04x} at position {error.start}; "
            "convert it to UTF-8 first"
        ) from error


def split(tokens: np.ndarray, context: int, fraction: float = 0.9) -> Split:
    """Return the first `fraction` of the tokens to train on, and the rest to validate on.

    Raises
    ------
    DataError
        If either part is too short for one sequence of `context` tokens and their targets.
    """
    at = int(fraction * len(tokens))
    parts = Split(tokens[:at], tokens[at:])
    for name, part in zip(parts._fields, parts, strict=True):
        if len(part) < context + 1:
            raise DataError(
                f"the {name} part of the text has {len(part)} tokens (of {len(tokens)}), and one sequence "
                f"needs context + 1 = {context + 1}: use a longer text or a shorter context"
            )
    return parts


def random_batch(
    tokens: np.ndarray, batch: int, context: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return sequences from random places, and their targets: two arrays (B, T).

    The target of a token is the one after it. The shift happens here and nowhere else.

    Raises
    ------
    DataError
        If the text is too short for one sequence and its targets.
    """
    if len(tokens) < context + 1:
        raise DataError(f"one sequence needs context + 1 = {context + 1} tokens, the text has {len(tokens)}")
    starts = rng.integers(0, len(tokens) - context, size=batch)
    rows = tokens[starts[:, None] + np.arange(context + 1)]  # (B, T + 1)
    return rows[:, :-1], rows[:, 1:]


def windows(tokens: np.ndarray, batch: int, context: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the whole text once, as `random_batch` does: consecutive sequences, every token a target once.

    The last batch may have fewer rows, and a shorter last sequence comes alone: weigh each by its targets.
    """
    n_targets = max(len(tokens) - 1, 0)
    whole = n_targets // context
    inputs = tokens[: whole * context].reshape(whole, context)
    targets = tokens[1 : whole * context + 1].reshape(whole, context)
    for first in range(0, whole, batch):
        yield inputs[first : first + batch], targets[first : first + batch]
    if whole * context < n_targets:
        yield tokens[None, whole * context : -1], tokens[None, whole * context + 1 :]
