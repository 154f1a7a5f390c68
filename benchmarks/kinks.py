"""Kinks: what minigrad and its peers answer where a derivative does not exist, or hides behind 0 * inf.

python -m benchmarks kinks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = ["KINKS", "PEERS", "Kink", "answers", "markdown", "missing", "text"]


@dataclass(frozen=True)
class Kink:
    """A function of one array, in NumPy's words and in PyTorch's, and the point."""

    name: str
    at: tuple[float, ...]
    function: Callable[[Any, Any], Any]  # (np, x) -> ()
    torch: Callable[[Any, Any], Any]  # (torch, x) -> ()
    ours: tuple[float, ...]  # the convention


KINKS = [
    Kink("`maximum(x, y)`, x = y: d/dx", (1.0,), lambda np, x: np.maximum(x, np.array([1.0])).sum(),
         lambda t, x: t.maximum(x, t.ones_like(x)).sum(), (0.5,)),
    Kink("`minimum(x, y)`, x = y: d/dx", (1.0,), lambda np, x: np.minimum(x, np.array([1.0])).sum(),
         lambda t, x: t.minimum(x, t.ones_like(x)).sum(), (0.5,)),
    Kink("`max([2, 3, 3])`", (2.0, 3.0, 3.0), lambda np, x: np.max(x), lambda t, x: t.amax(x), (0, 0.5, 0.5)),
    Kink("`min([1, 1, 2])`", (1.0, 1.0, 2.0), lambda np, x: np.min(x), lambda t, x: t.amin(x), (0.5, 0.5, 0)),
    Kink("`abs` at 0", (0.0,), lambda np, x: np.abs(x).sum(), lambda t, x: t.abs(x).sum(), (0,)),
    Kink("`where(x <= 0, 0, x)` (ReLU) at 0", (0.0,), lambda np, x: np.where(x <= 0, 0.0, x).sum(),
         lambda t, x: t.relu(x).sum(), (0,)),
    Kink("`maximum(x, 0)` at 0", (0.0,), lambda np, x: np.maximum(x, 0.0).sum(),
         lambda t, x: t.maximum(x, t.zeros_like(x)).sum(), (0.5,)),
    Kink("`clip(x, 0, 1)` at 0 and 1", (0.0, 1.0), lambda np, x: np.clip(x, 0.0, 1.0).sum(),
         lambda t, x: t.clamp(x, 0.0, 1.0).sum(), (1, 1)),
    Kink("`linalg.norm` at 0", (0.0, 0.0), lambda np, x: np.linalg.norm(x), lambda t, x: t.linalg.norm(x), (0, 0)),
    Kink("`linalg.norm` at 0, squared", (0.0, 0.0), lambda np, x: np.linalg.norm(x) ** 2,
         lambda t, x: t.linalg.norm(x) ** 2, (0, 0)),
    Kink("`std` of a constant", (2.0, 2.0), lambda np, x: np.std(x), lambda t, x: t.std(x, correction=0), (0, 0)),
    Kink("`x ** 0` at 0", (0.0,), lambda np, x: (x**0).sum(), lambda t, x: (x**0).sum(), (0,)),
    Kink("`x ** y` at 0, an array y = [0, 1, 2]", (0.0, 0.0, 0.0),
         lambda np, x: (x ** np.array([0.0, 1.0, 2.0])).sum(),
         lambda t, x: (x ** t.tensor([0.0, 1.0, 2.0], dtype=x.dtype)).sum(), (0, 1, 0)),
    Kink("`where(x > 0, sqrt(x), 0)` at 0", (0.0,), lambda np, x: np.where(x > 0, np.sqrt(x), 0.0).sum(),
         lambda t, x: t.where(x > 0, t.sqrt(x), 0.0).sum(), (0,)),
    Kink("`where(x == 0, 0, 1 / x)` at 0", (0.0,), lambda np, x: np.where(x == 0, 0.0, 1 / x).sum(),
         lambda t, x: t.where(x == 0, 0.0, 1 / x).sum(), (0,)),
    Kink("`log(x)[1]` at [0, 1]", (0.0, 1.0), lambda np, x: np.log(x)[1], lambda t, x: t.log(x)[1], (0, 1)),
    Kink("`0 * sqrt(x)` at 0", (0.0,), lambda np, x: (0.0 * np.sqrt(x)).sum(),
         lambda t, x: (0.0 * t.sqrt(x)).sum(), (0,)),
    Kink("`prod([2, 0, 3])`", (2.0, 0.0, 3.0), lambda np, x: np.prod(x), lambda t, x: t.prod(x), (0, 6, 0)),
    Kink("`sinc` at 0", (0.0,), lambda np, x: np.sinc(x).sum(), lambda t, x: t.sinc(x).sum(), (0,)),
    Kink("`logaddexp(-inf, -inf)`: d/dx", (-np.inf,), lambda np, x: np.logaddexp(x, np.array([-np.inf])).sum(),
         lambda t, x: t.logaddexp(x, t.full_like(x, -t.inf)).sum(), (0,)),
]  # fmt: skip


def _minigrad(kink: Kink) -> Any:
    import minigrad

    return minigrad.grad(lambda x: kink.function(np, x), np.array(kink.at))


def _jax(kink: Kink) -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax.grad(lambda x: kink.function(jax.numpy, x))(np.array(kink.at))


def _autograd(kink: Kink) -> Any:
    from autograd import grad
    from autograd import numpy as autograd_numpy

    return grad(lambda x: kink.function(autograd_numpy, x))(np.array(kink.at))


def _torch(kink: Kink) -> Any:
    import torch

    x = torch.tensor(kink.at, dtype=torch.float64, requires_grad=True)
    kink.torch(torch, x).backward()
    return x.grad.numpy()


PEERS: dict[str, Callable[[Kink], Any]] = {
    "minigrad": _minigrad, "jax": _jax, "torch": _torch, "autograd": _autograd,
}  # fmt: skip


def answers() -> dict[str, dict[str, list[float] | str]]:
    """Return each installed library's gradient at each kink, or the name of the error it raises."""
    libraries = [name for name in PEERS if name not in missing()]
    return {kink.name: {name: _answer(PEERS[name], kink) for name in libraries} for kink in KINKS}


def missing() -> list[str]:
    """Return the peers that are not installed."""
    return [name for name in PEERS if find_spec(name) is None]


def _answer(gradient: Callable[[Kink], Any], kink: Kink) -> list[float] | str:
    with np.errstate(all="ignore"):
        try:
            return [float(g) for g in np.ravel(gradient(kink))]
        except Exception as error:  # an answer too
            return type(error).__name__


def markdown(found: Mapping[str, Mapping[str, list[float] | str]]) -> str:
    """Return the answers as a Markdown table; where a peer answers otherwise than minigrad, in bold."""
    libraries = list(next(iter(found.values())))
    lines = [f"| gradient of | {' | '.join(map(_with_version, libraries))} |", "|---" * (len(libraries) + 1) + "|"]
    for name, by_library in found.items():
        ours = text(by_library["minigrad"])
        cells = [text(answer) for answer in by_library.values()]
        lines.append(f"| {name} | {' | '.join(c if c == ours else f'**{c}**' for c in cells)} |")
    return "\n".join(lines)


def text(answer: list[float] | str) -> str:
    """Return an answer in a few characters."""
    return answer if isinstance(answer, str) else ", ".join(f"{g + 0.0:.4g}" for g in answer)


def _with_version(library: str) -> str:
    try:
        return library if library == "minigrad" else f"{library} {version(library)}"
    except PackageNotFoundError:
        return library
