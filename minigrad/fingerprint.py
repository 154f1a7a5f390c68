"""A number that changes when an array does: how the tape notices that an array was overwritten."""

from types import CodeType

import numpy as np

from minigrad.errors import OverwrittenError, source_line

__all__ = ["Guard", "check_again", "check_guards", "fingerprint"]

Guard = tuple[str, np.ndarray, int]  # the name of an array that the user could overwrite, the array, its fingerprint

_BLOCK = 1 << 14
# Odd weights: multiplication by an odd number is invertible modulo 2**64, so a change of any one word always shows.
_WEIGHTS = np.random.default_rng(20_240_613).integers(0, 2**63, _BLOCK, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_DOWN = np.uint64(33)


def fingerprint(array: np.ndarray) -> int:
    """Return a 64-bit fingerprint of the bytes of an array.

    Large arrays are first reduced, block by block, to the dot product of their words with fixed random odd weights
    modulo 2**64: at 8 GB/s, where hashing the bytes ran at 2 to 4. Modulo 2**64 the top bits of a word hardly count
    (change the sign of two numbers, and 2**63 times two odd weights is nothing), so they are first folded down, by a
    distance at which the sign bits of neighbours in one word do not meet.
    """
    if array.dtype.hasobject:
        return hash(tuple(map(id, array.ravel().tolist())))
    if array.nbytes <= 1 << 16:  # below, hashing is faster than the calls of NumPy that follow
        return hash(array.tobytes("A"))
    data = np.ascontiguousarray(array.T if array.flags.f_contiguous else array).reshape(-1).view(np.uint8)
    words = data[: data.size - data.size % 8].view(np.uint64)
    sums = []
    scratch = np.empty(_BLOCK, np.uint64)
    for start in range(0, words.size, _BLOCK):
        block = words[start : start + _BLOCK]
        folded = np.right_shift(block, _DOWN, out=scratch[: block.size])
        folded ^= block
        sums.append(int(np.vecdot(folded, _WEIGHTS[: block.size])))
    return hash((*sums, data[words.size * 8 :].tobytes()))


_user_code_runs = [0]


def check_again() -> None:
    """Say that code of the user ran in a backward pass: what was checked before may have been overwritten since."""
    _user_code_runs[0] += 1


def check_guards(
    guards: list[Guard], checked: dict[int, int], op: str, code: CodeType | None, instruction: int
) -> None:
    """Raise if an array is no longer what an op used: the op of this name, called at this place.

    `checked` has the fingerprints taken before in this backward pass, by identity of the array.
    """
    if checked.get(-1) != _user_code_runs[0]:
        checked.clear()
        checked[-1] = _user_code_runs[0]
    for name, array, mark in guards:
        now = checked.get(id(array))
        if now is None:
            now = checked[id(array)] = fingerprint(array)
        if now != mark:
            raise OverwrittenError(
                f"an array that {op} used as {name.lstrip('*')!r} ({array.dtype} {array.shape}) was "
                "overwritten between the forward and the backward pass, so its gradient would be wrong.\n"
                f"  used at   {source_line(code, instruction)}\n"
                "  fix       write to a copy (array.copy()), or compute with new arrays instead of in place"
            )
