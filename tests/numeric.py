"""Numerical derivatives and comparisons for the tests: plain NumPy, knowing nothing of minigrad.

A derivative is measured along one random direction at a time: f is an array function of its arguments,
`primals` the tuple of arguments, `tangents` a tuple of the same structure, how far each argument moves.

    wanted = inner(g, central_difference(f, primals, tangents))      # <g, J t>, from the forward alone
    got    = inner(adjoint(g, *primals), tangents)                   # <J' g, t>, from what is tested

An argument may be an array or a dict, list or tuple of arrays. A tangent of None leaves its argument (ids,
masks, sizes, functions, whole structures) where it is.
"""

import numpy as np


def leaves(structure):
    """The arrays of nested dicts, lists and tuples, in order; None has none."""
    if structure is None:
        return []
    if isinstance(structure, dict):
        return [leaf for key in structure for leaf in leaves(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in leaves(item)]
    return [structure]


def map_arrays(f, structure, *others):
    """Apply f to every array of a structure, and to its counterparts in the others; None stays None."""
    if structure is None:
        return None
    if isinstance(structure, dict):
        return {key: map_arrays(f, structure[key], *(other[key] for other in others)) for key in structure}
    if isinstance(structure, (list, tuple)):
        return type(structure)(map_arrays(f, *items) for items in zip(structure, *others, strict=True))
    return f(structure, *others)


def is_floating(x):
    """True for an array of real or complex floating-point numbers: what can have a derivative."""
    return isinstance(x, (np.ndarray, np.floating)) and np.issubdtype(x.dtype, np.inexact)


def random_like(structure, rng):
    """Standard normal numbers to two decimals, same shapes and dtypes; None for what is not floating."""
    def draw(x):
        return rng.normal(size=np.shape(x)).round(2).astype(x.dtype) if is_floating(x) else None
    return map_arrays(draw, structure)


def moved(primals, tangents, step):
    """primals + step * tangents, leaf by leaf."""
    if tangents is None:
        return primals
    if isinstance(primals, dict):
        return {key: moved(primals[key], tangents[key], step) for key in primals}
    if isinstance(primals, (list, tuple)):
        return type(primals)(moved(p, t, step) for p, t in zip(primals, tangents, strict=True))
    return primals + step * tangents


def central_difference(f, primals, tangents, step=3e-4):
    """The derivative of f(*primals) along `tangents`, from four points around it: error of order step**4.

    In float64, with values near 1, it is good to about 1e-11. Keep primals 2 * step * |tangents| from a kink.
    """
    def at(distance):
        return f(*moved(primals, tangents, distance))
    near = at(step) - at(-step)
    far = at(2 * step) - at(-2 * step)
    return (8 * near - far) / (12 * step)


def complex_step(f, primals, tangents, step=1e-30):
    """The derivative of an analytic f along `tangents`: imag(f(x + i h t)) / h, exact to rounding.

    Squire & Trapp 1998, doi:10.1137/S003614459631241X. Nothing is subtracted, so h can be tiny.
    f must not take abs, conj or norm, and must compare by real parts (np.maximum and np.max do).
    """
    return np.imag(f(*moved(primals, tangents, 1j * step))) / step


def inner(left, right):
    """The sum of products of two structures of arrays, in float64; a None on the right counts nothing."""
    if left is None or right is None:
        return 0.0
    if isinstance(left, dict):
        return sum(inner(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return sum(inner(x, y) for x, y in zip(left, right, strict=True))
    return float(np.sum(np.asarray(left, np.float64) * np.asarray(right, np.float64)))


def relative_error(got, wanted, floor=1e-2):
    """max |got - wanted| / max |wanted|, or over `floor` where everything wanted is smaller than that.

    The largest value sets the scale, since the rounding of a sum follows its largest term. The floor keeps a
    gradient that is zero but for rounding (a softmax of one column) from counting as wrong. NaN is an error.
    """
    got, wanted = np.asarray(got), np.asarray(wanted)
    if wanted.size == 0:
        return 0.0
    worst = float(np.max(np.abs(got - wanted)) / max(np.max(np.abs(wanted)), floor))
    return np.inf if np.isnan(worst) else worst


def assert_close(got, wanted, tolerance, name="result"):
    """Raise AssertionError unless two structures agree: keys, shapes, dtypes, and values to `tolerance`."""
    if isinstance(wanted, dict):
        assert isinstance(got, dict), f"{name}: wanted a dict, got a {type(got).__name__}"
        assert set(got) == set(wanted), f"{name}: wanted keys {sorted(wanted)}, got {sorted(got)}"
        for key in wanted:
            assert_close(got[key], wanted[key], tolerance, f"{name}[{key!r}]")
    elif isinstance(wanted, (list, tuple)):
        assert isinstance(got, (list, tuple)), f"{name}: wanted a sequence, got a {type(got).__name__}"
        assert len(got) == len(wanted), f"{name}: wanted {len(wanted)} items, got {len(got)}"
        for index, pair in enumerate(zip(got, wanted, strict=True)):
            assert_close(*pair, tolerance, f"{name}[{index}]")
    elif wanted is None:
        assert got is None, f"{name}: wanted None, got {got!r}"
    else:
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert got.shape == wanted.shape, f"{name}: wanted shape {wanted.shape}, got {got.shape}"
        assert got.dtype == wanted.dtype, f"{name}: wanted {wanted.dtype}, got {got.dtype}"
        error = relative_error(got, wanted)
        assert error <= tolerance, (
            f"{name}: relative error {error:.1e} > {tolerance:.0e}\nwanted {wanted}\ngot    {got}")
