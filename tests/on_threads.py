"""What the tests of both kinds of threads, the crew's and NumPy's, share."""

import threading

import numpy as np

import minigrad


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((300, 64)), rng.standard_normal((64, 64))


def close(got, wanted):
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.max(np.abs(b)))


def always_the_same_bits(compiled, step):
    """Assert that a compiled step is right, and that runs are identical."""
    first = compiled(*inputs())
    close(first, step(*inputs()))
    for _ in range(30):
        for again, once in zip(compiled(*inputs()), first, strict=True):
            np.testing.assert_array_equal(again, once)


def serves_several_callers(step, backend):
    """Assert that threads of the user's, each with a compiled function of its own, all get what is right."""
    wrong = []

    def caller(seed):
        compiled = minigrad.compile(step, backend=backend)
        wanted = step(*inputs(seed))
        for _ in range(20):
            try:
                close(compiled(*inputs(seed)), wanted)
            except AssertionError as error:
                wrong.append(error)

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=120)
    assert not wrong
    assert not any(thread.is_alive() for thread in callers)
