"""Everything that is known to be right about a forward pass, to recognise the variables of a hand-written adjoint by.

A variable is recognised by its value first: whatever it is called, `u` is right if its value is the gradient of
`scores`, reshaped, transposed, or before a sum, or a part of that gradient. Its name counts only when its value
fits nothing: then `dscores` (`grad_scores`, `scores_grad`, `gscores` ...) should have been the gradient of `scores`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from minigrad.check.forms import factor_between, form_of, permuted
from minigrad.check.generated import Truth

__all__ = ["Known", "Truths", "forward_name"]

MOST_PARTS = 6


@dataclass(frozen=True, eq=False)
class Known:
    """A right value: of a variable of the forward pass, or its gradient, or a part of its gradient."""

    value: Any
    truth: Truth
    kind: str  # "value", "gradient" or "part"

    @property
    def text(self) -> str:
        """What it is, for the report."""
        if self.kind == "value":
            return f"{self.truth.name} of the forward" if self.truth.names else self.truth.name
        return {"gradient": "the gradient of ", "part": "a part of the gradient of "}[self.kind] + self.truth.name


def forward_name(name: str, names: Sequence[str], mapping: Mapping[str, str]) -> tuple[str, str] | None:
    """Return which variable of the forward a variable of the adjoint belongs to, as its "value", "gradient" or "part".

    >>> forward_name("grad_scores", ["q", "scores"], {})
    ('scores', 'gradient')
    """
    if name in mapping:
        return mapping[name], "gradient"
    owner, _, name = name.rpartition(".")
    if owner.rpartition(".")[2].lstrip("_")[:1] in ("d", "g"):  # dparams.w is the gradient of w
        found = forward_name(name, names, mapping)
        return None if found is None else (found[0], "gradient")
    name, bracket, key = name.partition("[")
    if bracket:  # grads["W"] is the gradient of W
        found = forward_name(key.strip("]'\""), names, mapping)
        return (found[0], "gradient") if found is not None and name.lstrip("_")[:1] in ("d", "g") else found
    if name in mapping:
        return mapping[name], "gradient"
    if name in names:
        return name, "value"
    plain = {_bare(n): n for n in reversed(names)}
    low = name.lower()
    for prefix in (
        "dl_d",
        "dloss_d",
        "dloss_",
        "grad_",
        "gradient_",
        "delta_",
        "adj_",
        "d_",
        "g_",
        "grad",
        "d",
        "g",
    ):
        if low.startswith(prefix) and _bare(low[len(prefix) :]) in plain:
            return plain[_bare(low[len(prefix) :])], "gradient"
    for suffix in ("_gradient", "_grad", "_bar", "_adj", "_g", "_d", "grad", "bar"):
        if low.endswith(suffix) and _bare(low[: -len(suffix)]) in plain:
            return plain[_bare(low[: -len(suffix)])], "gradient"
    stem, _, rest = name.rpartition("_")  # dk_rows is dk in another shape
    found = forward_name(stem, names, {}) if stem and rest and low.startswith(("d", "grad")) else None
    return None if found is None or found[1] == "value" else (found[0], "part")


def _bare(name: str) -> str:
    return name.lower().replace("_", "")


class Truths:
    """The right values and gradients of a forward pass, to be searched by value and by name."""

    def __init__(self, truths: Sequence[Truth], relative: float, mapping: Mapping[str, str] | None = None) -> None:
        self.relative = relative
        self.mapping = dict(mapping or {})
        self.known = [k for t in truths for k in _known(t)]
        self.by_name: dict[str, list[Truth]] = {}
        outermost: dict[str, int] = {}  # a name in the forward function itself comes before one in what it calls
        for truth in truths:
            for name in truth.names:
                depth, name = truth.depths.get(name, 0), name.rsplit(".", 1)[-1]
                if depth < outermost.get(name, 1 << 30):
                    outermost[name], self.by_name[name] = depth, []
                if depth == outermost[name]:
                    self.by_name[name].append(truth)
        self._invariants = [_invariants(k.value) for k in self.known]

    def find(self, value: Any, _reciprocal: bool = False) -> tuple[Known, str] | None:
        """Return what a value is, and in which form it shows it; None if it is nothing that is known."""
        value = np.asarray(value)
        if value.dtype.kind not in "fc" or not value.size or _constant(value):
            return None
        total, low, high, length = _invariants(value)
        found: tuple[Known, str] | None = None
        for known, (t, lo, hi, n) in zip(self.known, self._invariants, strict=True):
            slack = self.relative * max(length, n)
            if abs(t - total) > slack and not (abs(lo - low) <= slack and abs(hi - high) <= slack):
                continue
            form = form_of(value, known.value, self.relative)
            if form is not None and (found is None or _rank(known, form) < _rank(*found)):
                found = known, form
        if found is None and not _reciprocal and np.all(value != 0):
            found = self.find(1 / value, _reciprocal=True)
            if found is not None:
                found = found[0], "reciprocal" + (f", {found[1]}" if found[1] else "")
        return found

    def has_multiple(self, s: Any) -> bool:
        """Tell whether the value of a sighting is a multiple of something known: likely to be meant so."""
        value = np.asarray(s.assignment.value)
        return any(factor_between(value, k.value, self.relative) is not None for k in self.known)

    def meant_by(self, name: str) -> tuple[list[Truth], str] | None:
        """Return what a variable of this name should be: the forward's variables, latest first, and the kind."""
        meant = forward_name(name, list(self.by_name), self.mapping)
        return None if meant is None else (self.by_name.get(meant[0], [])[::-1], meant[1])


def _rank(known: Known, form: str) -> tuple[bool, int, bool]:
    return form != "", ("value", "gradient", "part").index(known.kind), not known.truth.names


def _constant(value: np.ndarray) -> bool:
    """Tell whether all elements are equal and simple: such a value is recognised as too many things."""
    first = value.reshape(-1)[0]
    return bool(np.all(value == first)) and (value.size > 1 or first in (0, 1, -1))


def _known(truth: Truth) -> Iterator[Known]:
    yield Known(np.asarray(truth.value), truth, "value")
    if truth.gradient is not None:
        yield Known(np.asarray(truth.gradient), truth, "gradient")
    parts = truth.parts if len(truth.parts) <= MOST_PARTS else []
    for n in range(1, len(parts)):
        for chosen in combinations(parts, n):
            yield Known(np.asarray(sum(chosen[1:], chosen[0])), truth, "part")


def _invariants(value: np.ndarray) -> tuple[complex, float, float, float]:
    """Return what stays the same in every form: the sum, or else the smallest and the largest element; and the size."""
    finite = value[np.isfinite(value)] if value.size else value
    if not finite.size:
        return 0.0, 0.0, 0.0, 0.0
    real = finite.real
    return complex(np.sum(finite)), float(real.min()), float(real.max()), float(np.sum(np.abs(finite)))


def shaped(known: Any, like: Any, turned: bool) -> Iterator[np.ndarray]:
    """Yield the right value in the shape that a variable wants it in: as it is, or with its axes in other orders."""
    known, shape = np.asarray(known), np.shape(like)
    if known.size != prod(shape):
        return
    if turned:
        yield from (other for _, other in permuted(known, shape))
    else:
        yield known.reshape(shape)
