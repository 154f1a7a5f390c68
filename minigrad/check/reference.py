"""The right gradients of a function, and what they are known from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.check.comparison import tolerance_of
from minigrad.check.evidence import Evidence, measure
from minigrad.check.generated import Generated
from minigrad.check.subject import Subject

__all__ = ["Reference", "first_line"]

SEED = 1


@dataclass
class Reference:
    """The right gradients of a subject, and what they are known from."""

    generated: Generated | None
    gs: list[Any]
    wanted: list[Any]
    noise: list[float]  # in machine epsilons
    evidence: list[Evidence]
    why_not: str = ""
    slack: float = 0.0  # the error of gradients that were measured

    @classmethod
    def of(cls, subject: Subject, measured: bool = True, must: bool = True) -> Reference | None:
        """Return the reference, with random incoming gradients; None if the function cannot be traced and need not."""
        rng = np.random.default_rng(SEED)
        wide = _widened(subject)
        gs = wide.random_cotangents(rng)
        try:
            generated = Generated(wide)
        except Exception as error:  # whatever the function raises when it meets a Tensor
            if must:
                raise
            return cls(None, gs, [], [0.0] * len(subject.names), [], first_line(error))
        wanted = generated.gradients(gs)
        noise = generated.noise(gs, rng)
        evidence: list[Evidence] = []
        if measured:
            eps = float(np.finfo(np.float64).eps)
            evidence = measure(wide, wanted, gs, [n * eps for n in noise], rng)
        return cls(generated, gs, wanted, noise, evidence)

    def use_ones(self) -> None:
        """Take ones as the incoming gradients, for a backward pass that takes none."""
        self.gs = [np.ones_like(g) for g in self.gs]
        self.wanted = self.generated.gradients(self.gs) if self.generated else self.wanted

    def tolerances(self, subject: Subject, got: Sequence[Any] = ()) -> list[float]:
        """Return how far the gradients may be off that were computed in the subject's precision.

        That is the coarsest of those of the arguments, of what is computed from them (a layer may fill a buffer in
        float32), and of the gradients that came.
        """
        between = [t.value for t in self.generated.truths] if self.generated is not None else []
        kinds = {x.dtype for x in (*subject.out, *between, *got) if isinstance(x, (np.ndarray, np.generic))}
        coarse = max((k for k in kinds if k.kind in "fc"), key=_epsilon, default=np.dtype(float))
        return [
            tolerance_of(w, n, max(np.asarray(x).dtype, coarse, key=_epsilon)) + self.slack
            for w, n, x in zip(self.wanted, self.noise, subject.leaves, strict=True)
        ]


def _epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _widened(subject: Subject) -> Subject:
    """Return the subject in float64, if its functions can be computed in it; otherwise the subject itself."""
    if all(np.asarray(x).dtype in (np.float64, np.complex128) for x in subject.leaves):
        return subject
    try:
        wide = subject.in_dtype(np.float64)
    except Exception:  # it knows one precision only
        return subject
    return wide if all(x.dtype.itemsize >= 8 for x in wide.out) else subject
