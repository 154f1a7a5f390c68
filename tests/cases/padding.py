"""Rows for minigrad/rules/padding.py."""

import numpy as np

from cases import call, real, row

WIDTHS = [2, (1, 2), ((1, 0), (2, 3))]
GATHERED = ["edge", "wrap", "reflect", "symmetric"]
STATISTICS = ["maximum", "minimum", "mean", "median"]

ROWS = [
    row(
        np.pad,
        [call(real(2, 3), w) for w in WIDTHS],
        call(real(2, 3), WIDTHS[2], "constant", constant_values=1.5),
        call(real(2, 3), WIDTHS[1], constant_values=real(2)),
        call(real(2, 3), WIDTHS[1], constant_values=real()),
        call(real(2, 3), WIDTHS[2], constant_values=((1.0, 2.0), (3.0, 4.0))),
        [call(real(2, 3), w, mode) for w in WIDTHS for mode in GATHERED],
        [call(real(3), (5, 7), mode) for mode in GATHERED],
        [call(real(3), (2, 7), mode, reflect_type="odd") for mode in ("reflect", "symmetric")],
        call(real(3, 4), ((1, 2), (2, 0)), mode="reflect", reflect_type="odd"),
        [call(real(2, 3), w, mode) for w in WIDTHS for mode in STATISTICS],
        [call(real(3, 4), 2, mode, stat_length=((1, 2), (2, 3))) for mode in STATISTICS],
        call(real(2, 3), WIDTHS[2], "linear_ramp"),
        call(real(2, 3), WIDTHS[2], "linear_ramp", end_values=((1.0, -1.0), (0.5, 2.0))),
        exact=False,
    ),
]
