"""The command line, from text to checkpoint to text, and its errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from minigrad_nn import checkpoint, cli
from minigrad_nn.checkpoint import load
from minigrad_nn.data import language_reference

ROOT = Path(__file__).resolve().parents[1]
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
])
def test_what_cannot_be_trained_is_explained(tmp_path, text, capsys, options, says):
    code = cli.main(["train", "--out", str(tmp_path / "out"), "--text", str(text), *TINY, *options])
    assert code == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


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
    assert "interrupted after 0 steps; they are saved in" in capsys.readouterr().out
    assert load(out / "model.safetensors").step == 0


def test_ctrl_c_while_generating_exits_with_130(capsys, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "load", interrupted)
    assert cli.main(["generate"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_the_defaults_are_those_of_the_main_job():
    options = vars(cli.parser().parse_args(["train"]))
    wanted = {"text": None, "layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "context": 64, "batch": 12,
              "steps": 1500, "head_dim": 32}
    assert {name: options[name] for name in wanted} == wanted


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["generate", "--help"]])
def test_help_works_as_a_module(arguments):
    command = [sys.executable, "-W", "error", "-m", "minigrad_nn", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "usage: minigrad-nn" in result.stdout
