"""What was measured beside what was wanted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.race import Ratio, Times, ratio

__all__ = ["Row", "row_of_ratio", "table", "to_json"]


@dataclass(frozen=True)
class Row:
    """One line of the table; `bar` is the most that the measured number should be, None where nothing is asked."""

    what: str
    size: str
    bar: float | None
    measured: float
    unit: str = ""  # of both numbers; a ratio has none
    spread: str = ""

    @property
    def verdict(self) -> str:
        """Tell whether the bar is met."""
        if self.bar is None:
            return ""
        return "met" if self.measured <= self.bar else "missed"


def row_of_ratio(times: Times, one: str, other: str, size: str, bar: float | None) -> list[Row]:
    """Return the row that compares two contenders, or none where one of them is not there."""
    if one not in times or other not in times:
        return []
    r: Ratio = ratio(times, one, other)
    return [Row(f"{one} / {other}", size, bar, r.median, spread=f"{r.low:.3f}..{r.high:.3f}")]


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    head = ("what", "size", "bar", "measured", "middle half", "")
    cells = [head, *((r.what, r.size, _number(r.bar, r.unit), _number(r.measured, r.unit), r.spread, r.verdict)
                     for r in rows)]  # fmt: skip
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows as json writes them."""
    return [{**asdict(row), "verdict": row.verdict} for row in rows]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3g} {unit}".strip()
