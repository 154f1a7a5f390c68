"""`python -m minigrad adjoint path/to/file.py:function --input x=3,4`: print the adjoint of a function."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.commandline import INPUT, CommandError, arguments, load, made
from minigrad.emit import adjoint_source, forward_source
from minigrad.errors import MinigradError, SourceLine, is_internal

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Run the command; return 0, or 2 with a message if it cannot be done."""
    options = _parser().parse_args(argv)
    rng = np.random.default_rng(0)
    try:
        f = _function(options.function, dict(_initial(text, rng) for text in options.init))
        args, kwargs = arguments(f, options.input, rng)
        write = forward_source if options.forward else adjoint_source
        source = write(f, *args, tidy=not options.exact, **kwargs)
    except MinigradError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception as error:
        place = _raised_at(error)
        if place is None:
            raise
        print(f"{options.function}: {type(error).__name__}: {error}\n  at  {place}", file=sys.stderr)
        return 2
    if options.output is None:
        print(source, end="")
    else:
        options.output.write_text(source, encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m minigrad adjoint", description="Print the adjoint of a function as readable NumPy."
    )
    parser.add_argument(
        "function", help="path/to/file.py:function or package.module:function; Class.method, or a Class for its forward"
    )
    parser.add_argument(
        "--init", action="append", default=[], metavar="NAME=VALUE", help="an argument of the class: d_model=8, W=3,4"
    )
    parser.add_argument("--input", **INPUT)
    parser.add_argument("--forward", action="store_true", help="print the function itself, what it calls included")
    parser.add_argument("--exact", action="store_true", help="a line for each operation, as it was recorded")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file")
    return parser


def _initial(text: str, rng: np.random.Generator) -> tuple[str, Any]:
    """Return an argument of a class: a whole number is itself here, not a shape."""
    name, _, value = text.partition("=")
    return (name, int(value)) if value.lstrip("-").isdigit() else made(text, rng)


def _function(target: str, init: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that is named; of a class, the method of an object of it."""
    place, _, name = target.rpartition(":")
    owner, _, method = name.rpartition(".")
    found = load(target)
    whole = load(f"{place}:{owner}") if owner else found
    if not isinstance(whole, type) or (owner and not inspect.isfunction(inspect.getattr_static(whole, method))):
        return found
    try:
        instance = whole(**init)
    except TypeError as error:
        raise CommandError(f"{error}\n  fix  give its arguments: --init NAME=VALUE, once for each") from error
    usual = "forward" if hasattr(instance, "forward") else "__call__"
    return getattr(instance, method if owner else usual)  # type: ignore[no-any-return]


def _raised_at(error: Exception) -> SourceLine | None:
    """Return the innermost line of the user's code that an error has passed."""
    found, trace, ours = None, error.__traceback__, False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        ours = ours or is_internal(file)
        if ours and not is_internal(file) and not file.startswith("<frozen"):
            found = SourceLine(file, trace.tb_lineno)
        trace = trace.tb_next
    return found
