"""The oracle of the core's tests: a function written in plain NumPy is run on arrays and on Tensors.

The values must be the same to the last bit, the gradients those of central differences.
"""

import numpy as np
import pytest

import minigrad
from numeric import central_difference


def results_of(out):
    """Return the arrays of a result: itself, or those of a tuple or list."""
    return list(out) if isinstance(out, (tuple, list)) else [out]


def agrees(f, *primals, tolerance=1e-7, seed=0):
    """Raise unless `f(*primals)` on Tensors is NumPy's result, with the gradient that differences give."""
    rng = np.random.default_rng(seed)
    wanted = [np.asarray(x) for x in results_of(f(*map(np.copy, primals)))]
    got, pull = minigrad.vjp(lambda *x: tuple(results_of(f(*x))), *primals)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        assert np.asarray(g).dtype == w.dtype, f"wanted {w.dtype}, got {np.asarray(g).dtype}"
        np.testing.assert_array_equal(g, w)
    cotangents = tuple(rng.normal(size=w.shape) for w in wanted)
    tangents = tuple(rng.normal(size=np.shape(x)) for x in primals)

    def loss(*moved):
        parts = zip(cotangents, results_of(f(*map(np.copy, moved))), strict=True)
        return sum(float(np.sum(c * np.asarray(y))) for c, y in parts)

    slope = central_difference(loss, primals, tangents)
    seeds = tuple(c.astype(w.dtype) for c, w in zip(cotangents, wanted, strict=True))
    pulled = sum(float(np.sum(g * t)) for g, t in zip(pull(seeds), tangents, strict=True))
    assert abs(pulled - slope) <= tolerance * max(1.0, abs(slope)), f"differences give {slope}, got {pulled}"


def refuses_alike(f, *primals):
    """Raise unless `f` raises on Tensors what it raises on arrays."""
    try:
        f(*map(np.copy, primals))
    except (TypeError, ValueError, IndexError) as error:
        wanted = next(kind for kind in (TypeError, ValueError, IndexError) if isinstance(error, kind))
    else:
        raise AssertionError("NumPy does not refuse this")
    with pytest.raises(wanted):
        minigrad.vjp(f, *primals)
