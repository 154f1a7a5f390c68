"""`python -m minigrad COMMAND ...`: each command is a module, imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys

COMMANDS = {
    "adjoint": ("minigrad.emit.command", "print the adjoint of a function as readable NumPy"),
    "check": ("minigrad.check.command", "check a gradient, or a backward pass written by hand"),
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    command, *rest = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if command in COMMANDS:
        return int(importlib.import_module(COMMANDS[command][0]).main(rest))
    usage = ["usage: python -m minigrad COMMAND ...", "", *(f"  {c:10}{what}" for c, (_, what) in COMMANDS.items())]
    print("\n".join(usage), file=sys.stdout if command in ("-h", "--help") else sys.stderr)
    return 0 if command in ("-h", "--help") else 2


def _run() -> int:
    """Run the command; if nobody reads on, as after `| head`, end quietly with the code of a closed pipe."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python flushes at its end goes nowhere
        return 128 + 13  # as a shell says that SIGPIPE has ended something
    return code


if __name__ == "__main__":
    sys.exit(_run())
