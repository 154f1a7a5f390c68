"""The kernels that take rows of a matrix by their numbers, and add rows to those of a matrix.

Where the numbers are float64, it is compiled with that word instead. The table: the addresses of the matrix, of the
row numbers (int64, negative ones counted from the end), and of the rows taken or to be added; how many of these there
are, the length of a row, and how many rows the matrix has.
"""

import numpy as np

from minigrad.compiler.native import load, peek, pointer, store

MATRIX, NUMBERS, ROWS, MEMORIES = 0, 1, 2, 3
kind, long = np.float32, np.int64


def take(part, parts, scratch, table):
    """Copy rows of the matrix, a span of them in each part."""
    matrix, numbers, rows = pointer(table, 0, kind), pointer(table, 1, long), pointer(table, 2, kind)
    n, width, all_rows = peek(table + 24), peek(table + 32), peek(table + 40)
    for i in range(part * n // parts, (part + 1) * n // parts):
        number = load(numbers, i, NUMBERS, MEMORIES)
        number = number + all_rows if number < 0 else number
        for j in range(width):
            store(rows, i * width + j, load(matrix, number * width + j, MATRIX, MEMORIES), ROWS, MEMORIES)


def add(part, parts, scratch, table):
    """Set the matrix to 0 and add rows to it in order, a span of their columns in each part."""
    matrix, numbers, rows = pointer(table, 0, kind), pointer(table, 1, long), pointer(table, 2, kind)
    n, width, all_rows = peek(table + 24), peek(table + 32), peek(table + 40)
    low, high = part * width // parts, (part + 1) * width // parts
    for i in range(all_rows):
        for j in range(low, high):
            store(matrix, i * width + j, kind(0), MATRIX, MEMORIES)
    for i in range(n):
        number = load(numbers, i, NUMBERS, MEMORIES)
        number = number + all_rows if number < 0 else number
        for j in range(low, high):
            at = number * width + j
            total = load(matrix, at, MATRIX, MEMORIES) + load(rows, i * width + j, ROWS, MEMORIES)
            store(matrix, at, total, MATRIX, MEMORIES)
