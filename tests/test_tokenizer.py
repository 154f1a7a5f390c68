"""Characters to tokens and back."""

import numpy as np
import pytest

from minigrad_nn.tokenizer import CharacterTokenizer, TokenizerError


def test_tokens_are_places_in_the_sorted_alphabet():
    tokenizer = CharacterTokenizer.of("banana")
    assert tokenizer.characters == "abn"
    assert tokenizer.vocab_size == 3
    tokens = tokenizer.encode("ban")
    assert tokens.tolist() == [1, 0, 2]
    assert tokens.dtype == np.int64


@pytest.mark.parametrize("text", ["", "a", "two\nlines\t", "Grüße – 数学 🙂 e\u0301", "\x00\ud800\U0010ffff"])
def test_decoding_undoes_encoding(text):
    tokenizer = CharacterTokenizer.of("abc" + text)
    tokens = tokenizer.encode(text)
    assert tokens.shape == (len(text),)
    assert tokenizer.decode(tokens) == text
    assert tokenizer.decode(tokens.tolist()) == text


@pytest.mark.parametrize(("text", "says"), [
    ("cafe!", r"'!' at position 4 is not among the 4 characters"),
    ("faceé", r"'é' at position 4"),
    ("f a", r"' ' at position 1"),
])
def test_an_unknown_character_is_an_error_that_names_it(text, says):
    with pytest.raises(TokenizerError, match=says):
        CharacterTokenizer.of("cafe").encode(text)


@pytest.mark.parametrize("token", [-1, 4])
def test_an_unknown_token_is_an_error_and_never_wraps_around(token):
    with pytest.raises(TokenizerError, match=rf"token {token} is outside 0 \.\.\. 3"):
        CharacterTokenizer.of("cafe").decode([0, token])


@pytest.mark.parametrize("tokens", [[1.0], [True], ["1"]])
def test_tokens_that_are_no_integers_are_refused(tokens):
    with pytest.raises(TokenizerError, match="tokens should be integers"):
        CharacterTokenizer("abcd").decode(tokens)


def test_json_round_trip():
    tokenizer = CharacterTokenizer.of('quotes " and \\ and\nlines, é and 🙂')
    assert CharacterTokenizer.from_json(tokenizer.to_json()) == tokenizer


@pytest.mark.parametrize("description", [
    "", "{", "[]", "null", "{}",
    '{"kind": "bytes", "characters": "ab"}', '{"kind": "characters", "characters": 3}',
])
def test_what_is_not_a_description_is_refused(description):
    with pytest.raises(TokenizerError, match="not the description of a"):
        CharacterTokenizer.from_json(description)


@pytest.mark.parametrize("characters", ["", "ba", "aa"])
def test_an_alphabet_is_distinct_and_in_order(characters):
    with pytest.raises(TokenizerError, match="distinct characters in order"):
        CharacterTokenizer(characters)
