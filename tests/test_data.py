"""Reading a text, splitting it, cutting batches from it."""

import numpy as np
import pytest

from minigrad_nn.data import DataError, language_reference, random_batch, read_text, split, windows
from minigrad_nn.layers import cross_entropy


def test_the_default_text_is_long_and_readable():
    text = language_reference()
    assert len(text) > 200_000
    assert "The \"assert\" statement" in text
    assert len(set(text)) < 500


def test_the_first_nine_tenths_train_and_the_rest_validates():
    tokens = np.arange(1003)
    parts = split(tokens, context=8)
    assert len(parts.train) == 902                                  # int(0.9 * 1003), nanoGPT's split
    np.testing.assert_array_equal(np.concatenate(parts), tokens)


@pytest.mark.parametrize(("length", "context", "says"), [
    (0, 1, "train part of the text has 0 tokens"),
    (8, 8, "train part of the text has 7 tokens"),
    (80, 8, r"validation part of the text has 8 tokens \(of 80\), and one sequence needs context \+ 1 = 9"),
])
def test_a_text_shorter_than_the_context_is_refused(length, context, says):
    with pytest.raises(DataError, match=says):
        split(np.arange(length), context)


def test_targets_are_the_next_tokens_shifted_once():
    tokens = np.arange(100) * 3
    ids, targets = random_batch(tokens, 5, 7, np.random.default_rng(0))
    assert ids.shape == targets.shape == (5, 7)
    np.testing.assert_array_equal(targets, ids + 3)


def test_random_batches_reach_both_ends_and_repeat_with_the_seed():
    tokens = np.arange(12)
    rng = np.random.default_rng(1)
    batches = [random_batch(tokens, 4, 9, rng) for _ in range(20)]
    assert min(ids.min() for ids, _ in batches) == 0
    assert max(targets.max() for _, targets in batches) == 11       # the last token is a target
    again = random_batch(tokens, 4, 9, np.random.default_rng(1))
    np.testing.assert_array_equal(again, batches[0])


def test_the_shortest_text_gives_its_only_sequence():
    ids, targets = random_batch(np.array([7, 8, 9]), 2, 2, np.random.default_rng(0))
    assert ids.tolist() == [[7, 8], [7, 8]]
    assert targets.tolist() == [[8, 9], [8, 9]]


def test_a_text_without_a_whole_sequence_is_refused():
    with pytest.raises(DataError, match=r"needs context \+ 1 = 3 tokens, the text has 2"):
        random_batch(np.array([7, 8]), 2, 2, np.random.default_rng(0))


@pytest.mark.parametrize("length", [0, 1])
def test_without_a_target_there_is_no_window(length):
    assert list(windows(np.arange(length), batch=3, context=4)) == []


@pytest.mark.parametrize("length", [2, 8, 9, 10, 31, 32, 33, 34])
def test_windows_make_every_token_but_the_first_a_target_once(length):
    tokens = np.arange(length) + 100
    pairs = list(windows(tokens, batch=3, context=4))
    assert all(ids.shape == targets.shape and ids.shape[0] <= 3 for ids, targets in pairs)
    for ids, targets in pairs:
        np.testing.assert_array_equal(targets, ids + 1)
    seen = np.concatenate([targets.ravel() for _, targets in pairs])
    np.testing.assert_array_equal(seen, tokens[1:])


def test_labels_are_shifted_exactly_once():
    """Shifting in the data and again in the loss trains next-next-token prediction, and nothing crashes."""
    logits = np.array([[[0.0, 2, 0], [0, 0, 4], [1, 0, 0], [3, 0, 0]]])
    (_, targets), = windows(np.array([0, 1, 2, 0]), batch=1, context=3)
    loss = cross_entropy(logits[:, :3], targets)
    assert loss == pytest.approx(0.27565526, rel=1e-8)              # double shift: 3.1378, none: 1.9805


def test_a_file_is_read_as_utf8_with_plain_line_ends(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffGrüße\r\nund mehr\n".encode())
    assert read_text(path) == "Grüße\nund mehr\n"


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("Gruß".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.txt is not UTF-8 text: byte 0xdf at position 3"):
        read_text(path)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.txt: No such file"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match="cannot read"):
        read_text(tmp_path)
