"""Programs as readable NumPy: the adjoint of a function, as a person would write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minigrad.adjoint import adjoint_program
from minigrad.custom import is_differentiable
from minigrad.emit.source import Emitted, write_adjoint, write_forward
from minigrad.emit.stacking import stacks
from minigrad.emit.tidy import tidy as tidied
from minigrad.errors import SourceLine, user_frame
from minigrad.simplify import simplify

__all__ = ["Emitted", "adjoint_function", "adjoint_source", "emit_adjoint", "emit_forward", "forward_source"]


def adjoint_source(f: Callable[..., Any], *args: Any, tidy: bool = True, **kwargs: Any) -> str:
    """Return the adjoint of a function as readable NumPy source.

    The source is a module with one function, `<f>_adjoint(g, *args, **kwargs)`, which returns a gradient for each
    positional argument that has float arrays in it: a tuple, or the gradient itself if there is one such argument.
    It computes the forward values it needs again, under the names they have in `f` and with the lines of `f` as
    comments, and calls the gradient of `scores` `dscores`. Shapes stand at the ends of the lines.

    Parameters
    ----------
    f
        A function of arrays and trees in plain NumPy. Its source is not needed: a lambda, a closure, a method and a
        function typed at a prompt will do.
    *args, **kwargs
        Its arguments. Shapes, dtypes, what is no array (an eps, a None) and the branches that Python code takes are
        fixed. Arrays among the keyword arguments, such as masks and ids, are parameters of the result, without a
        gradient.
    tidy
        Rearrange the formulas as a person would, which rounds differently: 1e-14 of the largest element. False: one
        line for each operation as it was recorded; the result is bit for bit that of `minigrad.vjp`.

    Returns
    -------
    str
        Arrays that `f` uses and that are no arguments (a closure's, a module's, drawn at random on the way) are
        further parameters, named as `f` names them and listed in the docstring, unless they are as easily written
        out. `adjoint_function` fills them in; `emit_adjoint(...).constants` is a dict of them.

    Raises
    ------
    MissingAdjoint, UnsupportedError, CutGraphError
        As when `f` is differentiated.
    """
    return emit_adjoint(f, *args, tidy=tidy, **kwargs).text


def adjoint_function(f: Callable[..., Any], *args: Any, tidy: bool = True, **kwargs: Any) -> Callable[..., Any]:
    """Return the function that `adjoint_source` writes, executed, and the arrays it had from elsewhere filled in.

    It is an adjoint as `minigrad.custom_adjoint` and the checks take one, for arguments of these shapes.
    """
    return emit_adjoint(f, *args, tidy=tidy, **kwargs).function()


def forward_source(f: Callable[..., Any], *args: Any, tidy: bool = True, **kwargs: Any) -> str:
    """Return a function as one piece of NumPy source: what it calls is part of it, loops are unrolled.

    Parameters
    ----------
    f, *args, **kwargs
        As for `adjoint_source`.
    tidy
        Write values without a name into the formulas that use them. Either way the result is that of `f`, but for
        `x ** 2`, which NumPy computes in another way than `np.power(x, 2)`.
    """
    return emit_forward(f, *args, tidy=tidy, **kwargs).text


def emit_adjoint(f: Callable[..., Any], *args: Any, tidy: bool = True, **kwargs: Any) -> Emitted:
    """Return what `adjoint_source` returns together with the constants, ready to be executed."""
    wrt = [i for i, a in enumerate(args) if is_differentiable(a)]
    _, program = adjoint_program(f, *args, wrt=wrt, **kwargs)
    return write_adjoint(f, tidied(program) if tidy else program, args, kwargs, wrt, not tidy, _caller())


def emit_forward(f: Callable[..., Any], *args: Any, tidy: bool = True, **kwargs: Any) -> Emitted:
    """Return what `forward_source` returns together with the constants, ready to be executed."""
    program, _ = adjoint_program(f, *args, **kwargs)
    return write_forward(f, simplify(stacks(program)) if tidy else program, args, kwargs, not tidy, _caller())


def _caller() -> SourceLine | None:
    """Return the line that asked for the source: what is traced there, when f is NumPy's, is no line of f."""
    frame = user_frame()
    return None if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno)
