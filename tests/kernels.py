"""Calling compiled kernels on arrays, as a crew does."""

import ctypes

import numpy as np

from minigrad.compiler.kernel_cache import kernel_functions

TYPES = {"f4": np.float32, "f8": np.float64, "i8": np.int64, "i4": np.int32, "b1": np.bool_}
NAMES = {np.dtype(t): name for name, t in TYPES.items()}


def call(source, *arrays, part=0, parts=1):
    """Run a kernel on arrays: their addresses are its table."""
    table = np.array([a.ctypes.data for a in arrays], np.int64)
    scratch = np.zeros(64, np.int64)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(kernel_functions(source)["run"])
    function(part, parts, scratch.ctypes.data, table.ctypes.data)


def function(source, name, parameters):
    """A function of a source, with int64 as parameters."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * parameters)(kernel_functions(source)[name])


def elementwise_source(expression, n, *kinds, to):
    """The kernel that computes an expression of a, b, ... for each of n elements."""
    names, k = "abc"[: len(kinds)], len(kinds)
    lines = [f"    m{i} = pointer(table, {i}, {kind})" for i, kind in enumerate([*kinds, to])]
    lines.append(f"    for j in range({n}):")
    lines += [f"        {name} = load(m{i}, j, {i}, {k + 1})" for i, name in enumerate(names)]
    lines.append(f"        store(m{k}, j, {expression}, {k}, {k + 1})")
    return "\n".join(["def run(part, parts, scratch, table):", *lines, ""])


def elementwise(expression, *arrays, to):
    """Compute an expression of a, b, ... for each element of the arrays."""
    out = np.empty(arrays[0].shape, TYPES[to])
    kinds = [NAMES[x.dtype] for x in arrays]
    call(elementwise_source(expression, arrays[0].size, *kinds, to=to), *arrays, out)
    return out
