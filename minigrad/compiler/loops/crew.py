"""What the threads of a crew do while they need no Python: go through a list of kernels, each its part of every one.

An instruction is six int64: the address of its kernel, of the kernel's table, how many parts it has, how many parts
all instructions before it have, how many of those must be done before it may start, and which thread it is meant for
if it has one part.

Every thread does its own part of an instruction, so that it finds in its cache what it computed before. While it
waits, it does those parts that others have not begun: a thread that the system has not woken, or has stopped in
favour of another program, is not waited for. Whoever claims a part first, does it.

The crew shares a block of int64, with a cache line of its own for each that is polled.
"""

from minigrad.compiler.native import call, exchange, fetch_add, peek, poke, swap

FIELDS = 6  # of an instruction
LINE = 64  # bytes

OPEN = 0  # the number of the list that is being worked on, 0 between two
DONE = LINE  # how many parts of it are done
INSIDE = 2 * LINE  # how many threads look at it, besides the one that has published it
LIST, LENGTH, PARTS, CLAIMS, SCRATCH, SCRATCH_SIZE, GIVE_WAY = range(3 * LINE, 3 * LINE + 56, 8)
PARKED = 4 * LINE  # one line per thread: 1 while it sleeps, or is about to

BUSY = 200  # how often to look again before others are let run
PATIENCE = 3000  # and before the thread goes to sleep: about a millisecond


def do(crew, thread, at, part):
    """Do a part of an instruction, unless somebody has begun it. A claim is the number of the list it was made for."""
    number, claim = peek(crew + OPEN), peek(crew + CLAIMS) + 8 * (peek(at + 24) + part)
    before = peek(claim)
    if before < number and swap(claim, before, number):
        scratch = peek(crew + SCRATCH) + thread * peek(crew + SCRATCH_SIZE)
        call(peek(at), part, peek(at + 16), scratch, peek(at + 8))
        fetch_add(crew + DONE, 1)


def pause(crew, looks):
    """Before the next look in a loop, and after many of them, let other threads run."""
    if looks > BUSY:
        give_way = peek(crew + GIVE_WAY)
        if give_way:
            call(give_way)


def wait(crew, thread, done, begin, end):
    """Wait until so many parts are done; meanwhile do what nobody has begun of the instructions in between."""
    if peek(crew + DONE) >= done:
        return
    at = begin
    while at < end and peek(crew + DONE) < done:
        for part in range(peek(at + 16)):
            do(crew, thread, at, part)
        at += 8 * FIELDS
    looks = 0
    while peek(crew + DONE) < done:
        looks += 1
        pause(crew, looks)


def work(thread, crew):
    """Go through the list."""
    at = peek(crew + LIST)
    begin, after = at, 0
    for _ in range(peek(crew + LENGTH)):
        if peek(at + 32) > after:
            after = peek(at + 32)
            wait(crew, thread, after, begin, at)
            begin = at
        if peek(at + 16) > 1:
            do(crew, thread, at, thread)
        elif peek(at + 40) == thread:
            do(crew, thread, at, 0)
        at += 8 * FIELDS
    wait(crew, thread, peek(crew + PARTS), begin, at)


def finish(crew):
    """Do what is to be done of the open list, and close it: nobody looks at it from then on."""
    if peek(crew + OPEN):
        work(0, crew)
        exchange(crew + OPEN, 0)
        looks = 0
        while peek(crew + INSIDE):
            looks += 1
            pause(crew, looks)


def publish(crew, threads, number) -> int:
    """Open the list; return which of the other threads sleep, as a bit mask: they are to be woken."""
    poke(crew + DONE, 0)
    exchange(crew + OPEN, number)
    asleep = 0
    for thread in range(1, threads):
        if exchange(crew + PARKED + thread * LINE, 0):
            asleep |= 1 << thread
    return asleep


def is_new(crew, seen) -> bool:
    """Tell whether a list is open that the thread has not been through."""
    number = peek(crew + OPEN)
    return number != 0 and number != seen


def serve(thread, crew, seen) -> int:
    """Work through list after list; return, with the number of the last one, when the thread is to sleep.

    Whoever sets PARKED back to 0 has the say: the thread itself, which then goes on, or the publisher, which wakes it.
    """
    looks = 0
    while True:
        if is_new(crew, seen):
            looks = 0
            fetch_add(crew + INSIDE, 1)
            number = peek(crew + OPEN)
            if number:  # otherwise it was closed just now
                seen = number
                work(thread, crew)
            fetch_add(crew + INSIDE, -1)
        else:
            looks += 1
            pause(crew, looks)
            if looks >= PATIENCE:
                exchange(crew + PARKED + thread * LINE, 1)
                if not is_new(crew, seen) or not exchange(crew + PARKED + thread * LINE, 0):
                    return seen
