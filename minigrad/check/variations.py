"""Other shapes made from an example: longer, of size 1, empty, square; so that what is right by accident shows.

Which axes belong together is found by trying: an axis is made longer, alone or with others of its size, until the
forward function accepts it. Sizes that occur among the numbers at hand (a number of heads, say) stay as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.check.subject import Subject
from minigrad.errors import MinigradError

__all__ = ["variations"]

Axis = tuple[int, int]  # the number of an array among the leaves of the arguments, and an axis of it
Group = tuple[Axis, ...]

MOST_TRIALS = 120


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

    def resized(self, sizes: dict[Axis, int]) -> Subject | None:
        """Return the subject with other sizes of some axes, None if the forward function does not take them."""
        rng = np.random.default_rng(17)
        leaves = list(self.leaves)
        for i in self.arrays:
            shape = tuple(sizes.get((i, a), n) for a, n in enumerate(np.shape(leaves[i])))
            if shape != leaves[i].shape:
                leaves[i] = _resized(leaves[i], shape, rng)
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
        by_size: dict[int, list[Axis]] = {}
        for i in self.arrays:
            for axis, n in enumerate(self.leaves[i].shape):
                if n > 0 and n not in self.pinned:
                    by_size.setdefault(n, []).append((i, axis))
        found: list[Group] = []
        for n, axes in by_size.items():
            rest = list(axes)
            while rest and self.trials < MOST_TRIALS:
                group = self._group_of(rest, n)
                found += [group] if group else []
                rest = [a for a in rest if a not in (group or (rest[0],))]
        return found

    def _group_of(self, axes: list[Axis], n: int) -> Group | None:
        first, *others = axes
        for count in range(len(others) + 1):
            for more in combinations(others, count):
                group = (first, *more)
                if self.trials < MOST_TRIALS and self.resized(dict.fromkeys(group, n + 2)) is not None:
                    return group
        return None

    def label(self, group: Group) -> str:
        """Return which axes a group is: "axis 1 of x"."""
        i, axis = group[0]
        return f"axis {axis} of {self.names[i]}"


def variations(subject: Subject, fixed: Sequence[int] = ()) -> Iterator[tuple[str, Subject]]:
    """Yield the subject in other shapes, each with what it is: "axis 1 of x of size 1".

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
        for size, text in ((_longer(example, group), "longer"), (1, "of size 1"), (0, "empty")):
            made = example.resized(dict.fromkeys(group, size))
            if made is not None:
                yield f"with {example.label(group)} {text}", made
    if len(groups) > 1:
        for size, text in ((3, "square: all sizes 3"), (1, "all sizes 1")):
            made = example.resized({axis: size for group in groups for axis in group})
            if made is not None:
                yield text, made


def _longer(example: _Example, group: Group) -> int:
    i, axis = group[0]
    return int(example.leaves[i].shape[axis]) + 2


def _resized(x: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return an array of another shape with numbers like those of x: repeated, and floats not quite equal."""
    if 0 in x.shape:
        return np.zeros(shape, x.dtype)
    wrapped = x[np.ix_(*(np.arange(n) % m for n, m in zip(shape, x.shape, strict=True)))]
    if x.dtype.kind in "fc":
        return (wrapped * (1 + 0.2 * rng.uniform(-1, 1, shape))).astype(x.dtype)
    return wrapped


def _pinned(subject: Subject, rest: Sequence[Any]) -> set[int]:
    """Return the sizes that the function could know otherwise: numbers among its arguments, and what it closes over."""
    known: list[Any] = list(rest)
    for f in (subject.forward, subject.adjoint, *subject.shown):
        known += [*getattr(f, "args", ()), *getattr(f, "keywords", {}).values()]
        f = getattr(f, "func", f)
        known += [c.cell_contents for c in getattr(f, "__closure__", None) or () if _filled(c)]
        known += list(getattr(f, "__defaults__", None) or ())
        code = getattr(f, "__code__", None)
        scope = getattr(f, "__globals__", {})
        known += [scope[n] for n in getattr(code, "co_names", ()) if n in scope]
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
