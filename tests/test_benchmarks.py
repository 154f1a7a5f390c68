"""The benchmarks compare like with like: contenders agree, ratios are taken by round, failures are named."""

import json
import math
import subprocess
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import attention, kinks, layers, overhead, products, step
from benchmarks.__main__ import main
from benchmarks.bars import Row, row_of_ratio, table
from benchmarks.growth import AXES, DOUBLINGS, point
from benchmarks.picture import draw
from benchmarks.race import Contender, ContenderError, Hall, disagreement, race, ratio
from benchmarks.work import SIZES, Work
from minigrad import tree
from minigrad_nn import adjoints
from minigrad_nn.attention import scaled_dot_product_attention
from minigrad_nn.masks import causal_mask

ROOT = Path(__file__).resolve().parents[1]
XS = SIZES["XS"]


@pytest.fixture
def hall(tmp_path):
    return Hall(tmp_path, tmp_path / "caches", threads=1)


WITHOUT_PEERS = """
import importlib, sys

class NoPeers:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "jax", "autograd", "llvmlite", "scipy", "matplotlib", "threadpoolctl"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPeers())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_importing_needs_no_peers():
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    names = [f"benchmarks.{file.stem}" for file in files]
    assert "benchmarks.__main__" in names
    command = [sys.executable, "-W", "error", "-c", WITHOUT_PEERS, *names]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_contenders_of_the_step_agree(hall):
    """Three training steps of each that is installed, in a process of its own; two take too long for a test."""
    slow = (step.INDUCTOR, step.LLVM)
    quick = [c for c in step.contenders(XS) if not c.missing() and c.name not in (*slow, step.PRODUCTS)]
    assert {step.EAGER, step.NUMPY} <= {c.name for c in quick}
    with ExitStack() as stack:
        workers, left_out = step.open_all(stack, hall, quick, "XS")
        assert not left_out
        losses = step.three_losses(workers)
        for worker in workers.values():
            peaks = worker.peaks()
            assert peaks["all"] == max(peaks["first call"], peaks["later calls"]) > 0
    assert losses[step.EAGER][0] == pytest.approx(math.log(96), abs=1.0)
    assert losses[step.EAGER][0] != losses[step.EAGER][1] != losses[step.EAGER][2]


class Wrong:
    """A worker whose second loss is off by a third of a percent."""

    def __init__(self, *losses):
        self.first, self.rest = {"numbers": [losses[0]]}, iter(losses[1:])

    def ask(self, method, times):
        return {"numbers": [next(self.rest)]}


def test_losses_that_differ_are_refused():
    with pytest.raises(AssertionError, match="b does other work than a"):
        step.three_losses({"a": Wrong(4.5, 4.4, 4.3), "b": Wrong(4.5, 4.415, 4.3)})
    with pytest.raises(AssertionError, match="b does other work than a"):
        step.three_losses({"a": Wrong(4.5, 4.4, 4.3), "b": Wrong(4.5, 4.4, math.nan)})


def test_disagreement():
    assert disagreement([100.0, 0.5], [101.0, 0.5]) == pytest.approx(1 / 101)
    assert disagreement([0.0, 0.1], [0.0, 0.3]) == pytest.approx(0.2)
    assert disagreement([math.inf], [math.inf]) == math.inf
    with pytest.raises(ValueError, match="zip"):
        disagreement([1.0], [1.0, 2.0])


def test_ratio_is_taken_by_round():
    """The machine is ten times slower in two rounds of three: the ratio does not see it."""
    drift = [1.0, 10.0, 10.0]
    times = {"a": [[2 * d, 2 * d, 50.0] for d in drift], "b": [[4 * d] for d in drift]}
    assert ratio(times, "a", "b").median == 0.5
    (row,) = row_of_ratio(times, "a", "b", "S", 0.4)
    assert row.verdict == "missed"
    assert row_of_ratio(times, "a", "not there", "S", 0.4) == []


def test_table():
    text = table([Row("a / b", "S", 0.5, 0.25), Row("first call", "S", None, 2.0, "s")])
    *_, one, two = text.splitlines()
    assert [cell.strip() for cell in one.split("|")[1:-1]] == ["a / b", "S", "0.5", "0.25", "", "met"]
    assert [cell.strip() for cell in two.split("|")[1:-1]] == ["first call", "S", "-", "2 s", "", ""]


def test_products_alone_are_those_of_the_step():
    """Three products for each weight matrix, and for each of attention's two."""
    work = Work(**XS)
    config, tokens = work.config, XS["batch"] * XS["length"]
    weights = sum(p.size for p in tree.leaves(work.params()) if p.ndim == 2)
    attention_products = 2 * config.n_layer * tokens * config.n_head * XS["length"] * config.head_dim
    wanted = 3 * (tokens * weights + attention_products)
    alone = list(products._products(work, XS["batch"], XS["length"]))
    assert sum(out.size * a.shape[-1] for a, _, out in alone) == wanted
    assert len(alone) == 3 * (7 * config.n_layer + 2 * config.n_layer + 1)
    for a, b, out in alone:
        np.matmul(a, b, out)  # the shapes fit


def test_products_alone_have_no_loss(capsys):
    measured = {
        "median_seconds": {step.EAGER: 0.02, step.PRODUCTS: 0.01},
        "losses": {step.EAGER: [4.5, 4.4, 4.25]},
        "peak_bytes": {name: {"all": 2e6, "later calls": 1e6} for name in (step.EAGER, step.PRODUCTS)},
    }
    step._say("S", measured)
    _, _, eager, alone = capsys.readouterr().out.splitlines()
    assert eager.split() == ["minigrad", "eager", "20.00", "2.0", "1.0", "4.250000"]
    assert alone.split() == ["products", "alone,", "NumPy", "10.00", "2.0", "1.0", "-"]
    assert len(eager) == len(alone)


def test_environment_leaves_the_choice_of_kernels_to_numpy(hall, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "512")
    environment = hall.environment(hall.caches)
    assert not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} & environment.keys()
    assert environment["OPENBLAS_NUM_THREADS"] == environment["OMP_NUM_THREADS"] == "1"
    assert environment["MINIGRAD_CACHE"] == str(hall.caches)
    assert not any(name.startswith("MALLOC_") for name in environment)


def test_a_contender_that_fails_is_left_out_with_the_reason(hall, capsys):
    there = Contender("there", "benchmarks.products:products_alone", XS)
    broken = Contender("broken", "benchmarks.products:products_alone", {**XS, "width": "wide"})
    absent = Contender("absent", "benchmarks.products:products_alone", XS, ("no_such_package.inner",))
    with ExitStack() as stack:
        workers, left_out = step.open_all(stack, hall, [there, broken, absent], "test")
        times = race(workers, rounds=2, turn=0.001, most=4)
    assert [len(times["there"]), len(times["there"][0]) >= 3] == [2, True]
    assert "width should be a positive integer" in left_out["broken"]
    assert left_out["absent"] == "not installed: no_such_package"
    assert "left out: broken" in capsys.readouterr().out


def test_a_contender_that_dies_is_named(hall):
    with hall.open(Contender("dying", "benchmarks.products:products_alone", XS), "test") as worker:
        worker.start()
        worker.process.kill()
        worker.process.wait()
        with pytest.raises(ContenderError, match="dying ended during 'run'"):
            worker.ask("run", times=1)


@pytest.mark.skipif(find_spec("llvmlite") is None, reason="llvmlite is not installed")
def test_contenders_of_a_layer_agree(hall):
    layers_data, rows = layers.measure_layers(hall, ["XS"], rounds=1, only=["rms_norm"])
    assert set(layers_data["rms_norm XS"]["seconds"]) == {layers.HAND, layers.NUMPY, layers.LLVM}
    assert [(row.size, row.bar) for row in rows] == [("XS", 0.35), ("XS", None)]


@pytest.mark.parametrize("layer", layers.BARS)
def test_compiled_layers_are_those_written_by_hand(layer):
    got = layers.compiled(layer, "XS", "numpy")(0)
    wanted = layers.hand(layer, "XS")(0)
    for one, other in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * np.abs(other).max())


@pytest.mark.parametrize("chain", overhead.CHAINS)
def test_chains_have_the_gradient_made_by_hand(chain):
    value, gradient = overhead.minigrad(chain)(0)
    wanted = overhead.numpy(chain)(0)
    np.testing.assert_allclose(value, wanted[0], rtol=1e-10)
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-10)


def test_attention_is_attention():
    out, *gradients = attention.compiled(160, "numpy")(0)
    g, q, k, v = attention.inputs(160)
    mask = causal_mask(160)
    np.testing.assert_allclose(out, scaled_dot_product_attention(q, k, v, mask), rtol=1e-4, atol=1e-5)
    wanted = adjoints.scaled_dot_product_attention_adjoint(g, q, k, v, mask)
    for one, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_growth_doubles_one_thing_at_a_time():
    for axis in AXES:
        first, last = Work(**point(axis, 0)), Work(**point(axis, DOUBLINGS))
        assert point(axis, 0) == XS
        assert first.config.head_dim == last.config.head_dim
        sizes = [(w.batch(0)[0].size, w.config.width, w.config.n_layer) for w in (first, last)]
        grown = [b / a for a, b in zip(*sizes, strict=True)]
        assert grown == [2**DOUBLINGS if axis == name else 1 for name in ("tokens", "width", "layers")]


@pytest.mark.parametrize("kink", kinks.KINKS, ids=lambda kink: kink.name)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the forward pass divides by zero on purpose
def test_kinks_of_minigrad_follow_the_conventions(kink):
    np.testing.assert_allclose(kinks.PEERS["minigrad"](kink), kink.ours, atol=1e-12)


def test_kinks_are_a_markdown_table():
    text = kinks.markdown({"`abs` at 0": {"minigrad": [0.0], "numpy": [1.0]}, "`x`": {"minigrad": [1.0], "numpy": "E"}})
    assert text.splitlines()[2:] == ["| `abs` at 0 | 0 | **1** |", "| `x` | 1 | **E** |"]


def test_command_line(tmp_path, capsys, monkeypatch):
    peers = {"minigrad": kinks.PEERS["minigrad"], "no_such_package": None}
    monkeypatch.setattr("benchmarks.kinks.PEERS", peers)
    main(["kinks", "--out", str(tmp_path), "--rounds", "1"])
    printed = capsys.readouterr().out
    assert "fewer than 20" in printed
    assert "left out: no_such_package: not installed\n" in printed
    assert "| `abs` at 0 | 0 |" in printed
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["kinks"]["`abs` at 0"] == {"minigrad": "0"}
    assert results["machine"]["threads"] >= 1
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no part speed" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_picture(tmp_path):
    seconds = {name: [[0.2, 0.1], [0.3, 0.1]] for name in ("by hand", "compiled, LLVM", "compiled, NumPy")}
    grown = [{"sizes": point("width", n), "median_seconds": {"a": 0.1 * 2**n, "b": 0.1}} for n in range(3)]
    results = {
        "machine": {"processor": "p", "threads": 2, "blas": "b"},
        "step": {"XS": {"seconds": seconds}, "S": {"seconds": seconds}},
        "layers": {"softmax S": {"seconds": seconds}},
        "growth": dict.fromkeys(AXES, grown),
        "attention": {"peak_bytes": {512: {"a": 10_000_000, "b": 5_000_000}, 1024: {"a": 20_000_000}}},
    }
    path = tmp_path / "picture.png"
    draw(results, path)
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 20_000
