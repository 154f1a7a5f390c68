"""A report as one page of HTML that needs nothing else: the sources side by side, the wrong line marked, the error."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.check.comparison import Comparison
from minigrad.check.evidence import summaries

if TYPE_CHECKING:
    from minigrad.check.report import Listing, Report

__all__ = ["page"]

MOST_CELLS = 48

STYLE = """
:root { color-scheme: light dark; --wrong: #d33; --right: #2a7; --faint: #8886; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.wrong { color: var(--wrong); } .right { color: var(--right); }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
@media (max-width: 60rem) { .sides { grid-template-columns: 1fr; } }
pre { font: 13px/1.45 ui-monospace, monospace; overflow-x: auto; padding: .6rem; margin: 0; }
pre, svg { border: 1px solid var(--faint); }
pre .n { color: #888; user-select: none; } pre .bad { background: #d333; display: inline-block; min-width: 100%; }
pre .k { color: #888; font-style: italic; }
table { border-collapse: collapse; }
td, th { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid var(--faint); }
figure { display: inline-block; margin: .5rem 1.5rem .5rem 0; } figcaption { font-size: .85rem; color: #888; }
"""


INTRODUCTION = (
    "The backward pass was run with a random incoming gradient, and each gradient that it gave was compared with the "
    "right one, element by element. What is known to be right, and why, stands under Reference."
)


def page(report: Report) -> str:
    """Return the whole page."""
    return "\n".join(_parts(report)) + "\n"


def _parts(report: Report) -> Iterator[str]:
    state = "right" if report.right else "wrong"
    yield "<!doctype html>"
    yield f'<html lang="en"><head><meta charset="utf-8"><title>{escape(report.title)}: {report.verdict}</title>'
    yield f"<style>{STYLE}</style></head><body>"
    yield f'<h1>{escape(report.title)}: <span class="{state}">{escape(report.verdict)}</span></h1>'
    for line in report.open_question:
        yield f"<p>{escape(line)}</p>"
    if report.comparisons:
        yield f"<p>{INTRODUCTION}</p>"
    for error in report.errors:
        yield f'<p class="wrong">{escape(error)}</p>'
    yield from _culprit(report)
    yield from _table(report.comparisons)
    wrong = [c for c in report.comparisons if not c.right and c.index is not None]
    if wrong:
        yield "<h2>Where it is off</h2>" + "".join(map(_heat_map, wrong))
    yield '<h2>Forward and adjoint</h2><div class="sides">'
    yield _listing(report.forward, report, False) + _listing(report.adjoint, report, True) + "</div>"
    yield from _conditions(report)
    yield f"<h2>Reference</h2><p>{escape(report.reference)}</p><ul>"
    yield from (f"<li>{escape(text)}</li>" for text in summaries(report.evidence))
    yield "</ul>"
    for note in report.notes:
        yield f"<p>Note: {escape(note)}</p>"
    yield "</body></html>"


def _culprit(report: Report) -> Iterator[str]:
    if report.culprit is not None:
        yield f'<h2>The first wrong line</h2><pre class="wrong">{escape(str(report.culprit))}</pre>'
        if report.adjoint is not None and not report.is_marked(report.culprit.line.line):  # it is in neither listing
            yield f"<pre>{escape(report.neighbours())}</pre>"
        if report.formula:
            yield f"<p>The generated adjoint computes it as</p><pre>{escape(report.formula)}</pre>"


def _table(comparisons: list[Comparison]) -> Iterator[str]:
    yield "<h2>Gradients</h2><table><tr><th>of</th><th>with respect to</th><th></th><th>worst</th><th>got</th>"
    yield "<th>expected</th><th>ratio</th><th>what it looks like</th></tr>"
    for c in sorted(comparisons, key=lambda c: c.right):
        state = "right" if c.right else "wrong"
        cells = [c.result, c.name, None, "", "", "", "", "; ".join(c.diagnosis)]
        if c.index is not None:
            cells[3:7] = [
                str(c.index),
                f"{c.got[c.index]:.6g}",
                f"{c.wanted[c.index]:.6g}",
                "" if c.ratio is None else f"{c.ratio:.6g}",
            ]
        elif not c.right:
            cells[4:6] = [str(np.shape(c.got)) if c.got is not None else "None", str(np.shape(c.wanted))]
        row = "".join(f'<td class="{state}">{state}</td>' if x is None else f"<td>{escape(x)}</td>" for x in cells)
        yield f"<tr>{row}</tr>"
    yield "</table>"


def _heat_map(c: Comparison) -> str:
    """Return the error of a gradient as a picture: rows are all axes but the last."""
    error = np.abs(np.asarray(c.got) - np.asarray(c.wanted)).astype(np.float64)
    grid = np.nan_to_num(error.reshape(-1, error.shape[-1] if error.ndim else 1), nan=np.inf, posinf=np.inf)
    grid = _coarse(grid)
    finite = grid[np.isfinite(grid)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    size = max(4, min(18, 480 // max(grid.shape)))
    cells = []
    for (i, j), value in np.ndenumerate(grid):
        share = 1.0 if not np.isfinite(value) else float(value) / top
        if share > 0:
            cells.append(
                f'<rect x="{j * size}" y="{i * size}" width="{size}" height="{size}" '
                f'fill="#d33" fill-opacity="{share:.2f}"><title>{value:.3g}</title></rect>'
            )
    width, height = grid.shape[1] * size, grid.shape[0] * size
    caption = f"|got - expected| of {c.name} {np.shape(c.wanted)}, largest {top:.3g}; columns: the last axis"
    picture = f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(caption)}">{"".join(cells)}</svg>'
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _coarse(grid: Any) -> Any:
    """Return a grid of at most so many cells a side: the largest error of each block."""
    for axis in (0, 1):
        block = -(-grid.shape[axis] // MOST_CELLS)
        if block > 1:
            starts = np.arange(0, grid.shape[axis], block)
            grid = np.maximum.reduceat(grid, starts, axis=axis)
    return grid


def _listing(listing: Listing | None, report: Report, adjoint: bool) -> str:
    if listing is None:
        return "<pre>(the source cannot be read)</pre>"
    culprit = report.culprit if adjoint else None
    known = report.remarks() if culprit else {}
    rows = []
    for n, line in enumerate(listing.lines, listing.start):
        what = f'  <span class="k"># {escape(known[n])}</span>' if n in known else ""
        row = f'<span class="n">{n:4}</span> {escape(line)}{what}'
        rows.append(f'<span class="bad">{row}</span>' if culprit and report.is_marked(n) else row)
    title = f"{escape(listing.name)} <small>{escape(listing.file)}</small>"
    return f"<div><p>{title}</p><pre>{chr(10).join(rows)}</pre></div>"


def _conditions(report: Report) -> Iterator[str]:
    for title, found in (("Conditions", report.conditions), ("Other shapes", report.variations)):
        if found:
            yield f"<h2>{title}</h2><ul>"
            for c in found:
                state = "right" if c.holds else ("" if c.remark else "wrong")
                yield f'<li class="{state}">{escape(str(c))}</li>'
            yield "</ul>"
