"""The threads among which the NumPy backend shares calls."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import minigrad
from minigrad.compiler import numpy_backend, numpy_calls
from minigrad.compiler.layout import span
from minigrad.compiler.threads import Run, Task
from on_threads import always_the_same_bits, close, inputs, serves_several_callers


@pytest.fixture(params=[2, 3, 5])
def threads(request, monkeypatch):
    """Let also small arrays be shared, on any machine."""
    monkeypatch.setattr(numpy_backend, "threads_of_blas", lambda: request.param)
    monkeypatch.setattr(numpy_backend, "MOST_ALONE", 64)
    monkeypatch.setattr(numpy_calls, "MOST_WORK_ALONE", 64)
    return request.param


def step(x, w):
    """Something with rows to share, a sum over rows, and products, one of them of a batch."""
    h = np.tanh(x @ w)
    heads = np.swapaxes(h.reshape(20, 15, 4, 16), 1, 2)
    scores = heads @ np.swapaxes(heads, -1, -2)
    return h - h.max(-1, keepdims=True), (h * h).sum(0), h @ w.T, np.exp(scores).sum(-1), np.sum(h)


def runs(compiled):
    return [s for s, _ in compiled.executable.steps if isinstance(s, Run)]


def test_any_number_of_threads_gives_the_result_and_always_the_same_bits(threads):
    compiled = minigrad.compile(step, backend="numpy")
    always_the_same_bits(compiled, step)
    assert runs(compiled)[0].threads == threads


def test_gradients_and_donated_updates(threads):
    def update(w, x):
        value, g = minigrad.value_and_grad(
            lambda w: np.mean(np.tanh(np.sqrt(np.abs(x @ w))) * np.exp(-(x[:, :1] ** 2))), w
        )
        return value, w - 0.1 * g

    x, w = inputs()
    wanted, compiled = w, minigrad.compile(update, backend="numpy", donate=0)
    for _ in range(5):
        value, wanted = update(wanted, x)
        got, w = compiled(w, x)
        close((got, w), (value, wanted))


def test_zero_stays_zero_where_another_thread_made_the_nan(threads):
    def loss(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0) * x)

    x = np.maximum(inputs()[0], 0)
    got = minigrad.compile(lambda x: minigrad.grad(loss, x), backend="numpy")(x)
    assert np.all(np.isfinite(got))
    np.testing.assert_array_equal(got, minigrad.grad(loss, x))


def test_callers_from_several_threads(threads):
    serves_several_callers(step, "numpy")


def fail():
    raise MemoryError("of a worker")


@pytest.mark.parametrize("worker", [0, 1])
def test_an_error_in_any_thread_is_the_callers_and_names_the_line_and_the_next_run_is_right(threads, worker):
    compiled, given = minigrad.compile(step, backend="numpy"), inputs()
    wanted = compiled(*given)
    program = runs(compiled)[0]._programs[worker]
    at = next(i for i, (_, eq) in enumerate(program) if eq is not None and eq.op.name == "np.exp")
    call, eq = program[at]
    program[at] = fail, eq
    with pytest.raises(MemoryError, match="of a worker") as caught:
        compiled(*given)
    assert caught.value.__notes__ == [f"in np.exp of a compiled function, at {eq.source}"]
    program[at] = call, eq
    close(compiled(*given), wanted)


@pytest.mark.parametrize("worker", [0, 1])
def test_an_interrupt_ends_the_run_when_the_others_have_ended_their_calls(worker):
    x = np.zeros(1)
    went: list[int] = []

    def interrupted():
        raise KeyboardInterrupt

    def slow():
        time.sleep(0.05)
        went.append(1)

    eqs = minigrad.trace(np.exp, x).equations
    tasks = [
        Task(lambda _: [interrupted], list(eqs), [], [], 1, worker),
        Task(lambda _: [slow, slow, slow, slow], list(eqs), [], [], 1, 1 - worker),
    ]
    run = Run(tasks, 2, np.errstate)
    with pytest.raises(KeyboardInterrupt):
        run()
    n = len(went)
    time.sleep(0.1)
    assert n == len(went) <= 1


def test_a_task_waits_for_what_it_reads_and_for_who_reads_what_it_writes():
    x = np.zeros(4)
    order: list[str] = []
    eqs = list(minigrad.trace(np.exp, x).equations)

    def call(name, seconds):
        def run():
            time.sleep(seconds)
            order.append(name)

        return lambda _: [run]

    left, right = [span(x[:2])], [span(x[2:])]
    tasks = [
        Task(call("writes left", 0.05), eqs, [], left, 1, 0),
        Task(call("writes right", 0), eqs, [], right, 1, 1),
        Task(call("reads left", 0.05), eqs, left, [], 1, 1),
        Task(call("writes left again", 0), eqs, [], left, 1, 0),
    ]
    run = Run(tasks, 2, np.errstate)
    for _ in range(3):
        order.clear()
        run()
        assert order == ["writes right", "writes left", "reads left", "writes left again"]


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")             # from Python 3.12 on: that a process with threads forks
import numpy as np
import minigrad
from minigrad.compiler import numpy_backend

numpy_backend.threads_of_blas = lambda: 2
f = minigrad.compile(lambda x: np.tanh(x) * np.exp(x), backend="numpy")
x = np.linspace(-1, 1, 200_000).reshape(400, 500)
before = f(x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(f(x), before) else 3)
status = os.waitpid(child, 0)[1]
assert np.array_equal(f(x), before)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_threads_of_its_own():
    result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


def test_blas_has_its_threads_again_after_a_run(threads):
    from minigrad.compiler.threads import threads_of_blas

    before = threads_of_blas()
    minigrad.compile(step, backend="numpy")(*inputs())
    assert threads_of_blas() == before


def test_numbers_are_computed_in_the_type_of_the_arrays():
    def f(x):
        return x * 2, 1 - x, x * np.float32(0.1), x > 0.1, np.maximum(x, 0), x ** np.float64(2.5)

    for dtype in (np.float32, np.float64):
        x = inputs()[0].astype(dtype) ** 2
        for got, wanted in zip(minigrad.compile(f, backend="numpy")(x), f(x), strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
