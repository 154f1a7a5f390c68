"""Every reference adjoint broken in every single-line way: how many are caught, and is the right line named?

    python benchmarks/mutation_study.py                   everything: an hour
    python benchmarks/mutation_study.py --every 20        a twentieth of the mutants of each adjoint
    python benchmarks/mutation_study.py softmax_adjoint   one adjoint

A mutant counts if it changes anything: a value by more than 1e-9 of the largest, a shape, a dtype, a structure, an
exception, in any row of the adjoint's test table in any of its modes (shapes and layouts). It is caught if
`check_adjoint` raises for an example of a row, with one leading axis or with two. The line counts as named if it is
the one that the report calls the first wrong line. `--checkers autograd jax torch` puts the same mutants through the
checkers of other libraries as they are by default, on the same examples.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
import types
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from adjoint_rows import ADJOINT_OF_WRAPPER, MODES, ROWS, Row, Sample  # noqa: E402
from benchmarks.other_checkers import CHECKERS, refused  # noqa: E402
from minigrad import tree  # noqa: E402
from minigrad.check import check_adjoint, compare_adjoints  # noqa: E402
from minigrad.errors import AdjointMismatch  # noqa: E402
from minigrad_nn import adjoints  # noqa: E402
from mutants import Mutant, mutants  # noqa: E402

EXAMPLES = (Sample, MODES["two leading axes"])  # given to the checkers: some mutants are wrong in one rank only


def rows_of(name: str) -> list[tuple[str, Row]]:
    """Return the rows of the test table for an adjoint."""
    return [(n, r) for n, r in ROWS.items() if ADJOINT_OF_WRAPPER.get(r.adjoint, r.adjoint).__name__ == name]


def with_mutant(row: Row, name: str, function: Callable[..., Any]) -> Row:
    """Return the row with a mutant as its adjoint, inside a wrapper if it has one."""
    if row.adjoint.__name__ == name:
        return replace(row, adjoint=function)
    others = types.SimpleNamespace(**{n: getattr(adjoints, n) for n in adjoints.__all__})
    setattr(others, name, function)
    scope = {**row.adjoint.__globals__, "adjoints": others}
    wrapper = types.FunctionType(row.adjoint.__code__, scope, row.adjoint.__name__, row.adjoint.__defaults__)
    wrapper.__signature__ = inspect.signature(row.adjoint)  # type: ignore[attr-defined]
    wrapper.__wrapped__ = function  # type: ignore[attr-defined]  # whose lines are looked at
    return replace(row, adjoint=wrapper)


# ---- does a mutant change anything? ----------------------------------------------------------------


def outcome(row: Row, sample: Sample) -> Any:
    """Return what an adjoint gives in one mode: leaves and structure, or the exception."""
    moving, fixed = row.make(sample)
    out = row.forward(*moving, **fixed)
    g = np.asarray(np.random.default_rng(11).normal(size=np.shape(out))).astype(out.dtype)
    try:
        with np.errstate(all="ignore"):
            return tree.flatten(row.adjoint(g, *moving, **fixed))
    except Exception as error:  # a mutant may raise anything
        return type(error)


def differs(a: Any, b: Any) -> bool:
    """Tell whether two outcomes differ by more than rounding."""
    if isinstance(a, type) or isinstance(b, type):
        return a is not b
    if a[1] != b[1]:
        return True
    for x, y in zip(a[0], b[0], strict=True):
        if np.shape(x) != np.shape(y) or getattr(x, "dtype", None) != getattr(y, "dtype", None):
            return True
        with np.errstate(all="ignore"):
            scale = np.max(np.abs(x), initial=0)
            if not np.all((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= 1e-9 * scale)):
                return True
    return False


def changes_something(rows: list[Row], original: list[list[Any]]) -> bool:
    """Tell whether a mutant differs from the original anywhere."""
    for row, wanted in zip(rows, original, strict=True):
        for mode, want in zip(MODES.values(), wanted, strict=True):
            if differs(want, outcome(row, mode())):
                return True
    return False


# ---- the checkers -----------------------------------------------------------------------------------


def ours(rows: list[Row]) -> tuple[bool, int | None]:
    """Return whether a mutant is caught, and the line that is named."""
    first, second = EXAMPLES
    # check_adjoint does what compare_adjoints does and more, but takes longer.
    for check, example in ((compare_adjoints, first), (check_adjoint, first), (compare_adjoints, second)):
        for row in rows:
            moving, fixed = row.make(example())
            try:
                check(row.forward, row.adjoint, *moving, **fixed)
            except AdjointMismatch as error:
                culprit = error.report.culprit
                return True, None if culprit is None else culprit.line.line
    return False, None


def flat(
    row: Row, example: Callable[[], Sample] = Sample
) -> tuple[Callable[..., Any], Callable[..., Any], list[np.ndarray]]:
    """Return forward, adjoint and arguments of a row with arrays in the place of structures."""
    moving, fixed = row.make(example())
    leaves, structure = tree.flatten(moving)

    def forward(*xs: Any) -> Any:
        return np.asarray(row.forward(*tree.unflatten(structure, list(xs)), **fixed))

    def adjoint(g: Any, *xs: Any) -> tuple[Any, ...]:
        found = row.adjoint(g, *tree.unflatten(structure, list(xs)), **fixed)
        return tuple(map(np.asarray, tree.leaves(found)))

    return forward, adjoint, leaves


# ---- the study --------------------------------------------------------------------------------------


def study(name: str, every: int, checkers: list[str]) -> Counter[str]:
    """Return the counts of one adjoint, and print what was missed."""
    count: Counter[str] = Counter()
    rows = [row for _, row in rows_of(name)]
    original = [[outcome(row, mode()) for mode in MODES.values()] for row in rows]
    for mutant in mutants(getattr(adjoints, name)):
        if zlib.crc32(str(mutant).encode()) % every:
            continue
        count["mutants"] += 1
        broken = [with_mutant(row, name, mutant.function) for row in rows]
        if not changes_something(broken, original):
            continue
        count["changed"] += 1
        for checker in checkers:
            if checker != "minigrad":
                count[checker] += any(refused(checker, *flat(row, e)) for e in EXAMPLES for row in broken)
                continue
            start = time.thread_time()
            caught, line = ours(broken)
            count["milliseconds"] += int(1000 * (time.thread_time() - start))
            count["minigrad"] += caught
            count["line"] += caught and line == mutant.line
            _tell(mutant, caught, line)
    return count


def _tell(mutant: Mutant, caught: bool, line: int | None) -> None:
    if not caught:
        print(f"    not caught: {mutant}")
    elif line != mutant.line:
        print(f"    line {line} for {mutant}")


def flagged(checker: str) -> str:
    """Return how many right adjoints are flagged: by minigrad in float64 and float32, by its peers in float64."""
    if checker != "minigrad":
        return f"{sum(refused(checker, *flat(row)) for row in ROWS.values())} of {len(ROWS)}"
    count = 0
    for name, row in ROWS.items():
        for dtype in (np.float64, np.float32):
            moving, fixed = row.make(Sample(dtype=dtype))
            try:
                check_adjoint(row.forward, row.adjoint, *moving, **fixed)
            except AdjointMismatch as error:
                count += 1
                print(f"    flagged: {name} in {np.dtype(dtype)}\n{error}")
    return f"{count} of {2 * len(ROWS)} in float64 and float32"


def main() -> None:
    """Run the study and print the table."""
    parser = argparse.ArgumentParser(description="Every reference adjoint broken in every single-line way.")
    parser.add_argument("names", nargs="*", default=adjoints.__all__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take one mutant in N")
    parser.add_argument(
        "--checkers", nargs="+", default=["minigrad"], choices=["minigrad", *CHECKERS], help="minigrad, and its peers"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a broken adjoint may divide by zero
    total: Counter[str] = Counter()
    columns = [c for checker in options.checkers for c in ([checker, "line"] if checker == "minigrad" else [checker])]
    print(f"{'adjoint':38}{'mutants':>8}{'changed':>9}", *(f"{c:>9}" for c in columns), f"{'ms each':>9}")
    for name in options.names:
        c = study(name, options.every, options.checkers)
        total.update(c)
        _print_row(name, c, columns)
    _print_row("total", total, columns)
    for column in columns:
        share = 100 * total[column] / max(total["changed"], 1)
        print(f"{column}: {total[column]} of {total['changed']} ({share:.2f} %)")
    for checker in options.checkers:
        print(f"right adjoints flagged by {checker}: {flagged(checker)}")


def _print_row(name: str, c: Counter[str], columns: list[str]) -> None:
    each = c["milliseconds"] // max(c["changed"], 1)
    print(f"{name:38}{c['mutants']:8}{c['changed']:9}", *(f"{c[x]:9}" for x in columns), f"{each:9}", flush=True)


if __name__ == "__main__":
    main()
