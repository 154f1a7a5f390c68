"""einsum: the adjoint of a contraction is a contraction."""

import numpy as np

from minigrad.op import composite, define
from minigrad.rules.index import Slot, scatter
from minigrad.shapes import shape_of


def einsum_terms(subscripts, shapes):
    """Return the input terms and the output of an einsum, with every ellipsis spelt out in letters of its own."""
    subscripts = subscripts.replace(" ", "")
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"einsum: {len(terms)} terms in {subscripts!r} for {len(shapes)} arrays")
    free = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in subscripts]
    extra = [
        len(shape) - len(t.replace("...", "")) if "..." in t else 0 for t, shape in zip(terms, shapes, strict=True)
    ]
    dots = "".join(free[: max(extra, default=0)])
    spelt = [t.replace("...", dots[len(dots) - e :]) for t, e in zip(terms, extra, strict=True)]
    if not arrow:
        letters = "".join(spelt)
        output = dots + "".join(sorted(c for c in set(letters) - set(dots) if letters.count(c) == 1))
    return spelt, output.replace("...", dots)


def einsum_adjoint(g, operands, operands_shape, position, subscripts, optimize):
    """Contract g with the other operands.

    A letter only this operand has was summed away: g is spread along it. A letter it has twice was a diagonal: the
    gradient is put on that diagonal. An axis of length 1 that was broadcast is summed.
    """
    terms, output = einsum_terms(subscripts, operands_shape)
    mine, shape = terms[position], operands_shape[position]
    others = [t for i, t in enumerate(terms) if i != position]
    values = [v for i, v in enumerate(operands) if i != position]
    once = "".join(dict.fromkeys(mine))
    reachable = "".join(c for c in once if c in output or any(c in t for t in others))
    optimize = optimize if isinstance(optimize, (bool, str)) else True  # a path is for the forward pass only
    part = np.einsum(",".join([output, *others]) + "->" + reachable, g, *values, optimize=optimize)
    sizes = {c: n for c, n in zip(mine, shape, strict=True)}
    stretched = tuple(i for i, c in enumerate(reachable) if sizes[c] == 1 and shape_of(part)[i] != 1)
    if stretched:
        part = np.sum(part, axis=stretched, keepdims=True)
    lengths = dict(zip(reachable, shape_of(part), strict=True))  # 1 where only another operand was broadcast
    whole = np.broadcast_to(np.reshape(part, [lengths.get(c, 1) for c in once]), [sizes[c] for c in once])
    if once == mine:
        return whole
    grid = np.meshgrid(*(np.arange(sizes[c]) for c in once), indexing="ij")
    places = tuple(grid[once.index(c)] for c in mine)
    return scatter(whole, *places, index=tuple(Slot(i) for i in range(len(mine))), shape=shape)


def _einsum_bind(*operands, optimize=False, dtype=None, order="K", casting="safe"):
    if not isinstance(operands[0], str):
        operands = _letters(operands)
    params = {"subscripts": operands[0], "optimize": optimize}
    return tuple(operands[1:]), params if dtype is None else params | {"dtype": dtype}


def _letters(operands):
    """Turn einsum(array, [0, 1], array, [1, 2], [0, 2]) into its subscripts form."""

    def word(indices):
        return "".join("..." if k is Ellipsis else chr(97 + k) if k < 26 else chr(39 + k) for k in indices)

    pairs = len(operands) // 2
    subscripts = ",".join(word(operands[2 * i + 1]) for i in range(pairs))
    if len(operands) % 2:
        subscripts += "->" + word(operands[-1])
    return subscripts, *operands[0 : 2 * pairs : 2]


define(
    np.einsum,
    "*operands",
    einsum_adjoint,
    bind=_einsum_bind,
    call=lambda *operands, subscripts, optimize=False, **params: np.einsum(
        subscripts, *operands, optimize=optimize, **params
    ),
)
composite(np.einsum_path)(
    lambda subscripts, *operands, optimize="greedy", einsum_call=False: np.einsum_path(
        subscripts, *(np.empty(shape_of(x)) for x in operands), optimize=optimize, einsum_call=einsum_call
    )
)
