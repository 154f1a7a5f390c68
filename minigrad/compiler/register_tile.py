"""The innermost loop of a matrix product: a tile of the result that stays in the processor's registers.

For each k, a column of the left factor times a row of the right one is added to the tile: two loads of vectors and a
broadcast per row feed twice as many multiplications as there are rows, which is what keeps the multipliers busy
(Goto & van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008; the tile is BLIS's microkernel).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from minigrad.compiler.llvm_arithmetic import llvm_type, to_long
from minigrad.compiler.processor import cpu

__all__ = ["VECTORS", "add_products", "rows_and_bytes"]

VECTORS = 2  # in a row of the tile


@functools.cache
def rows_and_bytes() -> tuple[int, int]:
    """Return how many rows the tile has on this processor, and the bytes of a vector."""
    registers, n_bytes = _vector_registers()
    # The tile, a row of the right factor and one number of the left: 12 x 2 + 2 + 1 of 32, 6 x 2 + 2 + 1 of 16.
    return 12 if registers == 32 else 6, n_bytes


def _vector_registers() -> tuple[int, int]:
    """Return how many registers for vectors this processor has, and the bytes of each."""
    from llvmlite import binding

    features = cpu()[1].split(",")
    if "+avx512f" in features:
        return 32, 64
    if "+avx" in features:
        return 16, 32
    return (32 if "+neon" in features or "aarch64" in binding.get_process_triple() else 16), 16


def add_products(
    builder: Any, kind: Any, a: Any, row: Any, column: Any, rows: Any, b: Any, width: Any, c: Any, ldc: Any,
    k: Any, add: Any,
) -> None:  # fmt: skip
    """Set a tile of c to the product of rows of a and columns of b; where `add` is not 0, add it to the tile.

    a, b and c are addresses of float32 or float64, as `kind` says; distances are counted in numbers. Those of
    the tile's rows in a are `row`, of its columns `column`; of rows in b and c, `width` and `ldc`. If a has fewer
    `rows` than the tile, the last of them is computed, and stored, more than once.
    """
    from llvmlite import ir

    n_rows, n_bytes = rows_and_bytes()
    long, short, real = llvm_type(np.int64), ir.IntType(32), llvm_type(kind)
    size = np.dtype(kind).itemsize
    vector = ir.VectorType(real, n_bytes // size)
    tile = [(i, j) for i in range(n_rows) for j in range(VECTORS)]
    row, column, rows, width, ldc, k, add = (to_long(builder, x) for x in (row, column, rows, width, ldc, k, add))
    a, b, c = (builder.inttoptr(x, real.as_pointer()) for x in (a, b, c))

    def vector_at(start: Any, j: int) -> Any:
        return builder.bitcast(builder.gep(start, [long(j * vector.count)]), vector.as_pointer())

    def spread(x: Any) -> Any:
        none = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(none, x, short(0))
        return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(short, vector.count), None))

    def next_sum(total: Any, x: Any, y: Any) -> Any:
        return builder.fadd(total, builder.fmul(x, y, flags=("contract",)), flags=("contract",))

    def fetch(start: Any) -> None:
        """Bring what will be stored into the cache meanwhile."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, short, short, short])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        write, near, data = short(1), short(3), short(1)
        for at in range(0, VECTORS * n_bytes, 64):
            line = builder.bitcast(builder.gep(start, [long(at // size)]), byte)
            builder.call(prefetch, [line, write, near, data])

    last = builder.sub(rows, long(1))
    which = [builder.select(builder.icmp_signed("<", long(i), rows), long(i), last) for i in range(n_rows)]
    a_rows = [builder.gep(a, [builder.mul(i, row)]) for i in which]
    c_rows = [builder.gep(c, [builder.mul(i, ldc)]) for i in which]

    for start in c_rows:
        fetch(start)

    before, loop = builder.block, builder.append_basic_block("products")
    adding, storing = builder.append_basic_block("add"), builder.append_basic_block("store")
    builder.branch(loop)

    builder.position_at_end(loop)
    steps = [(builder.phi(long), step) for step in (long(1), column, width)]
    (count, _), (along_a, _), (along_b, _) = steps
    sums = {at: builder.phi(vector) for at in tile}
    y = [builder.load(vector_at(builder.gep(b, [along_b]), j), align=size) for j in range(VECTORS)]
    x = [spread(builder.load(builder.gep(start, [along_a]))) for start in a_rows]
    totals = {(i, j): next_sum(sums[i, j], x[i], y[j]) for i, j in tile}
    for place, step in steps:
        place.add_incoming(long(0), before)
        place.add_incoming(builder.add(place, step), loop)
    for at in tile:
        sums[at].add_incoming(ir.Constant(vector, None), before)
        sums[at].add_incoming(totals[at], loop)
    done = builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed("<", builder.add(count, long(1)), k), loop, done)

    builder.position_at_end(done)
    builder.cbranch(builder.icmp_signed("!=", add, long(0)), adding, storing)

    builder.position_at_end(adding)  # all are read before any is stored: the last row may be there twice
    old = {(i, j): builder.load(vector_at(c_rows[i], j), align=size) for i, j in tile}
    new = {at: builder.fadd(old[at], totals[at]) for at in tile}
    builder.branch(storing)

    builder.position_at_end(storing)
    results = {at: builder.phi(vector) for at in tile}
    for (i, j), result in results.items():
        result.add_incoming(totals[i, j], done)
        result.add_incoming(new[i, j], adding)
    for (i, j), result in results.items():
        builder.store(result, vector_at(c_rows[i], j), align=size)
