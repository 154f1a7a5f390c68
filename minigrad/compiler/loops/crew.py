"""What the threads of a crew do while they need no Python: go through a list of kernels, and wait for each other.

An instruction is four int64: the address of its kernel, of the kernel's table, whether all threads must have finished
the instructions before, and which thread does it alone (-1: every thread does its part).

The crew shares a block of int64, a cache line for each of what is polled.
"""

from numba import njit, types

from minigrad.compiler.native import call, exchange, fetch_add, peek, poke, relax

long = types.int64
FIELDS = 4  # of an instruction
LINE = 64  # bytes

ARRIVED = 0  # how often a thread has come to a meeting
GENERATION = LINE  # how many lists have been given out
LIST, LENGTH, BASE, SCRATCH, SCRATCH_SIZE, GIVE_WAY = range(2 * LINE, 2 * LINE + 48, 8)
PARKED = 3 * LINE  # one line per thread: 1 while it sleeps, or is about to

BUSY = 200  # how often to look again before others are let run
PATIENCE = 3000  # and before the thread goes to sleep: about a millisecond


@njit(types.void(long, long), nogil=True, cache=True)
def meet(crew, everyone):
    """Wait until all threads are here."""
    fetch_add(crew + ARRIVED, 1)
    looks = 0
    while peek(crew + ARRIVED) < everyone:
        looks += 1
        relax(peek(crew + GIVE_WAY) if looks > BUSY else 0)


@njit(types.void(long, long, long), nogil=True, cache=True)
def work(part, parts, crew):
    """Do this thread's part of the list."""
    at, n, everyone = peek(crew + LIST), peek(crew + LENGTH), peek(crew + BASE)
    scratch = peek(crew + SCRATCH) + part * peek(crew + SCRATCH_SIZE)
    for _ in range(n):
        if peek(at + 16):
            everyone += parts
            meet(crew, everyone)
        alone = peek(at + 24)
        if alone < 0:
            call(peek(at), part, parts, scratch, peek(at + 8))
        elif alone == part:
            call(peek(at), 0, 1, scratch, peek(at + 8))
        at += 8 * FIELDS
    meet(crew, everyone + parts)


@njit(long(long, long, long, long, long, long), nogil=True, cache=True)
def publish(parts, crew, list_, length, scratch, scratch_size):
    """Give out a list; return which of the other threads sleep, as a bit mask."""
    poke(crew + LIST, list_)
    poke(crew + LENGTH, length)
    poke(crew + BASE, peek(crew + ARRIVED))
    poke(crew + SCRATCH, scratch)
    poke(crew + SCRATCH_SIZE, scratch_size)
    fetch_add(crew + GENERATION, 1)
    asleep = 0
    for part in range(1, parts):
        if exchange(crew + PARKED + part * LINE, 0):
            asleep |= 1 << part
    return asleep


@njit(long(long, long, long, long), nogil=True, cache=True)
def serve(part, parts, crew, seen):
    """Work through list after list; return, with the number of the last one, when the thread is to sleep.

    Whoever sets PARKED back to 0 has the say: the thread itself, which then goes on, or the publisher, which wakes it.
    """
    looks = 0
    while True:
        if peek(crew + GENERATION) == seen:
            looks += 1
            relax(peek(crew + GIVE_WAY) if looks > BUSY else 0)
            if looks < PATIENCE:
                continue
            exchange(crew + PARKED + part * LINE, 1)
            if peek(crew + GENERATION) == seen or not exchange(crew + PARKED + part * LINE, 0):
                return seen
        seen += 1
        work(part, parts, crew)
        looks = 0
