"""The command line: `python -m minigrad_nn train` and `python -m minigrad_nn generate`."""

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import MinigradError
from minigrad_nn import checkpoint, data
from minigrad_nn.checkpoint import FILE, Checkpoint
from minigrad_nn.extras import require
from minigrad_nn.generate import SamplingError, continuations
from minigrad_nn.init import init
from minigrad_nn.model import Config
from minigrad_nn.plot import plot_losses
from minigrad_nn.process import keep_freed_memory, use_blas_threads
from minigrad_nn.tokenizer import CharacterTokenizer
from minigrad_nn.train import Recipe, RecipeError, evaluate, train

__all__ = ["main"]

OUT = Path("checkpoints")
SIZES = {  # option -> field of Config, and what it counts
    "layers": ("n_layer", "blocks"),
    "width": ("width", "of the residual stream"),
    "heads": ("n_head", "query heads"),
    "kv-heads": ("n_kv_head", "heads of keys and values"),
    "head-dim": ("head_dim", "channels per head"),
    "context": ("context", "characters per sequence"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for an error that is explained, 130 after Ctrl-C."""
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except MinigradError as error:
        print(f"minigrad-nn: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nminigrad-nn: interrupted", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the parser of both commands; the defaults shown are those of `Config` and `Recipe`."""
    top = argparse.ArgumentParser(prog="minigrad-nn", description="A transformer with generated gradients.")
    commands = top.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("train", help="train on a text and save a checkpoint")
    command.set_defaults(run=run_train)
    command.add_argument("--text", metavar="PATH", help="UTF-8 text (Python's own language reference)")
    start = "checkpoint whose parameters, sizes and characters to start from: file or folder (none)"
    command.add_argument("--start", metavar="PATH", type=Path, help=start)
    command.add_argument("--out", metavar="DIR", type=Path, help=f"for the checkpoint ({OUT})")
    command.add_argument("--no-compile", action="store_true", help="plain NumPy at every step, to look inside")
    command.add_argument("--plot", action="store_true", help="also save the loss curve as DIR/loss.png")
    size = {field.name: field.default for field in fields(Config)}
    how = {field.name: field.default for field in fields(Recipe)}
    for name, (field, meaning) in SIZES.items():
        command.add_argument(f"--{name}", type=int, dest=field, metavar="N", help=f"{meaning} ({size[field]})")
    for name, default, meaning in [
        ("batch", how["batch"], "sequences per step"),
        ("steps", how["steps"], "updates"),
        ("warmup", how["warmup"], "steps until the peak rate, at most a tenth of all"),
        ("seed", how["seed"], "of the first parameters, the batches and the sample"),
        ("threads", 1, "of matrix products; more pay for large models on idle cores only"),
    ]:
        help_ = f"{meaning} ({default})"
        command.add_argument(f"--{name}", type=int, default=default, metavar="N", help=help_)
    for name, meaning in [("rate", "peak learning rate"), ("clip", "largest norm of the gradient")]:
        help_ = f"{meaning} ({how[name]})"
        command.add_argument(f"--{name}", type=float, default=how[name], metavar="X", help=help_)

    command = commands.add_parser("generate", help="continue a text from a checkpoint")
    command.set_defaults(run=run_generate)
    default = OUT / FILE
    command.add_argument("--checkpoint", metavar="PATH", type=Path, default=default, help=f"file or folder ({default})")
    command.add_argument("--prompt", default="\n", help="text to continue (a line end)")
    command.add_argument("--tokens", type=int, default=500, metavar="N", help="characters to add (500)")
    command.add_argument("--temperature", type=float, default=0.8, metavar="X", help="0 is greedy (0.8)")
    command.add_argument("--top-k", type=int, metavar="K", help="choose among the K most probable (all)")
    command.add_argument("--top-p", type=float, metavar="P", help="among the most probable, P together (1)")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of the random choices (0)")
    return top


def run_train(options: argparse.Namespace) -> int:
    """Train, save a checkpoint, print a sample."""
    for package in ("safetensors", "tqdm", *(["matplotlib"] if options.plot else [])):
        require(package, "training")  # before the work, not after it
    if options.threads < 1:
        raise RecipeError(f"--threads should be at least 1, got {options.threads}")
    text = data.language_reference() if options.text is None else data.read_text(options.text)
    source = "the language reference of this Python" if options.text is None else options.text
    if not text:
        raise data.DataError(f"{source} is empty")
    path = (options.out or OUT) / FILE
    start = None if options.start is None else load_start(options, path)
    first = first_model(options, text, start)
    config, tokenizer = first.config, first.tokenizer
    names = ("steps", "batch", "rate", "warmup", "clip")
    seed = options.seed + first.step  # training that is continued should not draw its first batches again
    recipe = Recipe(**{name: getattr(options, name) for name in names}, seed=seed)
    parts = data.split(tokenizer.encode(text), config.context)
    checkpoint.prepare(path)  # before the work, not after it

    n_params = sum(leaf.size for leaf in tree.leaves(first.params))
    print(f"text        {source}: {len(text):,} characters, {len(set(text))} distinct")
    print(f"            {len(parts.train):,} to train on, the last {len(parts.validation):,} to validate on")
    print(f"model       {config.n_layer} layers, width {config.width}, {n_params:,} parameters")
    print(f"training    {recipe.steps:,} steps of {recipe.batch} x {config.context} characters", flush=True)
    use_blas_threads(options.threads)
    keep_freed_memory()
    if start is not None:
        held_out = evaluate(first.params, data.windows(parts.validation, 16, config.context), config)
        print(f"start       {checkpoint.file_of(options.start)} after {start.step:,} steps; ", end="")
        print(f"validation loss {held_out:.4f} nats per character")
        new = set(text) - set(start.tokenizer.characters)
        if new:
            print(f"            characters new to it, with embeddings drawn at random: {some(new)}")
        sys.stdout.flush()
    began = time.perf_counter()
    trained = train(first.params, config, parts, recipe, compiled=not options.no_compile)
    seconds = time.perf_counter() - began

    done = Checkpoint(trained.params, config, tokenizer, first.step + trained.step)
    checkpoint.save(path, done)
    in_all = "" if start is None else f" ({done.step:,} steps in all)"
    if trained.interrupted:
        print(f"interrupted after {trained.step:,} steps{in_all}; they are saved in {path}")
        if trained.step < recipe.steps:
            again = shlex.join(["--start", str(path), "--out", str(path.parent)])
            print(f"to go on    add `{again} --steps {recipe.steps - trained.step}` to the same command; the memory")
            print("            of AdamW is not saved and starts anew, and so does the learning rate, with its warmup")
    else:
        print(
            f"finished    in {seconds:.0f} s; validation loss {trained.validation[-1][1]:.4f} nats "
            "per character, over all of the held-out text"
        )
        print(f"saved       {path}{in_all}")
    if options.plot and trained.losses:
        plot_losses(path.parent / "loss.png", trained.losses, trained.validation)
        print(f"plotted     {path.parent / 'loss.png'}")
    if trained.interrupted:
        return 130
    print("sample")
    prompt = "\n" if "\n" in tokenizer.characters else tokenizer.characters[0]
    write(done, prompt, 300, np.random.default_rng(recipe.seed), 0.8)
    word = shlex.quote((text.split() or [prompt])[0])
    print(f"more        {this_python()} -m minigrad_nn generate --checkpoint {path} --prompt {word}")
    return 0


def load_start(options: argparse.Namespace, out: Path) -> Checkpoint:
    """Return the checkpoint of --start, if the other options go with it."""
    start = checkpoint.load(options.start)
    path = checkpoint.file_of(options.start)
    wrong = [
        f"--{name} {getattr(options, field)} (the checkpoint has {getattr(start.config, field)})"
        for name, (field, _) in SIZES.items()
        if getattr(options, field) not in (None, getattr(start.config, field))
    ]
    if wrong:
        raise RecipeError(f"the model's sizes are those of {path}; leave out {', '.join(wrong)}")
    if options.out is None and out.exists() and out.samefile(path):
        raise RecipeError(
            f"the result would replace {path}, which training starts from: choose another folder with --out, "
            f"or replace it at the end with --out {shlex.quote(str(OUT))}"
        )
    return start


def first_model(options: argparse.Namespace, text: str, start: Checkpoint | None) -> Checkpoint:
    """Return the model before the first step, with a token for each character of the text."""
    rng = np.random.default_rng(options.seed)
    if start is not None:
        return checkpoint.extend(start, text, rng)
    tokenizer = CharacterTokenizer.of(text)
    fields = [field for field, _ in SIZES.values() if getattr(options, field) is not None]
    config = Config(tokenizer.vocab_size, **{field: getattr(options, field) for field in fields})
    return Checkpoint(init(config, rng), config, tokenizer, 0)


def some(characters: set[str]) -> str:
    """Return the first few characters and how many there are: "'é', 'ü' (2)"."""
    first = sorted(characters)[:8]
    return ", ".join(map(repr, first)) + (", ..." if len(characters) > len(first) else "") + f" ({len(characters)})"


def this_python() -> str:
    """Return how to call the Python that is running, as short as it can be from here."""
    path = Path(sys.executable)
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def run_generate(options: argparse.Namespace) -> int:
    """Continue the prompt with the checkpoint's model."""
    if not options.prompt:
        raise SamplingError("--prompt is empty: there is nothing to continue; leave it out to start with a line end")
    loaded = checkpoint.load(options.checkpoint)
    rng = np.random.default_rng(options.seed)
    write(loaded, options.prompt, options.tokens, rng, options.temperature, options.top_k, options.top_p)
    return 0


def write(model: Checkpoint, prompt: str, n_tokens: int, *how: Any) -> None:
    """Print a prompt and its continuation, each character as soon as it is chosen."""
    if n_tokens < 0:
        raise SamplingError(f"--tokens should be at least 0, got {n_tokens}")
    ids = model.tokenizer.encode(prompt)
    print(prompt, end="", flush=True)
    steps = continuations(model.params, ids[None], model.config, *how)
    for _, token in zip(range(n_tokens), steps, strict=False):  # the second has no end
        print(model.tokenizer.decode(token), end="", flush=True)
    print()
