"""`python -m minigrad check path/to/layers.py:RMSNorm --init d_model=8 --input 2,4,8`: check a gradient."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.calling import FORWARD, find_method, names_of_results, raised_at
from minigrad.check.checks import check_adjoint, check_gradients
from minigrad.check.foreign import check_layer
from minigrad.check.naming import argument_names, is_float
from minigrad.check.pairs import copy_of, is_number
from minigrad.check.parameters import is_gradient_of
from minigrad.check.report import Report
from minigrad.check.subject import replayed_randomness
from minigrad.commandline import INPUT, CommandError, arguments, load, made
from minigrad.errors import AdjointMismatch, MinigradError

__all__ = ["main"]

DESCRIPTION = """
Check a gradient. What is checked depends on what is named:

  layers.py:RMSNorm                           a class with forward and backward, as it stands
  layers.py:conv_forward --backward conv_backward
                                              functions that hand on a cache
  rules.py:softmax --adjoint softmax_adjoint  a function and its adjoint(g, *args), by hand
  losses.py:svm_loss                          a function that returns its loss and dx, or {"W": dW}
  rules.py:softmax                            the generated gradient of a function

Exit code 0: it is right. 1: it is wrong, and the report says how. 2: it, or a part of it, cannot be checked.
"""


def main(argv: list[str]) -> int:
    """Run the command; return its exit code."""
    options = _parser().parse_args(argv)
    try:
        report = _checked(options)
    except AdjointMismatch as error:
        report = error.report
    except MinigradError as error:
        print(error, file=sys.stderr)
        return 2
    except (Exception, SystemExit) as error:  # the user's code raised: an exit code of 1 would say that it is wrong
        place = raised_at(error)
        if place is None and not isinstance(error, (TypeError, SyntaxError)):
            raise
        print(f"{options.target}: {type(error).__name__}: {error}", file=sys.stderr)
        if place is not None:
            print(f"  at  {place[0]}", file=sys.stderr)
        return 2
    print(report)
    if options.html is not None:
        report.html(options.html)
    if options.json is not None:
        report.json(options.json)
    if not report.right:
        return 1
    return 2 if report.unchecked else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m minigrad check",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", help="path/to/file.py:name or package.module:name")
    parser.add_argument("--adjoint", metavar="NAME", help="its adjoint(g, *args): a name in its file, or file.py:name")
    parser.add_argument("--backward", metavar="NAME", help="the function that takes its cache; of a class, the method")
    parser.add_argument("--forward", metavar="NAME", help="of a class: the forward method")
    parser.add_argument(
        "--init",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the class: d_model=8, W=3,4",
    )
    parser.add_argument("--input", **INPUT)
    parser.add_argument(
        "--gradient",
        action="append",
        default=[],
        metavar="W=PATH",
        help="of a class: where the gradient of a parameter is left, if its name does not say; repeat for each",
    )
    parser.add_argument(
        "--constant",
        action="append",
        default=[],
        metavar="NAME",
        help="of a class: an array that is no parameter, though the result depends on it; repeat for each",
    )
    parser.add_argument(
        "--no-other-shapes", action="store_true", help="try the shapes of the inputs only, none made from them"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    return parser


def _checked(options: argparse.Namespace) -> Report:
    rng = np.random.default_rng(options.seed)
    target = load(options.target)
    if isinstance(target, type):
        initial = dict(_initial(text, rng) for text in options.init)
        try:
            layer = target(**initial)
        except TypeError as error:
            if raised_at(error) is not None:
                raise
            raise CommandError(f"{error}\n  fix  give its arguments: --init NAME=VALUE, once for each") from error
        forward = find_method(layer, [options.forward] if options.forward else FORWARD, "forward")
        return check_layer(
            layer,
            *_in_order(getattr(layer, forward), options.input, rng),
            forward=options.forward,
            backward=options.backward,
            gradients=dict(_path(text) for text in options.gradient),
            constants=options.constant,
            other_shapes=not options.no_other_shapes,
        )
    if options.backward is not None:
        pair = target, _other(options, options.backward)
        inputs = _in_order(target, options.input, rng)
        return check_layer(pair, *inputs, other_shapes=not options.no_other_shapes)
    args, kwargs = arguments(target, options.input, rng)
    if options.adjoint is not None:
        adjoint = _other(options, options.adjoint)
        return check_adjoint(target, adjoint, *args, other_shapes=not options.no_other_shapes, **kwargs)
    with_gradients = False if kwargs else _returns_gradients(target, args)
    if with_gradients:
        return check_layer(target, *args, other_shapes=not options.no_other_shapes)
    report = check_gradients(target, *args, **kwargs)
    report.notes += [f"{name}, beside it, was not checked: add {option} {name}" for option, name in _beside(target)]
    if with_gradients is None:
        called = getattr(target, "__name__", "the function")
        report.notes.append(
            f"what {called} returns besides a number was not checked; if it is a gradient, call it dx, dw ... or grads"
        )
    return report


def _beside(function: Any) -> list[tuple[str, str]]:
    """Return the functions beside a function that seem to be its backward pass, each with the option to name it by."""
    name = getattr(function, "__name__", "")
    names = [("--adjoint", f"{name}_adjoint"), ("--adjoint", f"{name}_vjp"), ("--backward", f"{name}_backward")]
    if "forward" in name:
        names.append(("--backward", name.replace("forward", "backward")))
    scope = getattr(function, "__globals__", {})
    return [(option, other) for option, other in names if callable(scope.get(other))]


def _returns_gradients(function: Any, inputs: Sequence[Any]) -> bool | None:
    """Tell whether a function returns a loss and gradients of its inputs, by what it calls them: dx for x, grads.

    None where it returns arrays in the shapes of inputs besides a loss, and they could be anything.
    """
    out: list[Any] = []
    with replayed_randomness():
        called = names_of_results(function, lambda: out.append(function(*copy_of(inputs))))
    if not isinstance(out[0], (tuple, list)) or len(out[0]) < 2 or not is_number(out[0][0]) or np.ndim(out[0][0]):
        return False
    names, besides = argument_names(function, len(inputs)), out[0][1:]

    def is_gradient(name: str, value: Any) -> bool:
        keys = list(value) if isinstance(value, dict) else [name] if name not in names else []
        named = all(any(is_gradient_of(key, n) for n in names) for key in keys)
        return ("grad" in name.lower() or named) if keys else False

    if called and all(map(is_gradient, called[1:], besides)):
        return True
    shapes = {np.shape(x) for x in inputs if is_float(x)}
    return None if any(is_float(x) and np.shape(x) in shapes for x in tree.leaves(list(besides))) else False


def _other(options: argparse.Namespace, name: str) -> Any:
    return load(name if ":" in name else f"{options.target.rpartition(':')[0]}:{name}")


def _in_order(forward: Callable[..., Any], texts: list[str], rng: np.random.Generator) -> tuple[Any, ...]:
    """Return the inputs of a forward pass, which a check of a layer takes in their order only."""
    args, kwargs = arguments(forward, texts, rng)
    if kwargs:
        raise CommandError(f"{', '.join(kwargs)} can be given to the forward pass by name only: that is not supported")
    return args


def _path(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise CommandError(f"wanted the name of a parameter and where its gradient is: W=update; got {text!r}")
    return name, path


def _initial(text: str, rng: np.random.Generator) -> tuple[str, Any]:
    """Return an argument of a class: a whole number is itself here, not a shape."""
    name, _, value = text.partition("=")
    return (name, int(value)) if value.lstrip("-").isdigit() else made(text, rng)
