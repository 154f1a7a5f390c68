"""Other shapes made from an example: longer, of size 1, empty, square; so that what is right by accident shows.

Which axes belong together is found by trying. A group of axes is one size if the forward function accepts it longer
while all other axes of that size are longer by another number, and the other way round: then it is no accident that
it runs. Sizes that occur among the numbers at hand (a number of heads, say) stay as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.lines import code_of
from minigrad.check.resizing import reindexed, resized, with_other_end
from minigrad.check.subject import Subject
from minigrad.errors import MinigradError, is_internal

__all__ = ["Variation", "numbers_of", "variations"]

Axis = tuple[int, int]  # the number of an array among the leaves of the arguments, and an axis of it
Group = tuple[Axis, ...]

MOST_TRIALS = 400
MOST_OF_ONE = 80  # trials for one axis


class _Example:
    """The arrays of a subject's arguments, to be made in other sizes."""

    def __init__(self, subject: Subject, fixed: Sequence[int]) -> None:
        self.subject = subject
        self.leaves, self.structure = tree.flatten((subject.args, subject.kwargs))
        self.arrays = [i for i, x in enumerate(self.leaves) if isinstance(x, np.ndarray) and i not in fixed]
        self.pinned = _pinned(subject, [x for i, x in enumerate(self.leaves) if i not in self.arrays])
        paths = tree.paths((subject.args, subject.kwargs))
        self.names = [_readable(p, subject) for p in paths]
        self.trials = 0
        self._felt: dict[int, bool] = {}

    def resized(self, sizes: dict[Axis, int], touched: Group = ()) -> Subject | None:
        """Return the subject with other sizes of some axes, None if the forward function does not take them.

        What is added along the touched axes has other values than usual; if nothing is, all of the array.
        """
        rng = np.random.default_rng(17)
        leaves = list(self.leaves)
        for i in self.arrays:
            shape = tuple(sizes.get((i, a), n) for a, n in enumerate(np.shape(leaves[i])))
            if shape != leaves[i].shape:
                leaves[i] = resized(leaves[i], shape, rng)
        smaller = {self.leaves[i].shape[a]: n for (i, a), n in sizes.items() if 0 < n < self.leaves[i].shape[a]}
        for i in self.arrays:
            leaves[i] = reindexed(leaves[i], smaller)
        for i, axis in touched:
            leaves[i] = with_other_end(leaves[i], axis, self.leaves[i].shape[axis] if sizes else 0)
        args, kwargs = tree.unflatten(self.structure, leaves)
        self.trials += 1
        s = self.subject
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                made = Subject.of(s.forward, s.adjoint, args, kwargs, s.argnums, s.shown, s.names)
            except Exception:  # the function does not take these shapes: it need not
                return None
        whole = all(np.all(np.isfinite(x)) for x in s.out)
        if made.results != s.results or (whole and not all(np.all(np.isfinite(x)) for x in made.out)):
            return None
        return made if [x.ndim for x in made.out] == [x.ndim for x in s.out] else None

    def groups(self) -> list[Group]:
        """Return the groups of axes that have to have one size."""
        found: list[Group] = []
        for n, axes in self._axes().items():
            rest = list(axes) if n > 1 else []
            while rest and self.trials < MOST_TRIALS:
                group = self._group_of(rest, n, axes)
                found += [group] if group else []
                rest = [a for a in rest if a not in (group or (rest[0],))]
        return found

    def single(self) -> list[list[Group]]:
        """Return for each axis of size 1 the groups in which it could be longer.

        Which of them is meant cannot be told by trying: an array of size 1 is broadcast against a longer one.
        """
        axes, found = self._axes().get(1, []), []
        for first in axes:
            others = [a for a in axes if a != first]
            groups = [(first, *more) for count in range(len(others) + 1) for more in combinations(others, count)]
            fitting = [g for g in groups[:16] if self.resized(dict.fromkeys(g, self.longer(1)[0])) is not None]
            found += [fitting] if fitting else []
        return found

    def longer(self, n: int) -> list[int]:
        """Return sizes to make n longer: such that nothing else has, against which an array could be broadcast."""
        sizes = {m for i in self.arrays for m in self.leaves[i].shape}
        return [m for m in range(n + 2, n + 2 * len(sizes) + 8, 2) if m not in sizes]

    def _axes(self) -> dict[int, list[Axis]]:
        by_size: dict[int, list[Axis]] = {}
        for i in self.arrays:
            for axis, n in enumerate(self.leaves[i].shape):
                if n > 0 and n not in self.pinned:
                    by_size.setdefault(n, []).append((i, axis))
        return by_size

    def _group_of(self, axes: list[Axis], n: int, every: Sequence[Axis]) -> Group | None:
        """Return the smallest group with the first of these axes that can change alone."""
        first, *others = axes
        others.sort(key=lambda a: a[1] != first[1])  # first axes belong together more often than not
        small, large = self.longer(n)[:2]
        until, runs = min(MOST_TRIALS, self.trials + MOST_OF_ONE), None  # runs: perhaps by accident
        for count in range(len(others) + 1):
            for more in combinations(others, count):
                if self.trials >= until:
                    return runs
                group = (first, *more)
                if not self._noticed(group, dict.fromkeys(group, small)):
                    continue
                rest = [a for a in every if a not in group]
                pairs = ((small, large), (large, small)) if rest else ()
                if all(self._noticed(group, dict.fromkeys(group, m) | dict.fromkeys(rest, k)) for m, k in pairs):
                    return group
                runs = runs or group
        return runs

    def _noticed(self, group: Group, sizes: dict[Axis, int]) -> bool:
        """Tell whether the forward function accepts these sizes, and looks at all of what is added.

        A loop over the shorter of two arrays does not, nor does an index array that was not made longer.
        """
        made = self.resized(sizes)
        if made is None:
            return False
        telling = (axis for axis in group if self._is_felt(axis[0]))
        others = (self.resized(sizes, (axis,)) for axis in telling)
        return not any(other is not None and _same(made, other) for other in others)

    def _is_felt(self, i: int) -> bool:
        """Tell whether the result depends on the values of an array."""
        if i not in self._felt:
            x, other = self.leaves[i], self.resized({}, ((i, 0),))
            several = x.dtype.kind in "fcb" or bool(np.ptp(x))
            self._felt[i] = several and other is not None and not _same(self.subject, other)
        return self._felt[i]

    def label(self, group: Group) -> str:
        """Return which axes a group is: "axis 1 of x"."""
        i, axis = group[0]
        return f"axis {axis} of {self.names[i]}"


@dataclass(frozen=True)
class Variation:
    """The subject in another shape.

    Attributes
    ----------
    label
        What it is: "with axis 1 of x of size 1".
    subjects
        The adjoint need be right in one of them: which is meant cannot be told.
    doubtful
        Perhaps none of them is meant.
    """

    label: str
    subjects: list[Subject]
    doubtful: bool = False


def variations(subject: Subject, fixed: Sequence[int] = ()) -> Iterator[Variation]:
    """Yield the subject in other shapes.

    Parameters
    ----------
    subject
        With an example of its arguments.
    fixed
        Numbers of the leaves of `(args, kwargs)` whose shapes must stay.
    """
    example = _Example(subject, fixed)
    groups = example.groups()[:6]
    for group in groups:
        i, axis = group[0]
        longer = example.longer(example.leaves[i].shape[axis])[0]
        for size, text in ((longer, "longer"), (1, "of size 1"), (0, "empty")):
            made = example.resized(dict.fromkeys(group, size))
            if made is not None:
                yield Variation(f"with {example.label(group)} {text}", [made])
    if len(groups) > 1:
        for size, text in ((3, "square: all sizes 3"), (1, "all sizes 1")):
            made = example.resized({axis: size for group in groups for axis in group})
            if made is not None:
                yield Variation(text, [made])
    for several in example.single()[:3]:
        found = [example.resized(dict.fromkeys(group, example.longer(1)[0])) for group in several]
        label = f"with {example.label(several[0])} longer"
        yield Variation(label, [made for made in found if made is not None], doubtful=True)


def _same(one: Subject, other: Subject) -> bool:
    pairs = zip(one.out, other.out, strict=True)
    return all(x.shape == y.shape and np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def _pinned(subject: Subject, rest: Sequence[Any]) -> set[int]:
    """Return the sizes that the function could know otherwise: numbers among its arguments, and what it closes over."""
    known: list[Any] = list(rest)
    for f in (subject.forward, subject.adjoint, *subject.shown):
        code = code_of(f)
        if code is None or is_internal(code.co_filename):  # ours, around a layer: what it closes over is the example
            continue
        known += [*getattr(f, "args", ()), *getattr(f, "keywords", {}).values()]
        f = getattr(f, "func", f)
        known += [c.cell_contents for c in getattr(f, "__closure__", None) or () if _filled(c)]
        known += list(getattr(f, "__defaults__", None) or ())
        scope = getattr(f, "__globals__", {})
        known += [scope[n] for n in code.co_names if n in scope]
    sizes: set[int] = set()
    for x in known:
        for leaf in tree.leaves(x):
            if isinstance(leaf, (int, np.integer)) and not isinstance(leaf, bool):
                sizes.add(int(leaf))
            elif isinstance(leaf, np.ndarray):
                sizes |= set(leaf.shape)
    return sizes - {0, 1}


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _readable(path: str, subject: Subject) -> str:
    """Return "x.q" for "[0][1].q"."""
    if path.startswith("[0]["):
        number, _, rest = path[4:].partition("]")
        return subject.arguments[int(number)] + rest
    return path.removeprefix("[1].")


def numbers_of(subject: Subject, argument: int) -> list[int]:
    """Return the numbers, among the leaves of `(args, kwargs)`, of those of one argument."""
    counts = [len(tree.leaves(a)) for a in subject.args]
    if argument >= len(counts):
        raise MinigradError(f"there is no argument {argument}")
    start = sum(counts[:argument])
    return list(range(start, start + counts[argument]))
