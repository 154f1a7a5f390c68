"""Checkpoints: what is saved comes back, and what is not a checkpoint is refused by name."""

import json
import os
import struct
import sys

import numpy as np
import pytest

from minigrad import tree
from minigrad_nn import checkpoint
from minigrad_nn.checkpoint import Checkpoint, CheckpointError, extend, load, prepare, save
from minigrad_nn.extras import MissingExtraError, require
from minigrad_nn.init import init
from minigrad_nn.model import Config, logits
from minigrad_nn.tokenizer import CharacterTokenizer
from numeric import assert_close

TOKENIZER = CharacterTokenizer.of('ab"\n é🙂')
CONFIG = Config(vocab_size=7, n_layer=2, width=8, n_head=2, n_kv_head=1, head_dim=4, hidden=6)


def example(dtype=np.float32, **changes):
    config = Config(**{**vars(CONFIG), **changes})
    return Checkpoint(init(config, np.random.default_rng(0), dtype), config, TOKENIZER, 123)


@pytest.mark.parametrize("changes", [{}, {"tied": False, "qk_norm": False, "hidden": None}])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_is_saved_comes_back(tmp_path, dtype, changes):
    before = example(dtype, **changes)
    save(tmp_path / "new" / "model.safetensors", before)            # the folder is made
    after = load(tmp_path / "new" / "model.safetensors")
    assert after[1:] == before[1:]
    assert tree.structure(after.params) == tree.structure(before.params)
    assert_close(after.params, before.params, 0.0)
    assert all(leaf.flags.writeable for leaf in tree.leaves(after.params))


def test_arrays_keep_their_order_whatever_their_memory(tmp_path):
    before = example()
    before.params["embedding"] = np.asfortranarray(before.params["embedding"])
    save(tmp_path / "m", before)
    assert_close(load(tmp_path / "m").params, before.params, 0.0)


def test_the_file_is_plain_safetensors_with_readable_metadata(tmp_path):
    path = tmp_path / "m.safetensors"
    save(path, example())
    content = path.read_bytes()
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    metadata = header.pop("__metadata__")
    assert header["blocks[1].attention.q"]["shape"] == [8, 8]
    assert header["embedding"]["dtype"] == "F32"
    assert len(header) == len(tree.leaves(example().params))
    assert json.loads(metadata["config"])["n_kv_head"] == 1
    assert json.loads(metadata["tokenizer"])["characters"] == TOKENIZER.characters
    assert metadata["step"] == "123"


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    save(path, example())
    old = path.read_bytes()

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(path, example()._replace(step=124))
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("notes.txt/model.safetensors", "File exists: "),
        ("notes.txt/deep/model.safetensors", "Not a directory: "),
        ("folder", "Is a directory: "),
        ("/proc/nowhere/model.safetensors", "/proc/nowhere"),
    ],
)
def test_where_no_checkpoint_can_be_written_that_is_said_beforehand(tmp_path, path, says):
    (tmp_path / "notes.txt").write_text("keep me")
    (tmp_path / "folder").mkdir()
    for attempt in (prepare, lambda where: save(where, example())):
        with pytest.raises(CheckpointError, match=r"^cannot write the checkpoint .*; choose another folder$") as caught:
            attempt(tmp_path / path)
        assert says in str(caught.value)
    assert (tmp_path / "notes.txt").read_text() == "keep me"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["folder", "notes.txt"]


def test_preparing_makes_the_folder_and_leaves_nothing_in_it(tmp_path):
    path = tmp_path / "new" / "deep" / "model.safetensors"
    prepare(path)
    assert list(path.parent.iterdir()) == []
    save(path, example())
    whole = path.read_bytes()
    prepare(path)
    assert path.read_bytes() == whole and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1])
def test_a_file_cut_short_is_refused_by_name(tmp_path, kept):
    path = tmp_path / "cut.safetensors"
    save(path, example())
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"cut\.safetensors is not a whole safetensors file"):
        load(path)


def test_a_file_of_another_kind_is_refused_by_name(tmp_path):
    path = tmp_path / "essay.txt"
    path.write_text("To be, or not to be, that is the question." * 10)
    with pytest.raises(CheckpointError, match=r"essay\.txt is not a whole safetensors file"):
        load(path)


def test_a_folder_stands_for_the_file_in_it(tmp_path):
    save(tmp_path / "model.safetensors", example())
    assert checkpoint.file_of(tmp_path) == tmp_path / "model.safetensors"
    assert_close(load(tmp_path).params, load(tmp_path / "model.safetensors").params, 0.0)


def test_missing_and_unreadable_files_are_refused_by_name(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=f"there is no checkpoint {tmp_path / 'model.safetensors'}"):
        load(tmp_path)
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(CheckpointError, match=f"cannot read the checkpoint {tmp_path / 'model.safetensors'}"):
        load(tmp_path)


@pytest.mark.parametrize("tied", [True, False])
def test_new_characters_get_tokens_and_the_old_ones_keep_their_logits(tied):
    """Token numbers move, since the alphabet is in order; what the model says of the old characters does not."""
    before = example(tied=tied)
    after = extend(before, "aüAa", np.random.default_rng(1))
    assert after.tokenizer.characters == "".join(sorted(TOKENIZER.characters + "üA"))
    assert (after.config.vocab_size, after.step) == (9, 123)
    text = "ab é🙂"
    old = logits(before.params, before.tokenizer.encode(text)[None], before.config)
    new = logits(after.params, after.tokenizer.encode(text)[None], after.config)
    np.testing.assert_allclose(new[..., after.tokenizer.encode(TOKENIZER.characters)], old, rtol=1e-5, atol=1e-6)
    drawn = after.params["embedding"][after.tokenizer.encode("Aü")]
    assert drawn.dtype == np.float32 and np.all(drawn != 0)
    assert len({leaf.tobytes() for leaf in after.params["embedding"]}) == 9


@pytest.mark.parametrize("tied", [True, False])
def test_where_no_character_is_new_nothing_changes(tied):
    before = example(np.float64, tied=tied)
    after = extend(before, "abba", np.random.default_rng(1))
    assert after[1:] == before[1:]
    assert_close(after.params, before.params, 0.0)


def test_extending_leaves_the_given_checkpoint_alone():
    before = example()
    after = extend(before, "xyz", np.random.default_rng(1))
    after.params["embedding"][:] = 0
    assert_close(before.params, example().params, 0.0)


def write(path, params, metadata):
    from safetensors.numpy import save_file
    save_file(dict(zip(checkpoint._names(params), tree.leaves(params), strict=True)), path, metadata)


def good_metadata():
    fields = json.dumps(vars(CONFIG))
    return {"format": checkpoint.FORMAT, "config": fields, "tokenizer": TOKENIZER.to_json(), "step": "3"}


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_of_somebody_else_are_refused(tmp_path, metadata):
    write(tmp_path / "m", example().params, metadata)
    with pytest.raises(CheckpointError, match="is a safetensors file, but not a checkpoint of minigrad_nn"):
        load(tmp_path / "m")


@pytest.mark.parametrize(("field", "value"), [
    ("config", "{"),
    ("config", '{"vocab_size": 7, "wdth": 8}'),
    ("config", '{"vocab_size": -7}'),
    ("tokenizer", "[]"),
    ("step", "many"),
    ("step", None),
])
def test_metadata_that_make_no_sense_are_refused(tmp_path, field, value):
    metadata = {name: text for name, text in {**good_metadata(), field: value}.items() if text is not None}
    write(tmp_path / "m", example().params, metadata)
    with pytest.raises(CheckpointError, match=r"the metadata of .*m cannot be understood"):
        load(tmp_path / "m")


def test_missing_unknown_and_misshapen_arrays_are_all_named(tmp_path):
    params = example().params
    del params["blocks"][0]["attention"]["q"]
    params["extra"] = np.zeros(2, np.float32)
    params["norm"] = np.ones(9, np.float32)
    write(tmp_path / "m", params, good_metadata())
    says = r"blocks\[0\]\.attention\.q is missing; extra is unknown; norm should be \(8,\), got \(9,\)$"
    with pytest.raises(CheckpointError, match=says):
        load(tmp_path / "m")


@pytest.mark.parametrize("dtype", [np.int32, bool])
def test_arrays_that_are_not_floating_are_refused(tmp_path, dtype):
    """Whole numbers would go through the model as they are, and mean nothing."""
    write(tmp_path / "m", example().params | {"norm": np.ones(8, dtype)}, good_metadata())
    with pytest.raises(CheckpointError, match=rf"norm should be floating, got {np.dtype(dtype)}$"):
        load(tmp_path / "m")


def test_numbers_that_numpy_has_not_are_refused_by_name(tmp_path):
    write(tmp_path / "m", example(np.float16).params, good_metadata())
    path = tmp_path / "m"
    content = path.read_bytes()
    size = 8 + struct.unpack("<Q", content[:8])[0]
    header = content[8:size].replace(b'"F16"', b'"BF16"')
    path.write_bytes(struct.pack("<Q", len(header)) + header + content[size:])
    with pytest.raises(CheckpointError, match=r"NumPy has not .*bfloat16|should be floating, got bfloat16"):
        load(path)


def test_a_tokenizer_of_another_size_is_refused(tmp_path):
    other = CharacterTokenizer.of("abc").to_json()
    write(tmp_path / "m", example().params, {**good_metadata(), "tokenizer": other})
    says = r"the metadata of .*m cannot be understood: its tokenizer has 3 tokens and its config 7"
    with pytest.raises(CheckpointError, match=says):
        load(tmp_path / "m")


def test_without_the_extra_the_error_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("safetensors.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for use in (lambda: save(tmp_path / "m", example()), lambda: load(tmp_path / "m")):
        with pytest.raises(MissingExtraError, match=r'needs safetensors, .*: pip install "minigrad\[lm\]"'):
            use()


def test_an_error_inside_an_installed_package_is_not_explained_away(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="module_that_is_not_there") as caught:
        require("broken_package", "testing")
    assert not isinstance(caught.value, MissingExtraError)
