"""One gradient held against another, element by element: how far apart, where, and how far apart they may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Comparison", "compare", "tolerance_of"]

# The error that is allowed relative to the largest element of the wanted gradient, by dtype: rounding alone, for an
# adjoint that may order its sums in another way than ours.
RELATIVE = {"float16": 1e-2, "float32": 2e-5, "float64": 1e-10, "longdouble": 1e-10}
NOISE = 20.0  # how many times the estimated rounding error is allowed besides


def tolerance_of(wanted: Any, noise: float, dtype: Any) -> float:
    """Return how far an element may be off.

    Parameters
    ----------
    wanted
        The right gradient: its largest element sets the scale, and nothing else does. A gradient of size 1e-8 is
        checked as sharply as one of size 1, and the number of elements plays no part.
    noise
        The rounding error of the generated adjoint in machine epsilons: see `Generated.noise`.
    dtype
        What the gradient was computed in.
    """
    real = np.zeros(0, dtype).real.dtype
    largest = np.abs(np.asarray(wanted))
    scale = float(np.max(largest[np.isfinite(largest)], initial=0))
    relative = RELATIVE.get(real.name, 1e-10)
    return relative * scale + NOISE * float(np.finfo(real).eps) * noise + float(np.finfo(real).tiny)


@dataclass
class Comparison:
    """The gradient of one leaf, as it came and as it should be.

    Attributes
    ----------
    result, name
        What the gradient is of, and with respect to what.
    index, error
        The worst element and how far it is off; None and infinity where the shapes differ.
    diagnosis
        What the difference looks like.
    """

    result: str
    name: str
    got: Any
    wanted: Any
    tolerance: float
    index: tuple[int, ...] | None = None
    error: float = 0.0
    right: bool = True
    diagnosis: list[str] = field(default_factory=list)

    @property
    def wrong_elements(self) -> Any:
        """Where the gradient is off by more than the tolerance: a boolean array, None if the shapes differ."""
        if self.got is None or np.shape(self.got) != np.shape(self.wanted):
            return None
        return _apart(np.asarray(self.got), np.asarray(self.wanted)) > self.tolerance

    @property
    def ratio(self) -> float | None:
        """The quotient of the worst element and what it should be."""
        if self.index is None or self.wanted[self.index] == 0:
            return None
        quotient = complex(self.got[self.index]) / complex(self.wanted[self.index])
        return quotient.real

    def __str__(self) -> str:
        pair = f"gradient of {self.result} with respect to {self.name}"
        scale = float(np.max(np.abs(self.wanted), initial=0))
        if self.right:
            return f"{pair}: right ({_relative(self.error, scale)})"
        if self.index is None:
            came = "None" if self.got is None else f"shape {np.shape(self.got)}"
            head = f"{pair}: WRONG, got {came}, expected shape {np.shape(self.wanted)}"
        else:
            place = f"element {self.index}: " if self.index else ""
            ratio = "" if self.ratio is None else f", ratio {self.ratio:.6g}"
            wrong = self.wrong_elements
            share = f" ({int(wrong.sum())} of {wrong.size} elements are wrong)" if wrong.size > 1 else ""
            head = (
                f"{pair}: WRONG, {place}got {self.got[self.index]:.8g}, expected "
                f"{self.wanted[self.index]:.8g}{ratio}{share}"
            )
        return "\n".join([head, *(f"    {line}" for line in self.diagnosis)])


def compare(result: str, name: str, got: Any, wanted: Any, tolerance: float) -> Comparison:
    """Return the comparison. None stands for a gradient of zeros."""
    wanted = np.asarray(wanted)
    if got is None:
        zero = bool(np.all(np.abs(wanted) <= tolerance))
        return Comparison(result, name, None, wanted, tolerance, right=zero, error=0.0 if zero else float("inf"))
    got = np.asarray(got)
    if got.dtype.kind not in "fciub" or got.shape != wanted.shape:
        return Comparison(result, name, got, wanted, tolerance, right=False, error=float("inf"))
    if not wanted.size:
        return Comparison(result, name, got, wanted, tolerance)
    apart = _apart(got, wanted)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
    error = float(apart[index])
    return Comparison(result, name, got, wanted, tolerance, index, error, error <= tolerance)


def _apart(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return |got - wanted|: infinite where only one of them is a finite number, 0 where they are the same infinity."""
    kind = np.complex128 if np.iscomplexobj(got) or np.iscomplexobj(wanted) else np.float64
    got, wanted = got.astype(kind), wanted.astype(kind)
    with np.errstate(all="ignore"):
        apart = np.abs(got - wanted)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _relative(error: float, scale: float) -> str:
    if not error:
        return "to the last bit"
    return f"off by at most {error / scale:.0e} of the largest element" if scale else f"off by at most {error:.0e}"
