"""The kernel that multiplies matrices: one call of BLAS for each matrix of a batch.

The table has for each part the address of a block, all
int64: the address of gemm, of its ten arguments, and how many products there are; then where the factors and the
result of each lie.
"""

from numba import cfunc, types

from minigrad.compiler.native import call_product, peek

HEAD = 3  # numbers before the addresses


@cfunc(types.void(types.int64, types.int64, types.int64, types.int64), cache=True, _nrt=False)
def run(part, parts, scratch, table):
    """Do the products of one part."""
    block = peek(table + 8 * part)
    gemm, known, n = peek(block), peek(block + 8), peek(block + 16)
    at = block + 8 * HEAD
    for _ in range(n):
        call_product(gemm, known, peek(at), peek(at + 8), peek(at + 16))
        at += 24
