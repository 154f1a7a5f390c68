"""The command line, from text to checkpoint to text, and its errors."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minigrad_nn import checkpoint, cli
from minigrad_nn import train as module
from minigrad_nn.checkpoint import Checkpoint, load
from minigrad_nn.data import language_reference, split, windows
from minigrad_nn.init import init
from minigrad_nn.model import Config
from minigrad_nn.optim import NonFiniteError
from minigrad_nn.tokenizer import CharacterTokenizer
from minigrad_nn.train import Recipe, evaluate, train

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TINY = ["--layers", "1", "--width", "16", "--heads", "2", "--kv-heads", "1", "--head-dim", "8",
        "--context", "16", "--batch", "4"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(language_reference()[:3000], encoding="utf-8")
    return path


@pytest.fixture
def trained(tmp_path, text, capsys):
    """The folder of a tiny trained model, and what training printed."""
    out = tmp_path / "out"
    code = cli.main(["train", "--text", str(text), "--steps", "5", "--out", str(out), "--plot", *TINY])
    assert code == 0
    return out, capsys.readouterr().out


def test_training_reports_saves_and_writes_a_sample(trained, text):
    out, printed = trained
    assert f"{text}: 3,000 characters" in printed
    assert "2,700 to train on, the last 300 to validate on" in printed
    assert "nats per character, over all of the held-out text" in printed
    assert f"--checkpoint {out / 'model.safetensors'}" in printed
    assert sorted(path.name for path in out.iterdir()) == ["loss.png", "model.safetensors"]
    loaded = load(out / "model.safetensors")
    assert loaded.step == 5
    assert (loaded.config.n_layer, loaded.config.width, loaded.config.context) == (1, 16, 16)
    sample = printed.split("sample\n")[1].split("\nmore ")[0]
    assert len(sample) == 1 + 300                                   # the prompt is one line end
    assert set(sample) <= set(loaded.tokenizer.characters)


def generated(capsys, *options):
    assert cli.main(["generate", *options]) == 0
    return capsys.readouterr().out


def test_generate_continues_a_prompt_past_the_context(trained, capsys):
    where = ["--checkpoint", str(trained[0] / "model.safetensors")]
    printed = generated(capsys, *where, "--prompt", "The ", "--tokens", "40", "--seed", "1")
    assert printed.startswith("The ")
    assert len(printed) == 4 + 40 + 1
    assert generated(capsys, *where, "--prompt", "The ", "--tokens", "40", "--seed", "1") == printed
    assert generated(capsys, *where, "--prompt", "The ", "--tokens", "40", "--seed", "2") != printed


def test_generate_has_the_sampling_options(trained, capsys):
    where = ["--checkpoint", str(trained[0] / "model.safetensors"), "--prompt", "The ", "--tokens", "20"]
    greedy = generated(capsys, *where, "--temperature", "0")
    assert generated(capsys, *where, "--top-k", "1", "--seed", "5") == greedy
    assert generated(capsys, *where, "--top-p", "1e-9", "--seed", "6") == greedy
    assert generated(capsys, *where[:-1], "0") == "The \n"
    assert generated(capsys, "--checkpoint", str(trained[0]), *where[2:], "--temperature", "0") == greedy  # the folder


@pytest.mark.parametrize(("options", "says"), [
    (["--prompt", "snowman ☃"], "character '☃' at position 8 is not among"),
    (["--prompt", ""], "--prompt is empty: there is nothing to continue; leave it out to start with a line end"),
    (["--temperature", "-1"], "temperature should be 0"),
    (["--top-k", "0"], "k >= 1"),
    (["--top-p", "0"], "0 < p <= 1"),
    (["--tokens", "-5"], "--tokens should be at least 0, got -5"),
    (["--seed", "-1"], "--seed should be at least 0, got -1"),
])
def test_what_cannot_be_generated_is_explained(trained, capsys, options, says):
    code = cli.main(["generate", "--checkpoint", str(trained[0] / "model.safetensors"), *options])
    assert code == 1
    error = capsys.readouterr().err
    assert error.startswith("minigrad-nn: ") and says in error and "Traceback" not in error


@pytest.mark.parametrize(("options", "says"), [
    (["--text", "nowhere.txt"], "cannot read nowhere.txt"),
    (["--context", "400"], "one sequence needs context + 1 = 401"),
    (["--heads", "3", "--kv-heads", "2"], "multiple of n_kv_head; got 3 and 2"),
    (["--head-dim", "7"], "head_dim should be even"),
    (["--steps", "0"], "steps should be at least 1"),
    (["--rate", "-1"], "rate should be positive"),
    (["--threads", "0"], "--threads should be at least 1, got 0"),
    (["--seed", "-1"], "seed should be at least 0, got -1"),
])
def test_what_cannot_be_trained_is_explained(tmp_path, text, capsys, options, says):
    code = cli.main(["train", "--out", str(tmp_path / "out"), "--text", str(text), *TINY, *options])
    assert code == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("out", "says"), [("text.txt", "File exists"), ("/proc/nowhere", "/proc/nowhere")])
def test_where_no_checkpoint_can_be_written_nothing_is_trained(tmp_path, text, capsys, monkeypatch, out, says):
    monkeypatch.setattr(cli, "train", lambda *args, **how: pytest.fail("it trains"))
    assert cli.main(["train", "--out", str(tmp_path / out), "--text", str(text), *TINY]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("minigrad-nn: cannot write the checkpoint ") and printed.err.count("\n") == 1
    assert says in printed.err and printed.err.endswith("; choose another folder\n")
    assert printed.out == ""


def test_an_empty_text_is_explained(tmp_path, capsys):
    (tmp_path / "empty.txt").write_bytes(b"")
    assert cli.main(["train", "--text", str(tmp_path / "empty.txt")]) == 1
    assert "empty.txt is empty" in capsys.readouterr().err


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_checkpoint_that_is_not_there_is_explained(tmp_path, capsys, is_folder):
    path = tmp_path if is_folder else tmp_path / "nowhere"
    assert cli.main(["generate", "--checkpoint", str(path)]) == 1
    whole = path / "model.safetensors" if is_folder else path
    assert f"there is no checkpoint {whole}: `python -m minigrad_nn train --out DIR` writes" in capsys.readouterr().err


def test_a_checkpoint_that_is_none_is_explained(text, capsys):
    assert cli.main(["generate", "--checkpoint", str(text)]) == 1
    assert "text.txt is not a whole safetensors file" in capsys.readouterr().err


def test_without_the_extra_training_says_so_before_it_starts(text, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert cli.main(["train", "--text", str(text), *TINY]) == 1
    printed = capsys.readouterr()
    assert 'pip install "minigrad[lm]" (in a checkout: pip install -e ".[lm]")' in printed.err
    assert printed.out == ""


def test_ctrl_c_saves_a_checkpoint_and_exits_with_130(tmp_path, text, capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("minigrad.value_and_grad", interrupted)
    out = tmp_path / "out"
    assert cli.main(["train", "--text", str(text), "--out", str(out), *TINY]) == 130
    printed = capsys.readouterr().out
    assert f"interrupted after step 0; saved in {out / 'model.safetensors'}\n" in printed
    assert "to go on    add `--resume` to the same command\n" in printed
    assert load(out / "model.safetensors").step == 0


# --- starting from a checkpoint


OTHER = "Ein Satz über Zahlen: 1 + 1 = 2, und 2 + 2 = 4.\n" * 30          # "ü" is new to the language reference
QUICK = ["--no-compile", "--steps", "20", "--batch", "4", "--rate", "1e-2"]


@pytest.fixture
def first(tmp_path, monkeypatch):
    """A folder with checkpoints/ of a tiny model after 5 steps, mine.txt, and other.txt with new characters."""
    monkeypatch.chdir(tmp_path)
    known = language_reference()[:3000]
    tokenizer = CharacterTokenizer.of(known)
    config = Config(tokenizer.vocab_size, n_layer=1, width=16, n_head=2, n_kv_head=1, head_dim=8, context=16)
    params = init(config, np.random.default_rng(0))
    recipe = Recipe(steps=5, batch=4, rate=1e-2)
    params = train(params, config, split(tokenizer.encode(known), 16), recipe, show=False, compiled=False).params
    checkpoint.save("checkpoints/model.safetensors", Checkpoint(params, config, tokenizer, 5))
    Path("mine.txt").write_text("".join(c for c in OTHER if c in tokenizer.characters), encoding="utf-8")
    Path("other.txt").write_text(OTHER, encoding="utf-8")
    return tmp_path


def losses_on(path, text):
    """Validation loss of a checkpoint on a text."""
    loaded = load(path)
    held_out = split(loaded.tokenizer.encode(Path(text).read_text(encoding="utf-8")), 16).validation
    return evaluate(loaded.params, windows(held_out, 16, 16), loaded.config)


def test_training_starts_from_a_checkpoint_as_the_readme_says(first, capsys):
    command = re.search(r"`python -m minigrad_nn (train --start [^`]*)`", " ".join(README.split()))[1]
    old = Path("checkpoints/model.safetensors").read_bytes()
    assert cli.main([*shlex.split(command), *QUICK]) == 0
    printed = capsys.readouterr().out
    before = losses_on("checkpoints", "mine.txt")
    assert f"start       checkpoints/model.safetensors after 5 steps; validation loss {before:.4f} nats" in printed
    assert "new to it" not in printed
    assert "saved       tuned/model.safetensors (25 steps in all)" in printed
    assert losses_on("tuned", "mine.txt") < before - 0.5
    assert load("tuned")[1:] == (*load("checkpoints")[1:3], 25)
    assert Path("checkpoints/model.safetensors").read_bytes() == old


def test_characters_that_the_checkpoint_does_not_know_are_named_and_learnt(first, capsys):
    new = "".join(sorted(set(OTHER) - set(load("checkpoints").tokenizer.characters)))
    assert "ü" in new
    command = ["train", "--start", "checkpoints", "--text", "other.txt", "--out", "tuned", *QUICK]
    assert cli.main(command) == 0
    named = f"characters new to it, with embeddings drawn at random: {', '.join(map(repr, new))} ({len(new)})"
    assert named in capsys.readouterr().out
    tuned = load("tuned")
    assert set(tuned.tokenizer.characters) == set(load("checkpoints").tokenizer.characters + new)
    assert tuned.config.vocab_size == tuned.params["embedding"].shape[0] == tuned.tokenizer.vocab_size


def test_of_many_new_characters_the_first_few_are_named():
    assert cli.some(set("ba")) == "'a', 'b' (2)"
    assert cli.some(set("abcdefghij")) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', ... (10)"


@pytest.mark.parametrize(("options", "says"), [
    (["--width", "32", "--layers", "1", "--context", "64"],
     "the model's sizes are those of checkpoints/model.safetensors; leave out --width 32 (it has 16), --context 64 "
     "(it has 16)\n"),
    (["--start", "nowhere"], "there is no checkpoint nowhere"),
    ([], "the result would replace checkpoints/model.safetensors, which training starts from: choose another folder "
         "with --out, or replace it at the end with --out checkpoints\n"),
])
def test_a_start_that_cannot_be_is_explained(first, capsys, options, says):
    old = Path("checkpoints/model.safetensors").read_bytes()
    assert cli.main(["train", "--start", "checkpoints", "--text", "mine.txt", *QUICK, *options]) == 1
    printed = capsys.readouterr()
    assert says in printed.err and printed.out == ""
    assert Path("checkpoints/model.safetensors").read_bytes() == old


def test_with_its_own_folder_as_out_the_start_is_replaced_only_by_a_whole_result(first, monkeypatch):
    old = Path("checkpoints/model.safetensors").read_bytes()
    command = ["train", "--start", "checkpoints", "--text", "mine.txt", "--out", "checkpoints", *QUICK]

    def diverging(*args, **kwargs):
        raise NonFiniteError("training diverged")

    with monkeypatch.context() as patch:
        patch.setattr(cli, "train", diverging)
        assert cli.main(command) == 1
    assert Path("checkpoints/model.safetensors").read_bytes() == old
    assert cli.main(command) == 0
    assert load("checkpoints").step == 25


# --- going on after a stop


def stopped(monkeypatch, command, batches):
    """Run a command that gets Ctrl-C when it wants one batch more."""
    draw, drawn = module.random_batch, iter(range(100))

    def interrupted(*args):
        if next(drawn) == batches:
            raise KeyboardInterrupt
        return draw(*args)

    with monkeypatch.context() as patch:
        patch.setattr(module, "random_batch", interrupted)
        assert cli.main(command) == 130


@pytest.mark.parametrize("compiled", [True, False])
def test_a_resumed_run_ends_as_if_it_had_not_been_stopped(first, capsys, monkeypatch, compiled):
    """Twice stopped, of a training that starts from a checkpoint which it replaces: the hardest case."""
    command = ["train", "--start", "checkpoints", "--text", "mine.txt", *QUICK[compiled:]]
    assert cli.main([*command, "--out", "whole"]) == 0
    command += ["--out", "checkpoints", "--layers", "1"]
    stopped(monkeypatch, command, 3)
    printed = capsys.readouterr().out
    assert "interrupted after step 3 (8 steps in all); saved in checkpoints/model.safetensors" in printed
    assert load("checkpoints").step == 8
    added = re.search("add `(.*)` to the same command", printed)[1]
    stopped(monkeypatch, [*command, added], 10)
    assert load("checkpoints").step == 18
    assert cli.main(["train", "--text", "mine.txt", "--out", "checkpoints", added, *QUICK[compiled:1]]) == 0
    printed = capsys.readouterr().out
    assert "resumed     after 13 steps" in printed
    assert "saved       checkpoints/model.safetensors (25 steps in all)" in printed
    assert Path("whole/model.safetensors").read_bytes() == Path("checkpoints/model.safetensors").read_bytes()
    assert sorted(path.name for path in Path("checkpoints").iterdir()) == ["model.safetensors"]


def test_a_run_that_dies_goes_on_from_its_last_evaluation(first, capsys, monkeypatch):
    command = ["train", "--text", "mine.txt", *QUICK, *TINY, "--evaluate-every", "6", "--out"]
    draw, drawn = module.random_batch, iter(range(100))

    def dying(*args):
        if next(drawn) == 16:
            raise RuntimeError("died")
        return draw(*args)

    with monkeypatch.context() as patch:
        patch.setattr(module, "random_batch", dying)
        with pytest.raises(RuntimeError, match="died"):
            cli.main([*command, "tuned"])
    assert cli.main([*command, "tuned", "--resume"]) == 0
    assert "resumed     after 12 steps" in capsys.readouterr().out
    assert cli.main([*command, "whole"]) == 0
    assert Path("whole/model.safetensors").read_bytes() == Path("tuned/model.safetensors").read_bytes()


@pytest.mark.parametrize(("options", "says"), [
    (["--rate", "3e-2", "--width", "32", "--seed", "1"],
     "--resume goes on with the training in tuned/training.safetensors as it began; leave out --rate 0.03 (it has "
     "0.01), --seed 1 (it has 0), --width 32 (it has 16)\n"),
    (["--start", "checkpoints"], "leave out --start checkpoints (it began without)\n"),
    (["--text", "other.txt"],
     "tuned/training.safetensors is of a training on another text: give the same --text, or leave out --resume\n"),
    (["--out", "checkpoints"],
     "there is no training to go on with: checkpoints/training.safetensors is written at each evaluation and at "
     "Ctrl-C, and removed when training is finished\n"),
])
def test_what_cannot_be_resumed_is_explained(first, capsys, monkeypatch, options, says):
    command = ["train", "--text", "mine.txt", "--out", "tuned", *QUICK, *TINY]
    stopped(monkeypatch, command, 2)
    kept = {path.name: path.read_bytes() for path in Path("tuned").iterdir()}
    capsys.readouterr()
    assert cli.main([*command, "--resume", *options]) == 1
    printed = capsys.readouterr()
    assert says in printed.err and printed.out == ""
    assert {path.name: path.read_bytes() for path in Path("tuned").iterdir()} == kept


def test_a_training_that_was_stopped_is_not_written_over(first, capsys, monkeypatch):
    command = ["train", "--text", "mine.txt", "--out", "tuned", *QUICK, *TINY]
    stopped(monkeypatch, command, 2)
    kept = {path.name: path.read_bytes() for path in Path("tuned").iterdir()}
    capsys.readouterr()
    assert cli.main(command) == 1
    assert capsys.readouterr().err == (
        "minigrad-nn: tuned/training.safetensors is of a training that was stopped: go on with --resume, choose "
        "another folder with --out, or remove that file\n"
    )
    assert {path.name: path.read_bytes() for path in Path("tuned").iterdir()} == kept


@pytest.mark.parametrize("damage", ["cut", "metadata", "arrays"])
def test_a_damaged_training_is_refused_by_name(first, capsys, monkeypatch, damage):
    command = ["train", "--text", "mine.txt", "--out", "tuned", *QUICK, *TINY]
    stopped(monkeypatch, command, 2)
    path = Path("tuned/training.safetensors")
    data = path.read_bytes()
    data = {
        "cut": data[:-8],
        "metadata": data.replace(b'\\"evaluate_every\\"', b'\\"evaluate_ewery\\"'),
        "arrays": data.replace(b"memory[1].norm", b"memory[2].norm"),
    }[damage]
    path.write_bytes(data)
    assert cli.main([*command, "--resume"]) == 1
    says = {"cut": "is not a whole safetensors file", "metadata": "cannot be understood",
            "arrays": "memory[1].norm is missing; memory[2].norm is unknown"}[damage]
    printed = capsys.readouterr().err
    assert says in printed and str(path) in printed


def test_ctrl_c_while_generating_exits_with_130(capsys, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "load", interrupted)
    assert cli.main(["generate"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_sizes_that_need_more_memory_than_there_is_are_explained(text, capsys, monkeypatch):
    def full(*args):
        raise MemoryError("Unable to allocate 12.4 TiB")

    monkeypatch.setattr(cli, "init", full)
    assert cli.main(["train", "--text", str(text)]) == 1
    assert "out of memory, choose smaller sizes: Unable to allocate 12.4 TiB" in capsys.readouterr().err


def run_generate(folder, environment, **how):
    command = [sys.executable, "-m", "minigrad_nn", "generate", "--checkpoint", str(folder), "--tokens", "20"]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environment, stderr=subprocess.PIPE, check=False, **how)


def saved(folder, characters):
    config = Config(len(characters), n_layer=1, width=16, n_head=2, n_kv_head=1, head_dim=8, context=8)
    params = init(config, np.random.default_rng(0))
    checkpoint.save(folder / "model.safetensors", Checkpoint(params, config, CharacterTokenizer(characters), 0))
    return folder


def test_characters_that_the_terminal_lacks_are_written_as_escapes(tmp_path):
    done = run_generate(saved(tmp_path, "\nü中"), {"PYTHONIOENCODING": "ascii"}, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xfc" in done.stdout and b"\\u4e2d" in done.stdout


def test_a_closed_pipe_is_no_error(tmp_path):
    reads, writes = os.pipe()
    os.close(reads)
    done = run_generate(saved(tmp_path, "\nab"), {}, stdout=writes)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_defaults_are_those_of_the_main_job():
    options = cli.parser().parse_args(["train"])
    training = cli.begin(options, "text", None)
    recipe = training.recipe
    assert (options.text, options.start, recipe.batch, recipe.steps, recipe.seed) == (None, None, 12, 1500, 0)
    assert training.config == Config(vocab_size=3, n_layer=4, width=128, n_head=4, n_kv_head=2, head_dim=32, context=64)


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["generate", "--help"]])
def test_help_works_as_a_module(arguments):
    command = [sys.executable, "-W", "error", "-m", "minigrad_nn", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage: minigrad-nn" in result.stdout
