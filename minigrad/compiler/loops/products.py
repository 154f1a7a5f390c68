"""The kernel that multiplies matrices: blocks that fit the caches, and in them tiles that fit the registers.

For float64 it is compiled with that word instead. The table has for each part the address of a block of int64: the
sizes m, n and k of c = a b (a is m x k, b is k x n), the distances between rows and between columns of a and of b,
and between rows of c, in numbers; how many products there are; then where a, b and c of each begin.

b is copied first, into panels as wide as a tile, so that the innermost loop reads it from one end to the other. a is
copied too if its rows lie across memory.
"""

import numpy as np

from minigrad.compiler.native import load, peek, place, store
from minigrad.compiler.register_tile import VECTORS, add_products, rows_and_bytes

kind = np.float32
SIZE = np.dtype(kind).itemsize
ROWS, VECTOR_BYTES = rows_and_bytes()
WIDTH = VECTORS * VECTOR_BYTES // SIZE  # of a tile
HEAD = 9  # numbers before the addresses

DEPTH = 384  # of a block: a panel of b, DEPTH x WIDTH, stays in the first-level cache, or near it
TILES = 96 // ROWS  # in a block of a, which stays in the second-level cache
PANELS = 512 // WIDTH  # in a block of b
LINE = 64  # bytes of the cache
MANY = 256  # columns of b, from which on it pays to copy a, if its rows lie across memory
SCRATCH = LINE + SIZE * (ROWS * WIDTH + DEPTH * (PANELS * WIDTH + TILES * ROWS))  # bytes


def copy_panels(b, row, column, k, n, panels):
    """Copy columns of b into panels; what the last of them has more is 0."""
    old, new = place(b, kind), place(panels, kind)
    whole = n // WIDTH * WIDTH
    if column == 1:
        for i in range(k):
            for j in range(0, whole, WIDTH):
                for c in range(WIDTH):
                    store(new, j * k + i * WIDTH + c, load(old, i * row + j + c, 0, 2), 1, 2)
    else:
        for j in range(whole):
            at = j // WIDTH * WIDTH * k + j % WIDTH
            for i in range(k):
                store(new, at + i * WIDTH, load(old, i * row + j * column, 0, 2), 1, 2)
    if whole < n:
        for i in range(k):
            for c in range(WIDTH):
                x = kind(0)
                if whole + c < n:
                    x = load(old, i * row + (whole + c) * column, 0, 2)
                store(new, whole * k + i * WIDTH + c, x, 1, 2)


def copy_rows(a, row, column, rows, k, strip):
    """Copy rows of a that lie across memory: number i of each lies beside number i of the others."""
    old, new = place(a, kind), place(strip, kind)
    for i in range(k):
        for r in range(rows):
            store(new, i * ROWS + r, load(old, i * column + r * row, 0, 2), 1, 2)


def tile(a, row, column, rows, b, width, columns, c, ldc, k, add, spare):
    """Compute a tile; where fewer columns than it has are wanted, in spare memory."""
    whole = columns == WIDTH
    to, distance = c if whole else spare, ldc if whole else WIDTH
    add_products(kind, a, row, column, rows, b, width, to, distance, k, add if whole else 0)
    if not whole:
        new, result = place(spare, kind), place(c, kind)
        for i in range(rows):
            for j in range(columns):
                x = load(new, i * WIDTH + j, 0, 2)
                if add:
                    x += load(result, i * ldc + j, 1, 2)
                store(result, i * ldc + j, x, 1, 2)


def product(m, n, k, row_a, column_a, row_b, column_b, ldc, a, b, c, scratch):
    """Compute c = a b."""
    spare = (scratch + LINE - 1) // LINE * LINE
    panels = spare + ROWS * WIDTH * SIZE
    strips = panels + DEPTH * PANELS * WIDTH * SIZE
    all_tiles, depths = (m + ROWS - 1) // ROWS, (k + DEPTH - 1) // DEPTH
    few_rows, many_columns = m <= 2 * ROWS, n >= MANY
    for left in range(0, n, PANELS * WIDTH):
        right = min(left + PANELS * WIDTH, n)
        for d in range(depths):
            low, depth = k * d // depths, k * (d + 1) // depths - k * d // depths
            start = b + (low * row_b + left * column_b) * SIZE
            direct = few_rows and column_b == 1
            whole = (right - left) // WIDTH * WIDTH if direct else 0
            if whole < right - left:
                at = whole * depth * SIZE
                copy_panels(start + whole * SIZE, row_b, column_b, depth, right - left - whole, panels + at)
            for first in range(0, all_tiles, TILES):
                for j in range(left, right, WIDTH):
                    panel, width = panels + (j - left) * depth * SIZE, WIDTH
                    if j - left < whole:
                        panel, width = start + (j - left) * SIZE, row_b
                    for t in range(first, min(first + TILES, all_tiles)):
                        i, end = m * t // all_tiles, m * (t + 1) // all_tiles  # tiles of almost the same height
                        rows, row, column = a + (i * row_a + low * column_a) * SIZE, row_a, column_a
                        if column_a != 1 and many_columns:
                            strip = strips + (t - first) * depth * ROWS * SIZE
                            if j == left:
                                copy_rows(rows, row_a, column_a, end - i, depth, strip)
                            rows, row, column = strip, 1, ROWS
                        to = c + (i * ldc + j) * SIZE
                        tile(rows, row, column, end - i, panel, width, min(WIDTH, right - j), to, ldc, depth, d, spare)


def run(part, parts, scratch, table):
    """Do the products of one part."""
    block = peek(table + 8 * part)
    m, n, k = peek(block), peek(block + 8), peek(block + 16)
    row_a, column_a, row_b, column_b = peek(block + 24), peek(block + 32), peek(block + 40), peek(block + 48)
    ldc, many = peek(block + 56), peek(block + 64)
    at = block + 8 * HEAD
    for _ in range(many):
        a, b, c = peek(at), peek(at + 8), peek(at + 16)
        product(m, n, k, row_a, column_a, row_b, column_b, ldc, a, b, c, scratch)
        at += 24
