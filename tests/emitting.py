"""Running emitted sources and the tape on the same arguments, for test_emit.py and test_golden.py."""

import numpy as np

import minigrad
from samples import direction, generator


def is_array(x):
    return isinstance(x, (np.ndarray, np.generic))


def has_arrays(x, kinds="biufc"):
    """Tell whether there is an array of one of these kinds in a structure."""
    return any(is_array(leaf) and leaf.dtype.kind in kinds for leaf in minigrad.tree.leaves(x))


def on_the_tape(f, args, kwargs, name="g"):
    """Return a random gradient of the result, and the gradients of the arguments with floats in them, by the tape."""
    moving = [i for i, x in enumerate(args) if has_arrays(x, "fc")]

    def function(*given):
        whole = list(args)
        for i, x in zip(moving, given, strict=True):
            whole[i] = x
        return f(*whole, **kwargs)

    out, pull = minigrad.vjp(function, *(args[i] for i in moving))
    g = minigrad.tree.map(lambda x: direction(x, generator(f"{name} cotangent"))[()], out)
    return g, minigrad.tree.leaves(pull(g))


def run(function, g, args, kwargs):
    """Call an emitted adjoint as the original was called, without the arguments that are part of its text."""
    arrays = {k: v for k, v in kwargs.items() if has_arrays(v)}
    with np.errstate(all="ignore"):  # as on the tape
        return function(g, *filter(has_arrays, args), **arrays)


def assert_same(got, wanted, tolerance, who=""):
    """Assert that gradients agree: bit for bit, or to `tolerance` of the largest element of each."""
    got = minigrad.tree.leaves(got)
    assert len(got) == len(wanted), who
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        assert np.shape(a) == np.shape(b), f"{who}, gradient {i}: {np.shape(a)}, wanted {np.shape(b)}"
        assert a.dtype == b.dtype, f"{who}, gradient {i}: {a.dtype}, wanted {b.dtype}"
        if tolerance:
            scale = np.max(np.abs(b), initial=1e-300)
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=f"{who}, gradient {i}")
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"{who}, gradient {i}")
