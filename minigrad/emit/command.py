"""`python -m minigrad adjoint path/to/file.py:function --input x=3,4`: print the adjoint of a function."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from minigrad.commandline import bound, load, made
from minigrad.emit import adjoint_source, forward_source
from minigrad.errors import MinigradError

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Run the command; return 0, or 2 with a message if it cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m minigrad adjoint", description="Print the adjoint of a function as readable NumPy."
    )
    parser.add_argument("function", help="path/to/file.py:function or package.module:function")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=SHAPE",
        help="an argument: x=3,4 or ids=2,5:int64 for an array, eps=1e-5 for a value; repeat for each",
    )
    parser.add_argument("--forward", action="store_true", help="print the function itself, what it calls included")
    parser.add_argument("--exact", action="store_true", help="a line for each operation, as it was recorded")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to a file")
    options = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    try:
        f = load(options.function)
        args, kwargs = bound(f, dict(made(text, rng) for text in options.input))
        write = forward_source if options.forward else adjoint_source
        source = write(f, *args, tidy=not options.exact, **kwargs)
    except MinigradError as error:
        print(error, file=sys.stderr)
        return 2
    if options.output is None:
        print(source, end="")
    else:
        options.output.write_text(source, encoding="utf-8")
    return 0
