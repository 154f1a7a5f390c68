"""Moving a buffer between two runs: its addresses stand in the tables of instructions, and are changed there.

So a large result is written where the caller gets it, in fresh memory for each run, and is not copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minigrad.compiler.layout import span

__all__ = ["Relocation", "Tables"]


class Tables:
    """The numbers in tables of instructions (int64), addresses among them, in order."""

    def __init__(self, tables: Sequence[np.ndarray]) -> None:
        numbers = np.concatenate(tables)
        self._order = np.argsort(numbers, kind="stable")
        self._sorted = numbers[self._order]
        self._tables = tables
        self._starts = np.cumsum([0, *(len(t) for t in tables)])

    def within(self, array: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the tables in which there are addresses within an array, each with the places of these."""
        first, last = np.searchsorted(self._sorted, span(array))
        found = np.sort(self._order[first:last])  # no other number is as large as an address
        owner = np.searchsorted(self._starts, found, "right") - 1
        return [(self._tables[i], found[owner == i] - self._starts[i]) for i in np.unique(owner)]


class Relocation:
    """A buffer that may be moved.

    Parameters
    ----------
    array
        Where it is at first.
    """

    def __init__(self, array: np.ndarray, tables: Tables) -> None:
        self._address = array.ctypes.data
        self._entries = tables.within(array)

    def move(self, array: np.ndarray) -> None:
        """Let the instructions work on this array, which is of the same size and dtype."""
        address: int = array.__array_interface__["data"][0]
        if address != self._address:
            for table, entries in self._entries:
                table[entries] += address - self._address
            self._address = address
