"""Learning rates as functions of the step: `rate = schedule(step)`, steps counted from 0."""

import math
from collections.abc import Callable

__all__ = ["Schedule", "constant", "warmup_cosine"]

Schedule = Callable[[int], float]


def constant(rate: float) -> Schedule:
    """Return the schedule that is `rate` at every step."""
    return lambda step: rate


def warmup_cosine(peak: float, warmup: int, total: int, floor: float = 0.0) -> Schedule:
    """Rise linearly to `peak` over `warmup` steps, then fall along half a cosine to `floor` at the last step.

        peak * (step + 1) / warmup                          step < warmup
        floor + (peak - floor) * (1 + cos(pi * r)) / 2      r = (step + 1 - warmup) / (total - warmup)

    The first step already learns (its rate is `peak / warmup`, not 0), step `warmup - 1` runs at `peak`, step
    `total - 1` at `floor`, and so does every step after it.     Loshchilov & Hutter 2017, arXiv:1608.03983

    Raises
    ------
    ValueError
        Unless 0 <= warmup <= total, total >= 1 and 0 <= floor <= peak, which is finite.
    """
    if not (total >= 1 and 0 <= warmup <= total):
        raise ValueError(
            f"warmup_cosine: wanted 0 <= warmup <= total and total >= 1, got {warmup} and {total}"
        )
    if not 0 <= floor <= peak < math.inf:
        raise ValueError(f"warmup_cosine: wanted 0 <= floor <= peak, and finite, got floor {floor} and peak {peak}")

    def rate(step: int) -> float:
        if step < warmup:
            return peak * (step + 1) / warmup
        if step >= total:
            return floor
        fallen = (step + 1 - warmup) / (total - warmup)
        return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * fallen))

    return rate
