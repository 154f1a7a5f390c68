"""The threads that run compiled programs together."""

import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad

pytest.importorskip("llvmlite")

from minigrad.compiler import crew as crew_module
from minigrad.compiler.crew import Crew, number_of_threads
from on_threads import always_the_same_bits, close, inputs, serves_several_callers


def step(x, w):
    """Something with kernels to share, a sum over rows, and products."""
    h = np.tanh(x @ w)
    return h - h.max(-1, keepdims=True), (h * h).sum(0), h @ w.T, np.sum(h)


def threads_of(monkeypatch, n):
    """Let compiled functions have n threads, also on a machine with fewer cores."""
    monkeypatch.setenv("MINIGRAD_NUM_THREADS", str(n))


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_any_number_of_threads_gives_the_result_and_always_the_same_bits(monkeypatch, threads):
    threads_of(monkeypatch, threads)
    always_the_same_bits(minigrad.compile(step, backend="llvm"), step)


def test_threads_that_never_come_are_not_waited_for(monkeypatch):
    threads_of(monkeypatch, 3)
    monkeypatch.setattr(Crew, "_start", lambda self: None)
    monkeypatch.setattr(crew_module, "_crew_of", lambda process, threads, made={}: made.setdefault(0, Crew(threads)))
    close(minigrad.compile(step, backend="llvm")(*inputs()), step(*inputs()))


def test_a_crew_serves_callers_from_several_threads(monkeypatch):
    threads_of(monkeypatch, 2)
    serves_several_callers(step, "llvm")


def test_the_environment_says_how_many_threads(monkeypatch):
    for name in ("MINIGRAD_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert number_of_threads() == 3
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    assert number_of_threads() == 4
    monkeypatch.setenv("MINIGRAD_NUM_THREADS", "2")
    assert number_of_threads() == 2
    monkeypatch.setenv("MINIGRAD_NUM_THREADS", "1000")
    assert number_of_threads() == crew_module.MOST_THREADS
    for wrong in ("0", "-1", "two"):
        monkeypatch.setenv("MINIGRAD_NUM_THREADS", wrong)
        with pytest.raises(ValueError, match=f"MINIGRAD_NUM_THREADS should be .* at least 1, got '{wrong}'"):
            number_of_threads()


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")             # from Python 3.12 on: that a process with threads forks
import numpy as np
import minigrad

f = minigrad.compile(lambda x: np.tanh(x) * np.exp(x), backend="llvm")
x = np.linspace(-1, 1, 200_000).reshape(400, 500)
before = f(x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(f(x), before) else 3)
status = os.waitpid(child, 0)[1]
assert np.array_equal(f(x), before)
sys.exit(os.waitstatus_to_exitcode(status))
"""


FORK_INSIDE = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore")
import numpy as np
import minigrad

f = minigrad.compile(lambda x: np.tanh(np.sort(x, axis=0)) * np.exp(x) @ x.T, backend=sys.argv[1])
x = np.linspace(-1, 1, 1_000_000).reshape(1000, 1000)
before, going = f(x), True

def call():
    while going:
        f(x)

thread = threading.Thread(target=call)
thread.start()
failed = 0
for _ in range(4):
    time.sleep(0.03)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(f(x), before) else 3)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        status = os.waitpid(child, 0)[1]
    failed = failed or os.waitstatus_to_exitcode(status)
going = False
thread.join()
sys.exit(failed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_a_crew_of_its_own():
    result = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_a_process_forked_while_a_thread_is_in_a_compiled_function_can_call_it(backend):
    command = [sys.executable, "-c", FORK_INSIDE, backend]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert result.returncode == 0, result.stderr
