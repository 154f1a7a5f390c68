"""The command line: `python -m minigrad_nn train` and `python -m minigrad_nn generate`."""

import argparse
import io
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.errors import MinigradError
from minigrad_nn import checkpoint, data, resume
from minigrad_nn.checkpoint import FILE, Checkpoint
from minigrad_nn.extras import require
from minigrad_nn.generate import SamplingError, continuations
from minigrad_nn.init import init
from minigrad_nn.model import Config
from minigrad_nn.plot import plot_losses
from minigrad_nn.process import keep_freed_memory, use_blas_threads
from minigrad_nn.resume import Training
from minigrad_nn.tokenizer import CharacterTokenizer
from minigrad_nn.train import Recipe, RecipeError, Trained, evaluate, train

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
    """Run a command; return 0, 1 for an error that is explained, 130 after Ctrl-C, 141 if nobody reads on."""
    options = parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a text may have characters that the terminal has not
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except MinigradError as error:
        print(f"minigrad-nn: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"minigrad-nn: out of memory, choose smaller sizes: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # nobody reads on, as after `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python flushes at its end goes nowhere
        return 128 + 13  # as a shell says that SIGPIPE has ended something
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
    resume_ = "go on with the training of --out that was stopped, with its sizes and its recipe"
    command.add_argument("--resume", action="store_true", help=resume_)
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
        ("evaluate-every", how["evaluate_every"], "steps between evaluations, at which --resume can go on"),
        ("seed", how["seed"], "of the first parameters, the batches and the sample"),
    ]:
        command.add_argument(f"--{name}", type=int, metavar="N", help=f"{meaning} ({default})")
    for name, meaning in [("rate", "peak learning rate"), ("clip", "largest norm of the gradient")]:
        command.add_argument(f"--{name}", type=float, metavar="X", help=f"{meaning} ({how[name]})")
    help_ = "of matrix products; more pay for large models on idle cores only (1)"
    command.add_argument("--threads", type=int, default=1, metavar="N", help=help_)

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
    under_way = path.with_name(resume.FILE)
    start = None if options.start is None or options.resume else load_start(options, path)
    training = load_begun(options, under_way, text) if options.resume else begin(options, text, start)
    if not options.resume and under_way.exists():
        raise RecipeError(
            f"{under_way} is of a training that was stopped: go on with --resume, choose another folder with --out, "
            "or remove that file"
        )
    recipe, config, tokenizer = training.recipe, training.config, training.tokenizer
    params = training.start.params if isinstance(training.start, Trained) else training.start
    parts = data.split(tokenizer.encode(text), config.context)
    checkpoint.prepare(path)  # before the work, not after it

    n_params = sum(leaf.size for leaf in tree.leaves(params))
    print(f"text        {source}: {len(text):,} characters, {len(set(text))} distinct")
    print(f"            {len(parts.train):,} to train on, the last {len(parts.validation):,} to validate on")
    print(f"model       {config.n_layer} layers, width {config.width}, {n_params:,} parameters")
    print(f"training    {recipe.steps:,} steps of {recipe.batch} x {config.context} characters", flush=True)
    use_blas_threads(options.threads)
    keep_freed_memory()
    if isinstance(training.start, Trained):
        print(f"resumed     after {training.start.step:,} steps", flush=True)
    elif start is not None:
        held_out = evaluate(params, data.windows(parts.validation, 16, config.context), config)
        print(f"start       {checkpoint.file_of(options.start)} after {start.step:,} steps; ", end="")
        print(f"validation loss {held_out:.4f} nats per character")
        new = set(text) - set(start.tokenizer.characters)
        if new:
            print(f"            characters new to it, with embeddings drawn at random: {some(new)}")
        sys.stdout.flush()

    def keep(reached: Trained) -> None:
        resume.save(under_way, training, reached, text)

    began = time.perf_counter()
    trained = train(training.start, config, parts, recipe, compiled=not options.no_compile, keep=keep)
    seconds = time.perf_counter() - began

    done = Checkpoint(trained.params, config, tokenizer, training.before + trained.step)
    checkpoint.save(path, done)
    in_all = f" ({done.step:,} steps in all)" if training.before else ""
    if trained.interrupted and trained.step < recipe.steps:
        keep(trained)
    else:
        under_way.unlink(missing_ok=True)
    if trained.interrupted:
        print(f"interrupted after step {trained.step:,}{in_all}; saved in {path}")
        if trained.step < recipe.steps:
            print("to go on    add `--resume` to the same command")
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
    wrong = sizes_unlike(options, start.config)
    if wrong:
        raise RecipeError(f"the model's sizes are those of {path}; leave out {', '.join(wrong)}")
    if options.out is None and out.exists() and out.samefile(path):
        raise RecipeError(
            f"the result would replace {path}, which training starts from: choose another folder with --out, "
            f"or replace it at the end with --out {shlex.quote(str(OUT))}"
        )
    return start


def begin(options: argparse.Namespace, text: str, start: Checkpoint | None) -> Training:
    """Return a training before its first step, with a token for each character of the text."""
    before = 0 if start is None else start.step
    recipe = recipe_of(given(options), before)
    rng = np.random.default_rng(recipe.seed - before)
    if start is not None:
        first = checkpoint.extend(start, text, rng)
    else:
        tokenizer = CharacterTokenizer.of(text)
        fields = [field for field, _ in SIZES.values() if getattr(options, field) is not None]
        config = Config(tokenizer.vocab_size, **{field: getattr(options, field) for field in fields})
        first = Checkpoint(init(config, rng), config, tokenizer, 0)
    return Training(first.params, recipe, first.config, first.tokenizer, before)


def given(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that the command names."""
    names = ("steps", "batch", "rate", "warmup", "clip", "evaluate_every", "seed")
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def recipe_of(fields: dict[str, Any], before: int) -> Recipe:
    """Return the recipe of a training of parameters that have been trained for some steps already."""
    recipe = Recipe(**fields)
    return replace(recipe, seed=recipe.seed + before)  # it should not draw the first batches again


def load_begun(options: argparse.Namespace, path: Path, text: str) -> Training:
    """Return the training that --resume goes on with, if the other options are those of before."""
    training = resume.load(path, text)
    begun = asdict(training.recipe)
    begun["seed"] -= training.before
    wrong = [
        f"--{name.replace('_', '-')} {value} (it has {begun[name]})"
        for name, value in given(options).items()
        if value != begun[name]
    ]
    wrong += sizes_unlike(options, training.config)
    if options.start is not None and not training.before:
        wrong.append(f"--start {options.start} (it began without)")
    if wrong:
        raise RecipeError(f"--resume goes on with the training in {path} as it began; leave out {', '.join(wrong)}")
    return training


def sizes_unlike(options: argparse.Namespace, config: Config) -> list[str]:
    """Return the options that ask for other sizes than those of a model."""
    return [
        f"--{name} {getattr(options, field)} (it has {getattr(config, field)})"
        for name, (field, _) in SIZES.items()
        if getattr(options, field) not in (None, getattr(config, field))
    ]


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
    if options.seed < 0:
        raise SamplingError(f"--seed should be at least 0, got {options.seed}")
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
