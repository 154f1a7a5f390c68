"""Which gradients depend on what a line of an adjoint assigns: what depends on other lines alone, no edit can mend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from minigrad.check.lines import statements
from minigrad.check.watch import Watch

__all__ = ["Reach"]


class Reach:
    """Tells which gradients change when what a line assigns is changed at random.

    Parameters
    ----------
    root, watch, gradients
        An adjoint, what was seen while it ran, and what it returned.
    wrong
        Which of the gradients are wrong.
    run
        Returns the gradients with other values in place of what was assigned, by step; None if the adjoint raises.
    """

    def __init__(
        self,
        root: CodeType,
        watch: Watch,
        gradients: Sequence[Any],
        wrong: Collection[int],
        run: Callable[[Mapping[int, Any]], Sequence[Any] | None],
    ) -> None:
        self.watch, self.gradients, self.wrong, self.run = watch, gradients, frozenset(wrong), run
        self._statements = statements(root)
        self._known: dict[int, frozenset[int] | None] = {}

    def can_help(self, line: int) -> bool:
        """Return False only if something wrong does not depend on a line."""
        reached = self.of(line)
        return reached is None or reached >= self.wrong

    def is_exact(self, line: int) -> bool:
        """Tell whether all that is wrong depends on a line, and nothing that is right."""
        return self.of(line) == self.wrong

    def of(self, line: int) -> frozenset[int] | None:
        """Return which gradients depend on a line; None where not everything that it does is known."""
        if line not in self._known:
            self._known[line] = self._measured(line)
        return self._known[line]

    def _measured(self, line: int) -> frozenset[int] | None:
        seen = self.watch.assignments
        here = [a for a in seen if a.frame == 0 and a.line.line == line]
        at = self._statements.get(line)
        if at is None or not here or self.watch.full:
            return None
        if any(a.frame > 0 and a.caller == line and set(a.name) & set(".[") for a in seen):
            return None  # what it calls leaves something in an object
        values = {a.step: np.asarray(a.value) for a in here}
        if not at.binds <= {a.name for a in here} or any(x.dtype.kind not in "fc" for x in values.values()):
            return None  # an index or a mask decides in another way
        rng = np.random.default_rng(0)
        changed = self.run({step: _off(x, rng) for step, x in values.items()})
        if changed is None:
            return None
        pairs = enumerate(zip(self.gradients, changed, strict=True))
        return frozenset(i for i, (before, after) in pairs if not _equal(before, after))


def _off(value: np.ndarray, rng: np.random.Generator) -> Any:
    scale = np.max(np.abs(value[np.isfinite(value)]), initial=0) or 1
    return (value + scale * rng.standard_normal(value.shape)).astype(value.dtype)


def _equal(a: Any, b: Any) -> bool:
    return a is b is None or bool(np.array_equal(a, b, equal_nan=True))
