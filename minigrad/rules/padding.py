"""np.pad in all its modes, axis after axis."""

import numpy as np

from minigrad.errors import unsupported
from minigrad.op import Op, Recorded, composite
from minigrad.shapes import shape_of


def pairs(given, ndim):
    """Return (before, after) for each axis, from any of the forms that np.pad takes."""
    if isinstance(given, dict):
        given = [given.get(i, given.get(i - ndim, 0)) for i in range(ndim)]
        return [(x[0], x[-1]) if np.ndim(x) else (x, x) for x in given]
    shape = shape_of(given)
    if len(shape) == 0:
        return [(given, given)] * ndim
    if len(shape) == 1:
        return [(given[0], given[-1])] * ndim
    return [(given[i % shape[0]][0], given[i % shape[0]][-1]) for i in range(ndim)]


def join(axis, before, array, after):
    """Join the padding and the array."""
    return np.concatenate([before, array, after], axis=axis)


def constant(array, axis, widths, values):
    """Blocks of one value each; the gradient reaches the values."""
    blocks = []
    for width, value in zip(widths, values, strict=True):
        shape = (*shape_of(array)[:axis], width, *shape_of(array)[axis + 1 :])
        blocks.append(np.full_like(array, value, shape=shape))
    return join(axis, blocks[0], array, blocks[1])


def gathered(array, axis, widths, mode):
    """Elements of the array again: np.pad of their positions says which."""
    places = np.pad(np.arange(shape_of(array)[axis]), widths, mode=mode)
    return np.take(array, places, axis=axis)


def mirrored(array, axis, widths, mode):
    """Twice the edge less the mirror image: a linear map, which np.pad of the unit matrix writes down."""
    n = shape_of(array)[axis]
    matrix = np.pad(np.eye(n, dtype=array.dtype), (widths, (0, 0)), mode=mode, reflect_type="odd")
    sides = matrix[: widths[0]], matrix[widths[0] + n :]
    before, after = (np.moveaxis(np.tensordot(m, array, ((1,), (axis,))), 0, axis) for m in sides)
    return join(axis, before, array, after)


def ramp(array, axis, widths, ends):
    """Lines from the given ends to the edges."""
    if not shape_of(array)[axis]:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    edges = np.take(array, 0, axis=axis), np.take(array, -1, axis=axis)
    before, after = (
        np.linspace(end, edge, width, endpoint=False, dtype=array.dtype, axis=axis)
        for end, edge, width in zip(ends, edges, widths, strict=True)
    )
    return join(axis, before, array, np.flip(after, axis))


def statistic(array, axis, widths, lengths, function):
    """The mean, say, of the first and of the last elements."""
    n = shape_of(array)[axis]
    if not n:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    first, last = (n if length is None else min(length, n) for length in lengths)
    whole = (slice(None),) * axis
    parts = array[(*whole, slice(0, first))], array[(*whole, slice(n - last, n))]
    before, after = (
        np.repeat(function(part, axis=axis, keepdims=True), width, axis=axis)
        for part, width in zip(parts, widths, strict=True)
    )
    return join(axis, before, array, after)


def unpad(g, pad_width):
    """Cut the padding off."""
    return g[tuple(slice(before, n - after) for (before, after), n in zip(pad_width, shape_of(g), strict=True))]


zeros = Op(lambda array, *, pad_width: np.pad(array, pad_width), "array", (unpad,), "np.pad", kind="linear")

STATISTICS = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}
OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "edge": "",
    "wrap": "",
    **dict.fromkeys(STATISTICS, "stat_length"),
}


@composite(np.pad)
def pad(array, pad_width, mode="constant", **keywords):
    """Pad by the mode's own function, one axis at a time."""
    if mode not in OPTIONS:
        raise unsupported(f"np.pad(mode={mode!r})", f"the modes are {', '.join(OPTIONS)}")
    if set(keywords) - {OPTIONS[mode]}:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {set(keywords)}")
    ndim = np.ndim(array)
    widths = [(int(before), int(after)) for before, after in pairs(pad_width, ndim)]
    if any(width < 0 for pair in widths for width in pair):
        raise ValueError("index can't contain negative values")
    option = keywords.get(OPTIONS[mode], {"reflect_type": "even", "stat_length": None}.get(OPTIONS[mode], 0))
    if mode == "constant" and not isinstance(option, Recorded) and np.ndim(option) == 0 and option == 0:
        return zeros(array, pad_width=tuple(widths))
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        if mode == "constant":
            array = constant(array, axis, width, pairs(option, ndim)[axis])
        elif mode == "linear_ramp":
            array = ramp(array, axis, width, pairs(option, ndim)[axis])
        elif mode in STATISTICS:
            array = statistic(array, axis, width, pairs(option, ndim)[axis], STATISTICS[mode])
        else:
            array = (mirrored if option == "odd" else gathered)(array, axis, width, mode)
    return array
