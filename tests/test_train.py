"""Training: the loss falls, runs repeat, and every way to stop leaves the parameters of the last whole step."""

import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import minigrad
from minigrad import tree
from minigrad_nn import model
from minigrad_nn import train as module
from minigrad_nn.data import language_reference, random_batch, split, windows
from minigrad_nn.init import init
from minigrad_nn.model import Config
from minigrad_nn.optim import NonFiniteError, adamw
from minigrad_nn.plot import plot_losses
from minigrad_nn.tokenizer import CharacterTokenizer
from minigrad_nn.train import Recipe, RecipeError, evaluate, train

TEXT = language_reference()[:6000]
TOKENIZER = CharacterTokenizer.of(TEXT)
CONFIG = Config(TOKENIZER.vocab_size, n_layer=1, width=16, n_head=2, n_kv_head=1, head_dim=8, hidden=16, context=16)
PARTS = split(TOKENIZER.encode(TEXT), CONFIG.context)
RECIPE = Recipe(steps=30, batch=8, rate=1e-2, warmup=5, evaluate_every=15)


@pytest.fixture
def params():
    return init(CONFIG, np.random.default_rng(0))


def test_a_few_steps_lower_the_loss_on_held_out_text(params):
    before = evaluate(params, windows(PARTS.validation, 16, CONFIG.context), CONFIG)
    trained = train(params, CONFIG, PARTS, RECIPE, show=False)
    assert trained.step == len(trained.losses) == 30
    assert not trained.interrupted
    assert [step for step, _ in trained.validation] == [15, 30]
    assert trained.validation[-1][1] < before - 0.5
    assert np.mean(trained.losses[-5:]) < np.mean(trained.losses[:5]) - 0.5
    after = evaluate(trained.params, windows(PARTS.validation, 16, CONFIG.context), CONFIG)
    assert after == trained.validation[-1][1]


def test_a_run_repeats_with_its_seed_and_leaves_the_first_parameters_alone(params):
    copies = tree.map(np.copy, params)
    recipe = Recipe(steps=4, batch=2, seed=3)
    first = train(params, CONFIG, PARTS, recipe, show=False)
    again = train(params, CONFIG, PARTS, recipe, show=False)
    other = train(params, CONFIG, PARTS, Recipe(steps=4, batch=2, seed=4), show=False)
    assert first.losses == again.losses != other.losses
    for old, copy in zip(tree.leaves(params), tree.leaves(copies), strict=True):
        np.testing.assert_array_equal(old, copy)


def test_training_goes_on_from_the_parameters_it_is_given(params):
    """The first loss is that of the parameters themselves, and a second run takes them further."""
    first = train(params, CONFIG, PARTS, RECIPE, show=False, compiled=False)
    ids, targets = random_batch(PARTS.train, RECIPE.batch, CONFIG.context, np.random.default_rng(7))
    recipe = replace(RECIPE, seed=7)
    second = train(first.params, CONFIG, PARTS, recipe, show=False, compiled=False)
    assert second.losses[0] == float(model.loss(first.params, ids, targets, CONFIG))
    assert second.validation[-1][1] < first.validation[-1][1]


def test_everything_stays_float32(params):
    trained = train(params, CONFIG, PARTS, Recipe(steps=2, batch=2), show=False)
    assert {leaf.dtype for leaf in tree.leaves(trained.params)} == {np.dtype(np.float32)}


def test_evaluation_weighs_each_target_the_same(monkeypatch):
    """Losses 3 over two targets and 1 over six: their mean is 1.5, the mean of means 2."""
    monkeypatch.setattr(module.model, "loss", lambda params, ids, targets, config: params[targets.size])
    batches = [(np.zeros((1, size), int), np.zeros((1, size), int)) for size in (2, 6)]
    assert evaluate({2: 3.0, 6: 1.0}, batches, CONFIG) == 1.5


def test_evaluation_covers_the_whole_text_in_any_batches(params):
    whole = PARTS.validation[:70]                                   # four sequences of 16, and 5 targets more
    losses = [evaluate(params, windows(whole, batch, CONFIG.context), CONFIG) for batch in (1, 3, 64)]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-6)


def test_ctrl_c_keeps_the_last_whole_step(params, monkeypatch):
    steps = iter(range(100))
    value_and_grad = minigrad.value_and_grad

    def interrupted(*args):
        if next(steps) == 3:
            raise KeyboardInterrupt
        return value_and_grad(*args)

    whole = train(params, CONFIG, PARTS, RECIPE, show=False, compiled=False)
    monkeypatch.setattr(minigrad, "value_and_grad", interrupted)
    trained = train(params, CONFIG, PARTS, RECIPE, show=False, compiled=False)
    assert trained.interrupted
    assert trained.step == 3
    assert trained.losses == whole.losses[:3]


def test_a_loss_that_is_not_finite_stops_the_run_and_says_when(params, monkeypatch):
    steps = iter(range(100))

    def diverging(loss, params, *args):
        value = np.float32(np.nan if next(steps) == 2 else 1.0)
        return value, tree.map(np.zeros_like, params)

    monkeypatch.setattr(minigrad, "value_and_grad", diverging)
    with pytest.raises(NonFiniteError, match="diverged at step 3: the loss is nan; try a lower learning rate"):
        train(params, CONFIG, PARTS, RECIPE, show=False, compiled=False)


def test_a_gradient_that_is_not_finite_stops_the_run_and_is_named(params, monkeypatch):
    def diverging(loss, params, *args):
        return np.float32(1.0), tree.map(np.zeros_like, params) | {"norm": np.full(16, np.inf, np.float32)}

    monkeypatch.setattr(minigrad, "value_and_grad", diverging)
    with pytest.raises(NonFiniteError, match="diverged at step 1: gradients that are not finite: norm"):
        train(params, CONFIG, PARTS, RECIPE, show=False, compiled=False)


def test_the_compiled_step_is_the_eager_one(params):
    recipe = Recipe(steps=5, batch=2, rate=1e-2, clip=0.1)
    eager = train(params, CONFIG, PARTS, recipe, show=False, compiled=False)
    compiled = train(params, CONFIG, PARTS, recipe, show=False)
    np.testing.assert_allclose(compiled.losses, eager.losses, rtol=1e-4)


def test_a_compiled_step_that_diverges_names_the_gradient_and_overwrites_nothing(params):
    params["norm"] = np.full_like(params["norm"], np.nan)
    recipe, optimiser = Recipe(), adamw(1e-2)
    state = optimiser.init(params)
    before = tree.map(np.copy, params)
    batch = np.zeros((2, 8), np.int64), np.ones((2, 8), np.int64)
    step = module.compiled_step(CONFIG, recipe, optimiser)
    with pytest.raises(NonFiniteError, match="the loss is nan"):
        step(params, state, *batch)
    for old, now in zip(tree.leaves(before), tree.leaves(params), strict=True):
        np.testing.assert_array_equal(old, now)
    assert not any(np.any(m) for m in tree.leaves(state[1:]))


@pytest.fixture
def python_handles_ctrl_c():
    """Python's own handler, also where the tests run in the background and were started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_waits_for_the_end_of_the_step_and_a_second_does_not(python_handles_ctrl_c):
    with module.ctrl_c_waits() as noted:
        signal.raise_signal(signal.SIGINT)
        assert noted == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_compiled_run_stops_at_ctrl_c(params, monkeypatch):
    batches = iter(range(100))
    random_batch = module.random_batch

    def interrupting(*args):
        if next(batches) == 3:
            signal.raise_signal(signal.SIGINT)
        return random_batch(*args)

    whole = train(params, CONFIG, PARTS, RECIPE, show=False)
    monkeypatch.setattr(module, "random_batch", interrupting)
    trained = train(params, CONFIG, PARTS, RECIPE, show=False)
    assert trained.interrupted and trained.step == 4        # the step that was under way is finished
    assert trained.losses == whole.losses[:4]


def test_the_bar_shows_loss_and_speed_and_evaluations_are_printed(params, capsys):
    train(params, CONFIG, PARTS, Recipe(steps=2, batch=2), show=True)
    out, err = capsys.readouterr()
    assert re.search(r"step 2, loss \d\.\d{4} \(mean of 2 steps\): .* characters/s .* left", err)
    assert re.search(r"step     2   loss \d\.\d{4} \(mean of 2 steps\)   validation loss \d\.\d{4}\n", out)


def test_the_loss_that_is_shown_is_the_mean_of_so_many_steps(params, capsys):
    trained = train(params, CONFIG, PARTS, Recipe(steps=24, batch=2, evaluate_every=22), show=True)
    out, err = capsys.readouterr()
    assert f"step 24, loss {np.mean(trained.losses[4:]):.4f} (mean of 20 steps)" in err
    assert f"step    22   loss {np.mean(trained.losses[:22]):.4f} (mean of 22 steps)   validation" in out
    assert f"step    24   loss {np.mean(trained.losses[2:]):.4f} (mean of 22 steps)   validation" in out


def test_nothing_is_shown_when_not_asked(params, capsys):
    train(params, CONFIG, PARTS, Recipe(steps=2, batch=2), show=False)
    assert capsys.readouterr() == ("", "")


def test_the_schedule_warms_up_for_at_most_a_tenth():
    rate = Recipe(steps=50, rate=1.0, warmup=100, floor=0.1).schedule()
    assert rate(0) == pytest.approx(0.2)
    assert rate(4) == 1.0
    assert rate(49) == pytest.approx(0.1)
    assert Recipe(steps=1).schedule()(0) == pytest.approx(3e-4)     # the only step is the last


@pytest.mark.parametrize(("change", "says"), [
    ({"steps": 0}, "steps should be at least 1, got 0"),
    ({"batch": -2}, "batch should be at least 1"),
    ({"rate": 0.0}, "rate should be positive and finite"),
    ({"rate": float("nan")}, "rate should be positive and finite"),
    ({"clip": -1.0}, "clip should be positive and finite"),
    ({"seed": -1}, "seed should be at least 0, got -1"),
    ({"warmup": -1}, "warmup >= 0"),
    ({"floor": 2.0}, r"floor in \[0, 1\]"),
])
def test_impossible_recipes_are_refused(change, says):
    with pytest.raises(RecipeError, match=says):
        Recipe(**change)


def test_the_loss_curve_is_drawn(tmp_path):
    plot_losses(tmp_path / "loss.png", list(np.linspace(4, 2, 120)), [(60, 3.1), (120, 2.2)])
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    plot_losses(tmp_path / "short.png", [4.0], [])
    assert (tmp_path / "short.png").stat().st_size > 1000


FAULTS = """
import resource
import numpy as np
from minigrad_nn.process import keep_freed_memory

def step():
    arrays = [np.ones(200_000) for _ in range(20)]                  # 32 MB, 7,800 pages
    return len(arrays)

agreed = keep_freed_memory()
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(agreed, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the C library of Linux")
def test_freed_memory_is_kept_for_the_next_step():
    result = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    agreed, faults = result.stdout.split()
    if agreed == "False":
        pytest.skip("this C library has no mallopt")
    assert int(faults) < 2000                                       # 78,000 where it is given back


THREADS = """
import ctypes
from importlib import import_module
from minigrad_nn.process import use_blas_threads

library = ctypes.CDLL(import_module("numpy._core._multiarray_umath").__file__)
names = [f"{prefix}_get_num_threads{suffix}" for prefix in ("scipy_openblas", "openblas") for suffix in ("64_", "")]
counts = [getattr(library, name) for name in names if hasattr(library, name)]
for wanted in (2, 1):
    agreed = use_blas_threads(wanted)
    assert agreed == bool(counts)
    print(*{count() for count in counts})
"""


def test_the_number_of_blas_threads_can_be_chosen_where_there_is_openblas():
    result = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert result.stdout.split() in (["2", "1"], [])


def test_the_model_is_what_is_trained(params, monkeypatch):
    """The engine sees model.loss and the parameters, nothing in between."""
    seen = []
    value_and_grad = minigrad.value_and_grad

    def looking(loss, params, *args):
        seen.append((loss, tree.structure(params)))
        return value_and_grad(loss, params, *args)

    monkeypatch.setattr(minigrad, "value_and_grad", looking)
    train(params, CONFIG, PARTS, Recipe(steps=1), show=False, compiled=False)
    assert seen == [(model.loss, tree.structure(params))]
