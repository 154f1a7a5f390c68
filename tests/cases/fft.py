"""Rows for minigrad/rules/fft.py: odd and even lengths, cut and padded, all norms."""

import numpy as np

from cases import call, real, row

f = np.fft
norms = [None, "backward", "ortho", "forward"]
one_axis = [
    *[call(real(n), norm=norm) for n in (1, 4, 5) for norm in norms],
    *[call(real(k), n, norm=norm) for k in (4, 5) for n in (1, 3, 6, 7) for norm in norms[1:]],
    call(real(3, 4), axis=0),
    call(real(2, 5, 2), 4, -2),
    call(real(3, 4), 5, 1, "ortho"),
]
half = one_axis[4:]  # a half of length 1 has no default length of the whole
two_axes = [
    call(real(3, 4)),
    call(real(2, 3, 4), norm="ortho"),
    call(real(2, 3, 4), (4, 3), norm="forward"),
    call(real(3, 5), (-1, 4)),
    call(real(3, 2, 4), axes=(0, 2)),
]
many_axes = [
    call(real(4)),
    call(real(2, 3, 4)),
    call(real(2, 3, 4), axes=(1,)),
    call(real(2, 3, 4), (5, 2), (0, -1), "ortho"),
    call(real(2, 3), axes=(1, 0), norm="forward"),
    call(real(3, 4), axes=(0, 0)),
]


def of_something(function):
    """Return a function that refuses empty arrays: from them NumPy makes numbers that are in memory by chance."""

    def transform(a, *args, **kwargs):
        if a.size == 0:
            raise ValueError("an empty array")
        return function(a, *args, **kwargs)

    return transform


shifts = [
    call(real(5)),
    call(real(4, 3)),
    call(real(4, 3), 1),
    call(real(4, 3, 2), (0, -1)),
    call(real(4, 3), [1]),
]

ROWS = [
    row(f.fft, one_axis, complex=True),
    row(f.ifft, one_axis, complex=True),
    row(f.rfft, one_axis),
    row(f.irfft, half, through=of_something(f.irfft), complex=True),
    row(f.hfft, half, through=of_something(f.hfft), complex=True),
    row(f.ihfft, one_axis),
    row(f.fft2, two_axes, complex=True),
    row(f.ifft2, two_axes, complex=True),
    row(f.rfft2, two_axes),
    row(f.irfft2, two_axes, through=of_something(f.irfft2), complex=True),
    row(f.fftn, many_axes, complex=True),
    row(f.ifftn, many_axes, complex=True),
    row(f.rfftn, many_axes, exact=False),  # NumPy 2.0 takes the axes in another order
    row(f.irfftn, many_axes, through=of_something(f.irfftn), complex=True),
    row(f.fftshift, shifts, complex=True, analytic=True),
    row(f.ifftshift, shifts, complex=True, analytic=True),
]
