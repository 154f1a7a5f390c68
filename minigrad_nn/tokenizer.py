"""Characters as tokens: token i is the i-th character of a sorted alphabet."""

import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minigrad.errors import MinigradError

__all__ = ["CharacterTokenizer", "TokenizerError"]


class TokenizerError(MinigradError, ValueError):
    """A text or a token that the tokenizer does not know, or a description that is not a tokenizer's."""


@dataclass(frozen=True)
class CharacterTokenizer:
    """A bijection between characters and tokens.

    An unknown character is an error that names it and its place: nothing is replaced, nothing skipped.
    """

    characters: str  # the alphabet, distinct and in order of code point

    def __post_init__(self) -> None:
        if list(self.characters) != sorted(set(self.characters)) or not self.characters:
            raise TokenizerError(
                f"the alphabet should be one or more distinct characters in order, got {self.characters!r}"
            )

    @classmethod
    def of(cls, text: str) -> "CharacterTokenizer":
        """Return the tokenizer of all characters of a text."""
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return len(self.characters)

    @cached_property
    def _codes(self) -> np.ndarray:
        return _code_points(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """Return the tokens of a text: int64 (len(text),).

        Raises
        ------
        TokenizerError
            If a character is not in the alphabet.
        """
        codes = _code_points(text)
        tokens = np.searchsorted(self._codes, codes)
        unknown = self._codes[np.minimum(tokens, self.vocab_size - 1)] != codes
        if unknown.any():
            first = int(np.argmax(unknown))
            raise TokenizerError(
                f"character {text[first]!r} at position {first} is not among the {self.vocab_size} "
                f"characters this tokenizer knows: {self.characters!r}"
            )
        return tokens

    def decode(self, tokens: np.ndarray | list[int]) -> str:
        """Return the text of one sequence of tokens.

        Raises
        ------
        TokenizerError
            If a token is no integer, negative, or not below the vocabulary size.
        """
        ids = np.asarray(tokens).reshape(-1)
        if ids.size and ids.dtype.kind not in "iu":
            raise TokenizerError(f"tokens should be integers, got {ids.dtype}")
        bad = (ids < 0) | (ids >= self.vocab_size)
        if bad.any():
            raise TokenizerError(f"token {ids[bad][0]} is outside 0 ... {self.vocab_size - 1}")
        return "".join(self.characters[token] for token in ids)

    def to_json(self) -> str:
        """Return a description that `from_json` reads."""
        return json.dumps({"kind": "characters", "characters": self.characters})

    @classmethod
    def from_json(cls, description: str) -> "CharacterTokenizer":
        """Return the tokenizer of a description.

        Raises
        ------
        TokenizerError
            If the description is not one that `to_json` writes.
        """
        try:
            fields = json.loads(description)
            kind, characters = fields["kind"], fields["characters"]
        except (ValueError, TypeError, KeyError) as error:
            raise TokenizerError(f"not the description of a tokenizer: {description[:80]!r}") from error
        if kind != "characters" or not isinstance(characters, str):
            raise TokenizerError(f"not the description of a character tokenizer: {description[:80]!r}")
        return cls(characters)


def _code_points(text: str) -> np.ndarray:
    # "surrogatepass": half of a surrogate pair is a character of a Python string too
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
