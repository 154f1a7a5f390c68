"""numpy.fft. Each transform is a linear map; its adjoint is the transpose of its matrix, unconjugated.

With the convention dL = Re(sum(g dz)) the discrete Fourier transform, whose matrix is symmetric, is its own adjoint;
`norm` stays as it is. The transforms over several axes are one-dimensional ones in a row, as in NumPy.
"""

import numpy as np

from minigrad.op import composite, define
from minigrad.shapes import shape_of

SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def fit(x, n, axis):
    """Cut an axis, or pad it with zeros, to length n: what the transforms do with their argument, and undo it."""
    shape = shape_of(x)
    axis = axis % len(shape)
    if n <= shape[axis]:
        return x[(*(slice(None),) * axis, slice(n))]
    return np.pad(x, [(0, n - shape[axis] if i == axis else 0) for i in range(len(shape))])


define(
    np.fft.fft,
    "a",
    lambda g, a_shape, axis, norm: fit(np.fft.fft(g, axis=axis, norm=norm), a_shape[axis], axis),
    kind="linear",
)
define(
    np.fft.ifft,
    "a",
    lambda g, a_shape, axis, norm: fit(np.fft.ifft(g, axis=axis, norm=norm), a_shape[axis], axis),
    kind="linear",
)


def rfft_adjoint(g, a_shape, n, axis, norm):
    """The real part of the transform of g, the missing half of it being zeros."""
    n = a_shape[axis] if n is None else n
    return fit(np.real(np.fft.fft(g, n, axis, norm)), a_shape[axis], axis)


def irfft_adjoint(g, a_shape, axis, norm):
    """Half of the inverse transform of g, doubled for the frequencies that stand for their mirror images too."""
    n = shape_of(g)[axis]
    half = n // 2 + 1
    doubled = np.full(half, 2, g.dtype)
    doubled[0] = 1
    if n % 2 == 0:
        doubled[-1] = 1
    weights = np.reshape(doubled, [-1 if i == axis % len(a_shape) else 1 for i in range(len(a_shape))])
    return fit(weights * fit(np.fft.ifft(g, axis=axis, norm=norm), half, axis), a_shape[axis], axis)


define(np.fft.rfft, "a", rfft_adjoint, kind="linear")
define(np.fft.irfft, "a", irfft_adjoint, kind="linear")


@composite(np.fft.hfft)
def hfft(a, n=None, axis=-1, norm=None):
    """The transform of what is symmetric, given its half."""
    return np.fft.irfft(np.conj(a), n, axis, SWAPPED[norm])


@composite(np.fft.ihfft)
def ihfft(a, n=None, axis=-1, norm=None):
    """Half of the inverse transform of real numbers."""
    return np.conj(np.fft.rfft(a, n, axis, SWAPPED[norm]))


# --- several axes


def lengths(a, s, axes):
    """Return (length, axis) for each axis; -1, and no s, keep the length; no axes are the last ones."""
    shape = shape_of(a)
    if axes is None:
        axes = range(-len(shape if s is None else s), 0)
    if s is not None and len(s) != len(axes):
        raise ValueError(f"np.fft: {len(s)} lengths in s for {len(axes)} axes")
    return [(shape[axis] if n == -1 else n, axis) for n, axis in zip(s or [-1] * len(axes), axes, strict=True)]


@composite(np.fft.fftn)
def fftn(a, s=None, axes=None, norm=None):
    """Transform along one axis after another, the last first."""
    for n, axis in reversed(lengths(a, s, axes)):
        a = np.fft.fft(a, n, axis, norm)
    return a


@composite(np.fft.ifftn)
def ifftn(a, s=None, axes=None, norm=None):
    """Undo `fftn`."""
    for n, axis in reversed(lengths(a, s, axes)):
        a = np.fft.ifft(a, n, axis, norm)
    return a


@composite(np.fft.rfftn)
def rfftn(a, s=None, axes=None, norm=None):
    """Transform real numbers along the last axis, and the result along the others."""
    *rest, (n, axis) = lengths(a, s, axes)
    a = np.fft.rfft(a, n, axis, norm)
    for n, axis in reversed(rest):
        a = np.fft.fft(a, n, axis, norm)
    return a


@composite(np.fft.irfftn)
def irfftn(a, s=None, axes=None, norm=None):
    """Undo `rfftn`."""
    *rest, (last, axis) = lengths(a, s, axes)
    if s is None:
        last = 2 * (last - 1)
    for n, other in rest:
        a = np.fft.ifft(a, n, other, norm)
    return np.fft.irfft(a, last, axis, norm)


for _two, _many in (
    (np.fft.fft2, np.fft.fftn),
    (np.fft.ifft2, np.fft.ifftn),
    (np.fft.rfft2, np.fft.rfftn),
    (np.fft.irfft2, np.fft.irfftn),
):
    composite(_two)(lambda a, s=None, axes=(-2, -1), norm=None, *, many=_many: many(a, s, axes, norm))


def shifted(sign):
    """Return the function that rolls axes by half their length."""

    def shift(x, axes=None):
        shape = shape_of(x)
        axes = tuple(range(len(shape))) if axes is None else (axes,) if np.ndim(axes) == 0 else tuple(axes)
        return np.roll(x, [sign * (shape[axis] // 2) for axis in axes], axes)

    return shift


composite(np.fft.fftshift)(shifted(1))
composite(np.fft.ifftshift)(shifted(-1))
