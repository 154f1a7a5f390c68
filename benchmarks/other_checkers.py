"""The gradient checkers of autograd, JAX and PyTorch, as they are by default; and wrong adjoints that some let pass.

python benchmarks/other_checkers.py
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from minigrad.check import check_adjoint

Function = Callable[..., Any]


def autograd_checks(forward: Function, adjoint: Function, leaves: list[np.ndarray]) -> None:
    """Run autograd's check_grads; it raises AssertionError, or whatever the adjoint raises."""
    from autograd.extend import defvjp, primitive
    from autograd.test_util import check_grads

    f = primitive(forward)
    pulls = [lambda out, *xs, i=i: lambda g: adjoint(g, *xs)[i] for i in range(len(leaves))]
    defvjp(f, *pulls)
    np.random.seed(0)  # noqa: NPY002  (autograd draws from it)
    check_grads(f, tuple(range(len(leaves))), modes=["rev"], order=1)(*leaves)


def jax_checks(forward: Function, adjoint: Function, leaves: list[np.ndarray]) -> None:
    """Run JAX's check_grads in float64."""
    import jax
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
    out = forward(*leaves)
    result = jax.ShapeDtypeStruct(out.shape, out.dtype)
    push, pull = _on_arrays(forward), _on_arrays(adjoint)
    f = jax.custom_vjp(lambda *xs: jax.pure_callback(push, result, *xs))
    f.defvjp(lambda *xs: (f(*xs), xs), lambda xs, g: jax.pure_callback(pull, tuple(like), g, *xs))
    check_grads(f, leaves, order=1, modes=["rev"])


def torch_checks(forward: Function, adjoint: Function, leaves: list[np.ndarray]) -> None:
    """Run PyTorch's gradcheck as it is by default: every element of the Jacobian."""
    import torch

    class Checked(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.save_for_backward(*xs)
            return torch.from_numpy(np.array(forward(*(x.detach().numpy() for x in xs))))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            found = adjoint(g.detach().numpy(), *(x.detach().numpy() for x in ctx.saved_tensors))
            return tuple(torch.from_numpy(np.array(x)) for x in found)

    torch.autograd.gradcheck(Checked.apply, tuple(torch.tensor(x, requires_grad=True) for x in leaves))


def _on_arrays(f: Function) -> Function:
    return lambda *xs: f(*map(np.asarray, xs))


def minigrad_checks(forward: Function, adjoint: Function, leaves: list[np.ndarray]) -> None:
    """Run check_adjoint."""
    check_adjoint(forward, adjoint, *leaves)


CHECKERS = {"minigrad": minigrad_checks, "autograd": autograd_checks, "jax": jax_checks, "torch": torch_checks}


def refused(checker: str, forward: Function, adjoint: Function, leaves: list[np.ndarray]) -> bool:
    """Return whether a checker raises: what it will, or what the adjoint does."""

    def pull(g: Any, *xs: Any) -> tuple[Any, ...]:
        found = adjoint(g, *xs)
        return found if isinstance(found, tuple) else (found,)

    logging.disable()  # JAX writes what a callback raises
    try:
        CHECKERS[checker](forward, pull, leaves)
    except ImportError:
        raise
    except Exception:
        return True
    return False


def centre(x: Any) -> Any:
    """Subtract the mean of each row."""
    return x - np.mean(x, axis=-1, keepdims=True)


def overwriting(g: Any, x: Any) -> Any:
    """Right, but for what it does to the incoming gradient."""
    g *= np.cos(x)
    return g


FLAT, SQUARE = np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(4, 4))
WRONG = {
    "three times too large, of size 1e-8": (lambda x: 1e-8 * np.sin(x), lambda g, x: 3e-8 * g * np.cos(x), FLAT),
    "0.05 % too large": (np.sin, lambda g, x: 1.0005 * g * np.cos(x), FLAT),
    "g * g in the place of g": (np.sin, lambda g, x: g * g * np.cos(x), FLAT),
    "right if there are as many rows as columns": (centre, lambda g, x: g - g.sum(-1, keepdims=True) / len(g), SQUARE),
    "overwrites the incoming gradient": (np.sin, overwriting, FLAT),
}


def main() -> None:
    """Print who lets which wrong adjoint pass."""
    print(f"{'':44}", *(f"{c:>9}" for c in CHECKERS))
    for name, (forward, adjoint, x) in WRONG.items():
        found = [refused(c, forward, adjoint, [x.copy()]) for c in CHECKERS]
        print(f"{name:44}", *(f"{'refuses' if r else 'passes':>9}" for r in found))


if __name__ == "__main__":
    main()
