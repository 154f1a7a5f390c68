"""What the tape keeps alive, for how long, and how deep it may be."""

import gc
import itertools
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import minigrad
from against_numpy import agrees

BIG = np.linspace(0.1, 1.0, 20_000)


@pytest.fixture
def no_collector():
    """Memory must be freed by reference counting alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def watched(kept, f):
    """Return f, with a weak reference to the tape and to each Tensor named in `kept`."""

    def watching(x):
        kept.append(weakref.ref(x))
        kept.append(weakref.ref(x._tape))
        return f(x, lambda t: kept.append(weakref.ref(t)) or t)

    return watching


def assorted(x, watch):
    y = watch(np.exp(x))
    z = watch(y * y)
    view = watch(z[1:])
    buffer = watch(np.zeros_like(x))
    buffer[1:] = view
    view += 1
    parts = watch(np.split(buffer, 2)[0])
    inner = minigrad.grad(lambda w: np.sum(w * w * x), y)
    return np.sum(z) + np.sum(parts) + np.sum(watch(inner))


@pytest.mark.usefixtures("no_collector")
def test_no_reference_cycle_keeps_the_tape():
    alive = []
    minigrad.grad(watched(alive, assorted), BIG)
    assert len(alive) == 8
    assert [r() for r in alive] == [None] * len(alive)


@pytest.mark.usefixtures("no_collector")
def test_no_reference_cycle_after_an_exception():
    def fails(x, watch):
        assorted(x, watch)
        raise KeyError("the user's own")

    alive = []
    with pytest.raises(KeyError):
        minigrad.grad(watched(alive, fails), BIG)
    assert [r() for r in alive] == [None] * len(alive)


@pytest.mark.usefixtures("no_collector")
def test_a_pull_keeps_its_tape_and_no_longer():
    alive = []
    out, pull = minigrad.vjp(watched(alive, assorted), BIG)
    assert alive[1]() is not None
    pull(1.0)
    del pull, out
    assert [r() for r in alive] == [None] * len(alive)


@pytest.mark.usefixtures("no_collector")
def test_transforms_without_cycles():
    calls = {
        "jvp": lambda f: minigrad.jvp(f, (BIG,), (BIG,)),
        "hvp": lambda f: minigrad.hvp(f, BIG, BIG),
        "checkpoint": lambda f: minigrad.grad(lambda x: np.sum(minigrad.checkpoint(np.sin)(x)) + f(x), BIG),
        "custom": lambda f: minigrad.grad(minigrad.custom_adjoint(f, lambda g, x: g * x), BIG),
    }
    for name, call in calls.items():
        if name != "custom":
            alive = []
            call(watched(alive, lambda x, watch: np.sum(np.tanh(watch(x * x)))))
            assert [r() for r in alive] == [None] * len(alive), name
    tracemalloc.start()
    try:
        for _ in range(20):
            calls["custom"](lambda x: np.sum(x * x))
        assert tracemalloc.get_traced_memory()[0] < 2 * BIG.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("no_collector")
def test_many_calls_do_not_accumulate():
    f = lambda x: np.sum(np.exp(x) * x)
    minigrad.grad(f, BIG)
    tracemalloc.start()
    try:
        for _ in range(30):
            minigrad.grad(f, BIG)
        assert tracemalloc.get_traced_memory()[0] < BIG.nbytes
    finally:
        tracemalloc.stop()


# --- depth


def test_a_graph_of_100_000_ops():
    limit = sys.getrecursionlimit()

    def deep(x):
        for _ in range(50_000):
            x = x + x * 1e-6
        return np.sum(x)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(minigrad.grad(deep, x), np.full(2, (1 + 1e-6) ** 50_000), rtol=1e-9)
    assert sys.getrecursionlimit() == limit


def test_a_deep_chain_of_views_and_assignments():
    def deep(x):
        y = x * 1
        for _ in range(101):
            y = y[::-1]
        for i in range(2_000):
            x = x * 1
            x[i % 3] += 0.001
        y[0] += x[1]
        return y * y

    agrees(deep, np.array([1.0, 2.0, 3.0]))


def test_a_wide_sum():
    def wide(x):
        return sum(np.sum(x) * (1.0 if k % 2 else -1.0) for k in range(6_000)) + np.sum(x * x)

    np.testing.assert_allclose(minigrad.grad(wide, np.array([1.0, 2.0])), [2.0, 4.0], atol=1e-9)


# --- what is kept between the forward and the backward pass


def alive_after(f):
    """Return whether the arrays that f hands to `watch` are alive when the forward pass has ended."""
    references = []

    def watch(t):
        references.append(weakref.ref(minigrad.stop_gradient(t).base))
        return t

    out, pull = minigrad.vjp(lambda x: f(x, watch), BIG)
    alive = [r() is not None for r in references]
    del out
    pull(np.ones(()))
    return alive


def test_what_no_rule_names_is_not_kept():
    # The sum of x + 1 needs neither; exp needs its result; the square needs its argument.
    assert alive_after(lambda x, watch: np.sum(watch(x + 1))) == [False]
    assert alive_after(lambda x, watch: np.sum(watch(np.exp(x)))) == [True]
    assert alive_after(lambda x, watch: np.sum(watch(watch(x * 2) ** 2))) == [True, False]
    assert alive_after(lambda x, watch: np.sum(watch(np.sin(watch(x - 1)))[1:])) == [True, False]
    assert alive_after(lambda x, watch: np.sum(np.concatenate([watch(x * 2), watch(x + 2)]))) == [False, False]
    assert alive_after(lambda x, watch: np.max(watch(watch(x * 3).reshape(2, -1)) + 1)) == [False, False]
    assert alive_after(lambda x, watch: np.sum(watch(x + 1) * 2.0)) == [False]
    assert alive_after(lambda x, watch: np.sum(watch(x + 1)[np.array([0, 1])])) == [False]


def peak(f):
    """Return the most memory that f has at any moment."""
    f()
    tracemalloc.start()
    try:
        f()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_nodes_are_released_during_the_backward_pass():
    def chain(x):
        for _ in range(40):
            x = np.sin(x)  # keeps its argument
        return np.sum(x)

    forward = 41 * BIG.nbytes
    assert peak(lambda: minigrad.grad(chain, BIG)) < forward + 6 * BIG.nbytes

    sizes = []
    look = minigrad.custom_adjoint(
        lambda x: x + 0.0, lambda g, x: sizes.append(tracemalloc.get_traced_memory()[0]) or g * 1
    )

    def watched_chain(x):
        for i in range(40):
            x = np.sin(x)
            if i % 10 == 0:
                x = look(x)
        return np.sum(x)

    peak(lambda: minigrad.grad(watched_chain, BIG))
    assert len(sizes) == 8
    measured = sizes[4:]
    assert all(later < earlier - 5 * BIG.nbytes for earlier, later in itertools.pairwise(measured))


def test_gradients_of_the_inside_are_dropped_as_they_are_used():
    def chain(x):
        for _ in range(60):
            x = x + 1.0  # keeps nothing
        return np.sum(x)

    assert peak(lambda: minigrad.grad(chain, BIG)) < 8 * BIG.nbytes


def test_a_sum_of_many_gradients_needs_no_copies():
    def shared(x):
        return sum(np.sum(x * k) for k in range(50))

    assert peak(lambda: minigrad.grad(shared, BIG)) < 10 * BIG.nbytes


def test_a_pull_does_not_keep_the_result():
    f = lambda x: np.concatenate([x + 1] * 10)
    minigrad.vjp(f, BIG)
    tracemalloc.start()
    try:
        pull = minigrad.vjp(f, BIG)[1]
        assert tracemalloc.get_traced_memory()[0] < 2 * BIG.nbytes
    finally:
        tracemalloc.stop()
    assert pull(np.ones(10 * BIG.size))[0][0] == 10
