"""Which result takes the memory of which donated argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad import tree
from minigrad.program import Atom, Program, Var

__all__ = ["pair"]


def pair(program: Program, structure: tree.Structure, args: Sequence[Any], donate: tuple[int, ...]) -> dict[Atom, Var]:
    """Pair results with donated inputs.

    An argument goes with the first result of its structure and shapes; what is then left, with the first results of
    the same shape and dtype. Numbers are not worth it: as arguments they may come as scalars, which are not writable.
    """
    inputs = iter(program.inputs)
    pairs: dict[Atom, Var] = {}
    results = _parts(structure, program.outputs)
    left: list[Var] = []

    def fits(atom: Atom, var: Var) -> bool:
        return isinstance(atom, Var) and atom not in pairs and (atom.shape, atom.dtype) == (var.shape, var.dtype)

    for i, argument in enumerate(args):
        leaves, kind = tree.flatten(argument)
        own = [next(inputs) for leaf in leaves if isinstance(leaf, (np.ndarray, np.generic))]
        if i not in donate:
            continue
        whole = len(own) == len(leaves)
        for part, atoms in results if whole else []:
            if part == kind and len(set(atoms)) == len(own) and all(map(fits, atoms, own)):
                pairs.update(zip(atoms, own, strict=True))
                break
        else:
            left += own
    for atom in program.outputs:
        found = next((v for v in left if v.shape and fits(atom, v)), None)
        if found is not None:
            pairs[atom] = found
            left.remove(found)
    return {atom: var for atom, var in pairs.items() if var.shape}


def _parts(structure: tree.Structure, atoms: Sequence[Atom]) -> list[tuple[tree.Structure, list[Atom]]]:
    """Return the whole result, and if it is a tuple or a list, each of its items."""
    rest = iter(atoms)
    items = structure.children if structure.kind in (tuple, list) else ()
    return [(structure, list(atoms)), *((item, [next(rest) for _ in range(item.n_leaves)]) for item in items)]
