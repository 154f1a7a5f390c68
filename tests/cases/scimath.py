"""Rows for minigrad/rules/scimath.py: real numbers where the result is real, and where it is complex."""

from numpy.lib import scimath

from cases import call, positive, real, row

everywhere = [call(real(3, 2, low=0.2)), call(real(4)), call(real(3, low=-2, high=-0.2)), call(real(low=-2, high=-1))]
around_one = [call(real(3, 2, low=-0.8, high=0.8)), call(real(4, low=1.2, high=2)), call(real(4, low=-3, high=3))]

ROWS = [
    *(row(f, *everywhere) for f in (scimath.sqrt, scimath.log, scimath.log2, scimath.log10)),
    *(row(f, *around_one, float32=1e-3) for f in (scimath.arccos, scimath.arcsin, scimath.arctanh)),
    row(scimath.logn, call(positive(3, low=1.2), real(3)), call(2.0, real(3)), call(-2.0, positive(2))),
    row(scimath.power, call(positive(3), real(3)), call(real(3), 0.5), call(real(3), -2), call(real(3), real(2, 1))),
]
