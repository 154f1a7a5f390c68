"""Compiled functions against eager ones: every op row, the layers, the training step, and what compile promises."""

import importlib.metadata
import threading
import warnings

import numpy as np
import pytest

import minigrad
from cases import cases, collect
from minigrad import tree
from minigrad.compiler import compile
from minigrad.errors import ControlFlowError, CutGraphError, DtypeError, OverwrittenError, UnsupportedError
from minigrad_nn import init, model
from minigrad_nn.layers import RangeError, dropout, embedding, rms_norm, swiglu
from test_ops import seeded

BACKENDS = ["numpy", "llvm"]
ROWS = collect()

# Their composites look at values, which a program for any values cannot: they say so.
VALUE_DEPENDENT = (ControlFlowError, CutGraphError, UnsupportedError, TypeError)


def value_and_pulled(case, cotangents):
    """Return the function that is compiled: a case and its gradients."""

    def run(*x):
        out, pull = minigrad.vjp(lambda *y: case(*y), *x)
        return out, pull(cotangents)

    return run


def same(got, wanted, tolerance):
    """Compare trees of arrays: shapes, dtypes, NaN and infinities, and values relative to the largest."""
    assert tree.structure(got) == tree.structure(wanted)
    for a, b in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_array_equal(a[~finite & ~np.isnan(b)], b[~finite & ~np.isnan(b)])
        scale = np.max(np.abs(b[finite]), initial=1e-30)
        assert np.max(np.abs(a[finite] - b[finite]), initial=0) <= tolerance * scale


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_every_row_compiled_with_numpy(row):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for case in cases(row):
            run = value_and_pulled(case, seeded(case)[1])
            try:
                got = compile(run, backend="numpy")(*case.primals)
            except VALUE_DEPENDENT:
                continue
            same(got, run(*case.primals), 1e-12)


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_every_row_compiled_by_llvm(row):
    pytest.importorskip("llvmlite")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for case in list(cases(row))[:2]:
            run = value_and_pulled(case, seeded(case)[1])
            try:
                got = compile(run, backend="llvm")(*case.primals)
            except VALUE_DEPENDENT:
                continue
            same(got, run(*case.primals), 1e-11)


def layer_step(x, weight, gate, up, down):
    """A layer with everything that fuses: a norm, products, a gate, a softmax, broadcasts, sums over all axes."""

    def loss(x, weight, gate, up, down):
        h = swiglu(rms_norm(x, weight), gate, up, down)
        e = np.exp(h - np.max(h, axis=-1, keepdims=True))
        return np.sum(np.log(e / np.sum(e, axis=-1, keepdims=True)) * np.cos(x))

    return minigrad.value_and_grad(loss, x, weight, gate, up, down, argnums=(0, 1, 2, 3, 4))


def layer_arrays(dtype):
    rng = np.random.default_rng(0)
    shapes = (3, 5, 8), (8,), (8, 16), (8, 16), (16, 8)
    scale = {2: 0.4}  # of matrices: the softmax of larger numbers is so steep that every rounding shows
    return [(scale.get(len(s), 1) * rng.standard_normal(s)).astype(dtype) for s in shapes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_a_layer_and_its_gradient(backend, dtype, tolerance):
    arrays = layer_arrays(dtype)
    same(compile(layer_step, backend=backend)(*arrays), layer_step(*arrays), tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_differentiated_maximum_and_numbers_per_row_alone(backend):
    rng = np.random.default_rng(4)
    x, w, y = (rng.standard_normal(s) for s in ((9, 4), (4, 4), (9, 4)))

    def loss(x, w):
        e = np.exp(x @ w - np.max(x @ w, axis=-1, keepdims=True))
        return np.mean((e / np.sum(e, axis=-1, keepdims=True) @ w - y) ** 2)

    def run(x, w):
        return minigrad.value_and_grad(loss, x, w, argnums=(0, 1))

    same(compile(run, backend=backend)(x, w), run(x, w), 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_arrays_beside_numbers(backend):
    def run(start, stop):
        return minigrad.vjp(lambda a, b: np.linspace(a, b, 0) * (a - b), start, stop)[1](np.ones(0))

    start, stop = np.array(1.0), np.array(3.0)
    same(compile(run, backend=backend)(start, stop), run(start, stop), 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_are_identical(backend):
    arrays = layer_arrays(np.float32)
    step = compile(layer_step, backend=backend)
    first, second = step(*arrays), step(*arrays)
    for a, b in zip(tree.leaves(first), tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.shares_memory(a, b)


SMALL = model.Config(vocab_size=11, n_layer=2, width=16, n_head=4, n_kv_head=2, head_dim=4, hidden=24, context=8)


def training_step(params, velocity, ids, targets, rate):
    loss, grads = minigrad.value_and_grad(model.loss, params, ids, targets, SMALL)
    velocity = tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
    return loss, tree.map(lambda p, v: p - rate * v, params, velocity), velocity


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_step_in_place(backend):
    rng = np.random.default_rng(1)
    params = init.init(SMALL, rng)
    velocity = tree.map(np.zeros_like, params)
    eager = tree.map(np.copy, params), tree.map(np.copy, velocity)
    step = compile(training_step, donate=(0, 1), backend=backend)
    first = params["embedding"]
    for i in range(4):
        ids = rng.integers(0, 11, (2, 8))
        rate = np.float32(0.1 / (i + 1))
        loss, params, velocity = step(params, velocity, ids, np.roll(ids, -1, -1), rate)
        wanted, *eager = training_step(*eager, ids, np.roll(ids, -1, -1), rate)
        assert abs(loss - wanted) < 1e-5
    assert params["embedding"] is first
    same(params, eager[0], 1e-4)
    assert len(step._made) == 1


def test_ignored_targets_and_bad_ids_are_decided_at_each_run():
    logits = np.random.default_rng(2).standard_normal((5, 4))

    def loss(logits, targets):
        return minigrad.value_and_grad(lambda x: model.cross_entropy(x, targets), logits)

    compiled = compile(loss)
    for targets in ([0, 1, 2, 3, 0], [-100, 1, -100, 3, 0], [-100] * 5):
        same(compiled(logits, np.array(targets)), loss(logits, np.array(targets)), 1e-12)
    with pytest.raises(RangeError, match=r"targets should be in 0\.\.3 .* got 7") as caught:
        compiled(logits, np.array([0, 1, 2, 7, 0]))
    assert "layers.py" in caught.value.__notes__[0]
    look_up = compile(lambda weight, ids: embedding(weight, ids))
    look_up(np.ones((3, 2)), np.array([0, 2]))
    with pytest.raises(RangeError, match=r"ids should be in 0\.\.2 .* got -1"):
        look_up(np.ones((3, 2)), np.array([0, -1]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_zero_times_infinity_is_zero_as_eagerly(backend):
    x = np.array([-1.0, 0.0, 4.0, 1000.0])
    functions = [
        lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)),
        lambda x: np.sum(np.where(x > 0, x * np.log(x), 0.0)),
        lambda x: np.sum(np.where(x < 20, np.log1p(np.exp(x)), x)),
        lambda x: np.sum(np.where(x == 0, 1.0, np.sin(x) / x)),
    ]
    for f in functions:
        with np.errstate(all="ignore"):
            wanted = minigrad.value_and_grad(f, x)
            same(compile(lambda x, f=f: minigrad.value_and_grad(f, x), backend=backend)(x), wanted, 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_generator_draws_as_it_would_eagerly(backend):
    def noisy(x, rng):
        return minigrad.value_and_grad(lambda x: np.sum(dropout(x, 0.5, rng) * rng.normal(size=x.shape)), x)

    compiled = compile(noisy, backend=backend)
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(3):
        wanted, got = noisy(np.ones(8), one), compiled(np.ones(8), two)
        np.testing.assert_array_equal(wanted[1], got[1])
    assert one.bit_generator.state == two.bit_generator.state
    assert len(compiled._made) == 1


def test_captured_arrays_are_read_at_each_run():
    scale = np.array([2.0, 3.0])
    double = compile(lambda x: x * scale)
    np.testing.assert_array_equal(double(np.ones(2)), [2, 3])
    scale[:] = 5
    np.testing.assert_array_equal(double(np.ones(2)), [5, 5])


def test_a_function_that_overwrites_what_it_captured_is_refused():
    b = np.ones(2)

    def late(x):
        y = x * b
        b[:] = 5
        return np.sum(y)

    def refilling(x):
        buffer, total = np.empty(2), 0.0
        for k in range(3):
            buffer[...] = k
            total = total + np.sum(x * buffer)
        return total

    for f in (late, refilling):
        with pytest.raises(OverwrittenError, match=r"overwritten by it[\s\S]*used at .*test_compile\.py:\d+"):
            compile(f)(np.ones(2))


def test_new_shapes_and_dtypes_compile_anew_and_other_layouts_do_not():
    f = compile(lambda x: np.sum(x * x, axis=-1))
    for x in (np.ones((2, 3)), np.ones((4, 3)), np.ones((2, 3), np.float32)):
        np.testing.assert_array_equal(f(x), np.sum(x * x, axis=-1))
    assert len(f._made) == 3
    x = np.random.default_rng(0).standard_normal((3, 2))
    np.testing.assert_allclose(f(x.T), np.sum(x.T * x.T, axis=-1), rtol=1e-15)
    np.testing.assert_allclose(f(np.ones((2, 3))[::-1]), 3, rtol=1e-15)
    assert len(f._made) == 3


def test_control_flow_on_values_is_refused_with_the_line():
    def f(x):
        return x * 2 if x[0] > 0 else x  # the line

    with pytest.raises(ControlFlowError, match=r"test_compile\.py:\d+ .*# the line"):
        compile(f)(np.ones(3))


def test_compiling_often_is_said_with_the_reason():
    f = compile(lambda x, rate: x * rate)
    for i in range(8):
        f(np.ones(2), float(i))
    with pytest.warns(RuntimeWarning, match=r"for the 9th time: argument 1 is 8\.0, was 7\.0"):
        f(np.ones(2), 8.0)


def test_a_donated_array_must_be_writable():
    f = compile(lambda x: x + 1, donate=0)
    with pytest.raises(ValueError, match=r"donate=\(1,\) names an argument that is not there: 1 were given"):
        compile(lambda x: x + 1, donate=1)(np.ones(3))
    x = np.ones(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match=r"donated array .* float64 \(3,\)"):
        f(x)


def test_what_is_donated_is_still_read_before_it_is_overwritten():
    f = compile(lambda x: (x + 1, np.sum(x), x[::-1] * 2), donate=0)
    x = np.arange(3.0)
    y, total, doubled = f(x)
    np.testing.assert_array_equal(y, [1, 2, 3])
    assert total == 3
    np.testing.assert_array_equal(doubled, [4, 2, 0])


def test_inside_a_differentiation_it_is_ordinary_code():
    square = compile(lambda x: x * x)
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(minigrad.grad(lambda x: np.sum(square(x) * x), x), 3 * x * x)


def test_structures_keywords_and_bad_arguments():
    f = compile(lambda params, scale: {"out": params["w"] * scale, "pair": (params["w"], None)})
    w = np.ones(2)
    got = f({"w": w}, scale=3)
    np.testing.assert_array_equal(got["out"], [3, 3])
    assert got["pair"][1] is None and not np.shares_memory(got["pair"][0], w)
    with pytest.raises(DtypeError, match="arrays of objects"):
        f({"w": np.array([object()])}, 1)
    with pytest.raises(ValueError, match="backend should be"):
        compile(f, backend="gpu")


def test_reports():
    f = compile(layer_step, backend="numpy")
    arrays = layer_arrays(np.float64)
    with pytest.raises(RuntimeError, match="has not been called yet"):
        f.profile()
    f(*arrays)
    text = str(f.profile(repeat=1))
    assert "matmul" in text and text.splitlines()[-1].endswith("total")
    memory = f.memory()
    assert memory.peak >= max(memory.alive) > 0
    assert "np.matmul" in str(f.program)
    assert str(f.plan).startswith("layer_step: ")


def test_two_functions_compiled_in_two_threads():
    arrays = layer_arrays(np.float64)
    wanted = layer_step(*arrays)
    failures = []

    def work():
        try:
            step = compile(layer_step, backend="numpy")
            for _ in range(5):
                same(step(*arrays), wanted, 1e-12)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_an_llvmlite_that_is_too_old_is_left_alone(monkeypatch):
    pytest.importorskip("llvmlite")
    assert compile(np.tanh).backend == "llvm"
    for version in ("0.44.0", "0.7"):
        monkeypatch.setattr(importlib.metadata, "version", lambda name, v=version: v)
        assert compile(np.tanh).backend == "numpy"
        with pytest.raises(ImportError, match=r'needs llvmlite 0\.45 or later: pip install "minigrad\[fast\]"'):
            compile(np.tanh, backend="llvm")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0.0rc1")
    assert compile(np.tanh).backend == "llvm"


def test_numba_is_the_old_name_of_llvm():
    pytest.importorskip("llvmlite")
    assert compile(np.tanh, backend="numba").backend == "llvm"


def test_kernels_go_elsewhere_where_the_cache_cannot_be_written(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    from minigrad.compiler.kernel_cache import cache_folder

    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache_folder.cache_clear()
    try:
        monkeypatch.setenv("MINIGRAD_CACHE", str(blocked))
        assert cache_folder().is_dir() and blocked not in cache_folder().parents
        cache_folder.cache_clear()
        monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "new"))
        assert cache_folder() == tmp_path / "new" / "kernels"
    finally:
        cache_folder.cache_clear()


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_number_that_is_none_is_refused_and_nothing_is_written(backend, power):
    table, ids = np.arange(12.0).reshape(4, 3), np.array([1, -4, 3])

    def step(table, ids):
        return table - minigrad.grad(lambda t: (np.take(t, ids, axis=0) ** power).sum(), table)

    compiled = compile(step, donate=0, backend=backend)
    wanted = step(table, ids)
    same(compiled(table.copy(), ids), wanted, 1e-12)
    for wrong in (4, -5):
        before = table.copy()
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size 4"):
            compiled(table, np.array([1, wrong, 3]))
        np.testing.assert_array_equal(table, before)


def test_what_follows_from_arrays_that_are_read_anyway_is_computed_again():
    pytest.importorskip("llvmlite")
    rng = np.random.default_rng(8)
    x, up, down = (rng.standard_normal(shape).astype(np.float32) for shape in [(6, 40), (40, 40), (40, 40)])

    def f(up, down):
        gate = x @ up
        return np.sum((gate * np.tanh(gate) @ down) ** 2)

    def step(up, down):
        return minigrad.value_and_grad(lambda p: f(*p), (up, down))

    compiled = compile(step, backend="llvm")
    same(compiled(up, down), step(up, down), 1e-5)
    first = next(group for group in compiled.plan.groups if group.domain is not None)
    stored = [v for v in compiled.plan.outside[first] if v.shape == (6, 40)]
    assert len(stored) == 1, "beside the result only the gate is kept: all else is computed again from it"


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_are_made_once_for_large_arrays_that_change_at_every_call(backend):
    compiled = compile(lambda x, y: np.tanh(x) * y, backend=backend)
    rng = np.random.default_rng(9)
    made = set()
    for shape in [(200, 300)] * 4:
        x, y = rng.standard_normal(shape), rng.standard_normal(shape[::-1]).T
        same(compiled(x, y), np.tanh(x) * y, 1e-12)
        made.add(id(compiled.executable.steps[0][0]))
        x[...] = 0                                      # what a caller does with its arrays later
    assert len(made) <= 2, "the first array is read where it lies; the second ends that"


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_compiled_function_can_be_called_from_several_threads(backend):
    compiled = compile(lambda x: np.tanh(x) @ np.ones((40, 30)), backend=backend)
    wrong = []

    def caller(seed):
        x = np.random.default_rng(seed).standard_normal((2000, 40))
        wanted = np.tanh(x) @ np.ones((40, 30))
        wrong.extend(i for i in range(20) if not np.allclose(compiled(x.copy()), wanted, rtol=0, atol=1e-9))

    callers = [threading.Thread(target=caller, args=(seed,)) for seed in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(timeout=120)
    assert not wrong and not any(thread.is_alive() for thread in callers)


def test_random_numbers_that_would_be_frozen_are_refused():
    rng = np.random.default_rng(0)
    x = np.ones(4)
    with pytest.raises(UnsupportedError, match="drawn from the captured `rng`: these would be the same in every call"):
        compile(lambda x: x * rng.random(4))(x)
    with pytest.raises(UnsupportedError, match=r"drawn from np\.random: .*\n  fix  pass the numpy.random.Generator"):
        compile(lambda x: x * np.random.rand(4))(x)  # noqa: NPY002  # what is refused
    unused = np.random.default_rng(1)
    same(compile(lambda x: x * 2 if unused else x)(x), x * 2, 1e-12)


def test_state_left_in_an_attribute_is_refused():
    class RunningMean:
        mean = 0.0

        def __call__(self, x):
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return x - self.mean

    with pytest.raises(UnsupportedError, match=r"stored a traced array in `RunningMean.*\n  fix  pass state as an arg"):
        compile(RunningMean())(np.ones((3, 2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_captured_array_that_is_no_plain_memory_is_read_at_every_run(backend):
    whole = np.arange(12.0).reshape(3, 4)
    compiled = compile(lambda x: x * whole.T, backend=backend)
    for _ in range(2):
        same(compiled(np.ones((4, 3))), whole.T.copy(), 1e-12)
        whole += 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_donated_array_that_is_given_twice_is_refused(backend):
    compiled = compile(lambda p: {"a": p["a"] - 1, "b": p["b"] - 2}, donate=0, backend=backend)
    tied = np.zeros(20)
    with pytest.raises(ValueError, match="shares memory with another argument\n  fix  pass the array once, or a copy"):
        compiled({"a": tied, "b": tied})
    assert not tied.any()
    same(compiled({"a": tied, "b": tied.copy()}), {"a": np.full(20, -1.0), "b": np.full(20, -2.0)}, 1e-12)


def eager_and_compiled(f, *args, backend, tolerance=1e-12, **options):
    """Compare, with arguments of their own for each: some are donated."""
    wanted = f(*(np.copy(a) for a in args))
    with np.errstate(all="ignore"):
        compiled = compile(f, backend=backend, **options)
        for _ in range(2):
            same(compiled(*(np.copy(a) for a in args)), wanted, tolerance)


def rows(v):
    return np.sum(v, axis=-1, keepdims=True)


X, W = np.random.default_rng(10).standard_normal((2, 300, 300))
READ_THROUGH_VIEWS = {
    "a softmax in one dimension": lambda x: np.exp(x[0] - np.max(x[0])) / np.sum(np.exp(x[0] - np.max(x[0]))),
    "a sum added to its terms": lambda x: x[0] * x[0] + np.sum(x[0]),
    "a column as a row": lambda x: np.exp(x) + rows(x).T,
    "row maxima as columns": lambda x: x * x + np.max(x, axis=-1),
    "a sum of sums": lambda x: rows(rows(x)) * 2,
    "a mean of nothing": lambda x: np.mean(x[:0], axis=0),
    "an element": lambda x: np.tanh(x[0][0][()]),
    "nothing multiplied": lambda x: (x[:2, :3].reshape(2, 3, 1) @ x[:1, :0]) + 1,
    "a condition that is a number": lambda x: np.where(True, x, 2.0),
    "booleans": lambda x: (np.concatenate([x > 0, x < 1]) * 1.0, np.copy(x > 0) * 1.0),
    "signs of zero": lambda x: (x / 0.0, x / -0.0, np.floor(x * 0 + 49) / 49),
    "a sum of differences": lambda x: (x + 1e16) - 1e16,
    "quotients of quotients": lambda x: np.abs(x) * 1e-300 / 1e-200 / 1e-200,
    "a subnormal divisor": lambda x: x / 1e-310,
    "small integers": lambda x: (np.abs(x) * 50).astype(np.uint8) / 255.0,
    "the other byte order": lambda x: (x.astype(">f8") * 2.0).astype(np.float64),
    "negative columns": lambda x: np.take_along_axis(x, np.array([[-1], [0]] * 150), -1),
    "kept and computed again": lambda x: ((x * 2)[:150] + (x * 2)[150:]) @ x + 1,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", READ_THROUGH_VIEWS)
@pytest.mark.filterwarnings("ignore")
def test_programs_that_were_wrong_once(name, backend):
    with np.errstate(all="ignore"):
        eager_and_compiled(READ_THROUGH_VIEWS[name], X, backend=backend)


DONATED = {
    "read after it is written": (lambda w: (w * 2, w + 1), (0,), 1),
    "read by the next": (lambda w, e: (w * 0.5, 0.9 * e + 0.1 * w), (0, 1), 2),
    "read after a sum": (lambda w: (w * 2, w / rows(w * w)), (0,), 1),
    "read in the wrong order": (lambda w, m, g: (0.9 * m + g, w - 0.1 * m), (0, 1), 3),
    "chosen from": (lambda w, g: np.where(g > 0, w, w - g), (0,), 2),
    "turned": (lambda w: w.T, (0,), 1),
    "backwards": (lambda w: w[::-1], (0,), 1),
    "twice the same": (lambda a, b: (a + b, a + b), (0, 1), 2),
    "an update": (lambda w, m, g: (w - 0.1 * (0.9 * m + g), 0.9 * m + g), (0, 1), 3),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DONATED)
def test_a_donated_array_is_not_written_while_it_is_needed(name, backend):
    f, donate, n = DONATED[name]
    args = np.random.default_rng(11).standard_normal((n, 300, 300))
    eager_and_compiled(f, *args, backend=backend, donate=donate)


@pytest.mark.parametrize("backend", BACKENDS)
def test_missing_data_has_no_gradient(backend):
    x = np.array([1.0, np.nan, 3.0])

    def step(w, x):
        return minigrad.grad(lambda w: np.sum(np.where(np.isnan(x), 0, (w * x) ** 2)), w)

    same(compile(step, backend=backend)(np.ones(3), x), np.array([2.0, 0.0, 18.0]), 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_sums_are_exact_to_the_last_digits(backend):
    x = np.full(1_000_000, 0.1, np.float32)
    for f in (lambda x: np.sum(x * x), lambda x: np.sum((x * x).reshape(2, -1), axis=-1)):
        same(compile(f, backend=backend)(x), f(x), 1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_column_that_is_none_is_refused(backend):
    x = np.arange(6.0).reshape(2, 3)
    compiled = compile(lambda x, i: np.take_along_axis(x, i, -1) * 2, backend=backend)
    compiled(x, np.array([[0], [-3]]))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis -1 with size 3"):
        compiled(x, np.array([[0], [3]]))


def test_draws_that_cannot_be_recorded_are_refused():
    with pytest.raises(UnsupportedError, match=r"Generator.dirichlet is not recorded.*\n  fix  draw before the call"):
        compile(lambda x, rng: x * rng.dirichlet([1, 2, 3]))(np.ones(3), np.random.default_rng(0))
    with pytest.raises(UnsupportedError, match="a RandomState would be frozen"):
        compile(lambda x, rng: x * rng.rand(3))(np.ones(3), np.random.RandomState(0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_computed_are_checked_before_anything_is_written(backend):
    compiled = compile(lambda w, i: (w + 1, (w + 1)[i * 2]), donate=0, backend=backend)
    w = np.zeros((4, 3))
    same(compiled(w.copy(), np.array([1, 0])), (w + 1, (w + 1)[[2, 0]]), 1e-12)
    with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
        compiled(w, np.array([1, 2]))
    assert not w.any()


def checks_a_gradient(p, g):
    minigrad.require(np.isfinite(g), "not finite")
    return {name: x - 0.1 * g for name, x in p.items()}, np.sum(g)


def checks_what_it_returns(p, g):
    new = {name: x - 0.1 * g for name, x in p.items()}
    minigrad.require(np.isfinite(new["a"]) & np.isfinite(new["b"] * 2), "not finite")
    return new, np.sum(new["a"])


def checks_a_row(p, g):
    rows = np.tanh(g) * 1e300
    minigrad.require(np.max(rows, axis=-1, keepdims=True) < np.inf, "not finite")
    minigrad.require(np.isfinite(rows), "not finite")
    return {name: x * 2 + rows for name, x in p.items()}, np.sum(g * 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [checks_a_gradient, checks_what_it_returns, checks_a_row])
def test_a_check_that_fails_leaves_donated_arrays_as_they_were(f, backend):
    compiled = compile(f, donate=0, backend=backend)
    rng = np.random.default_rng(0)
    g, p = rng.normal(size=(40, 30)), {"a": rng.normal(size=(40, 30)), "b": rng.normal(size=(40, 30))}
    wanted = f(p, g)
    p, total = compiled(p, g)
    same((p, total), wanted, 1e-12)
    before = {name: x.copy() for name, x in p.items()}
    g[-1, -1] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        compiled(p, g)
    same(p, before, 0)
    g[-1, -1] = 0
    wanted = f(p, g)
    new, total = compiled(p, g)
    same((new, total), wanted, 1e-12)
    assert f is checks_what_it_returns or new["a"] is p["a"]  # in place, for all that


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("numbers", [np.uint8([[255], [0]]), np.int8([[-128], [127]])])
def test_columns_may_be_more_than_their_numbers_can_count(numbers, backend):
    def f(x, i):
        return minigrad.value_and_grad(lambda x: np.sum(np.take_along_axis(x, i, -1) ** 2), x)

    x = np.random.default_rng(0).normal(size=(2, 300))
    same(compile(f, backend=backend)(x, numbers), f(x, numbers), 1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_captured_columns_are_read_at_every_run(backend):
    x, columns = np.arange(6.0).reshape(2, 3), np.array([[0], [1]])
    compiled = compile(lambda x: np.take_along_axis(x, columns, -1) * 2, backend=backend)
    same(compiled(x), np.array([[0.0], [8.0]]), 1e-12)
    columns[:] = [[-1], [0]]
    same(compiled(x), np.array([[4.0], [6.0]]), 1e-12)


# --- what a program cannot hold is refused where it is written

SEARCHES = {
    "a mask as index": lambda x: x[x > 0],
    "a mask as index of one axis": lambda x: np.stack([x, x])[:, x > 0],
    "a gradient through a mask": lambda x: minigrad.grad(lambda x: np.sum(x[x > 0]))(x),
    "np.nonzero": lambda x: np.nonzero(x > 0)[0],
    "np.flatnonzero": lambda x: np.compress(x > 0, x),
    "np.argwhere": lambda x: np.argwhere(x > 0),
    "np.where": lambda x: np.where(x > 0)[0],
    "np.unique": lambda x: np.union1d(x, 2 * x),
    "np.unique_values": lambda x: np.unique_values(x),
    "np.intersect1d": lambda x: np.intersect1d(x, 2 * x),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_shapes_that_depend_on_values_are_refused(name):
    """Otherwise the shapes found while tracing would be those of every call."""
    what = name.replace(" of one axis", "").replace("a gradient through a mask", "a mask as index")
    message = rf"the result of {what} depends on values(.|\n)*at   .*test_compile\.py"
    with pytest.raises(ControlFlowError, match=message):
        compile(SEARCHES[name], backend="numpy")(np.array([1.0, -2.0, 3.0]))


def test_masks_that_keep_the_shape():
    def f(x, mask):
        y = x * 1
        y[x > 1] = 0
        y[mask] = 2  # the mask is an argument
        return y, np.sum(x, where=x > 0), x[np.array([True, False, True])]

    compiled, x = compile(f, backend="numpy"), np.array([1.0, -2.0, 3.0])
    for mask in (np.array([True, False, False]), np.array([True, True, False])):
        for a, b in zip(compiled(x * mask, mask), f(x * mask, mask), strict=True):
            np.testing.assert_array_equal(a, b)


def in_place(p):
    p -= 0.1 * p
    return np.sum(p)


def through_a_view(p):
    p[1:][0] = 0
    return np.sum(p)


def with_out(p):
    np.exp(p, out=p)
    return np.sum(p)


def item_in_place(p):
    p["w"] -= 0.1
    return np.sum(p["w"])


def item_anew(p):
    p["w"] = p["w"] - 0.1
    return np.sum(p["w"])


def item_added(p):
    p["v"] = p["w"] * 2
    return np.sum(p["v"])


@pytest.mark.parametrize("f", [in_place, through_a_view, with_out, item_in_place, item_anew, item_added])
def test_arguments_changed_in_place_are_refused(f):
    """A compiled function would leave them as they are."""
    w = np.ones(3)
    with pytest.raises(OverwrittenError, match=r"changes its argument `p` in place(.|\n)*return the new value"):
        compile(f, donate=(0,), backend="numpy")({"w": w} if "item" in f.__name__ else w)
    np.testing.assert_array_equal(w, 1)


def test_the_line_that_changes_an_argument_is_named():
    with pytest.raises(OverwrittenError, match=r"at   .*test_compile\.py:\d+ +p -= 0\.1 \* p"):
        compile(in_place, backend="numpy")(np.ones(3))


def test_a_captured_array_that_is_changed_while_tracing_is_refused():
    total = np.zeros(3)

    def f(x):
        total[...] += 1
        return x + total

    with pytest.raises((UnsupportedError, OverwrittenError), match="changed the captured array `total`"):
        compile(f, backend="numpy")(np.ones(3))


# --- which result takes the memory of which donated argument


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_donated_argument_goes_with_the_result_of_its_structure(backend):
    """Neither a loss returned first nor gradients of the same shapes take the memory of the parameters."""

    def step(params, mean, x):
        loss, grads = minigrad.value_and_grad(lambda p: np.mean((x * np.exp(p["s"]) @ p["w"] - 1) ** 2), params)
        mean = {"kept": tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean["kept"], grads)}
        return loss, list(grads.values()), mean, tree.map(lambda p, m: p - 0.1 * m, params, mean["kept"])

    x = np.random.default_rng(0).standard_normal((5, 3))
    params = {"s": np.array(0.3), "w": np.ones(3)}
    mean = {"kept": tree.map(np.zeros_like, params)}
    plain = params, mean
    compiled, own = compile(step, donate=(0, 1), backend=backend), (tree.map(np.copy, params), tree.map(np.copy, mean))
    memory = own[0]["w"]
    for _ in range(3):
        wanted, got = step(*plain, x), compiled(*own, x)
        same(got, wanted, 1e-12)
        plain, own = (wanted[3], wanted[2]), (got[3], got[2])
        assert own[0]["w"] is memory


# --- found by a random tester


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_checkpoint_replays_the_draws_of_each_call(backend):
    """Also inside another checkpoint, and beside draws outside of both."""
    dropped = minigrad.checkpoint(lambda x, rng: x * x * (rng.random(x.shape) < 0.5))
    twice = minigrad.checkpoint(lambda x, rng: dropped(dropped(x, rng) * rng.normal(size=x.shape), rng))

    def f(x, rng):
        return minigrad.grad(lambda x: np.sum(twice(x, rng) * rng.random()))(x), rng.random(3)

    compiled, x = compile(f, backend=backend), np.random.default_rng(0).standard_normal(9)
    eagerly, again = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(3):
        same(compiled(x, again), f(x, eagerly), 1e-12)


def test_results_of_a_checkpoint_are_no_views_of_each_other():
    def halves(p):
        whole = p * 2
        return whole, whole[None]

    def f(x):
        a, b = minigrad.checkpoint(halves)(x)
        b *= 10
        return a + 0

    np.testing.assert_array_equal(compile(f, backend="numpy")(np.ones(2)), f(np.ones(2)))


def test_the_order_of_a_dict_makes_another_program():
    compiled = compile(lambda d: np.stack(list(d.values())), backend="numpy")
    a, b = np.zeros(1), np.ones(1)
    for _ in range(2):
        np.testing.assert_array_equal(compiled({"a": a, "b": b}).ravel(), [0, 1])
        np.testing.assert_array_equal(compiled({"b": b, "a": a}).ravel(), [1, 0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("number", [True, np.bool_(False), np.int8(1), 2**31, 2**32, 2**63, np.uint64(2**63), -(2**40)])
def test_numbers_beside_whole_numbers(number, dtype, backend):
    x = np.arange(-1, 3, dtype=dtype)
    functions = [lambda x: x == number, lambda x: x < number, lambda x: np.where(x <= number, 1.0, 0.0)]
    if abs(int(number)) < 2:
        functions += [lambda x: x * number, lambda x: np.maximum(x, number), lambda x: np.where(x > 1, x, number)]
    for f in functions:
        got, wanted = compile(f, backend=backend)(x), f(x)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_constant_factor_stays_inside_a_sum(backend):
    """The sum of 0 * inf and inf is NaN; (0 + 1) * inf is not."""
    x = np.arange(48.0).reshape(3, 16) % 2
    for axis in (None, -1, 0):
        with np.errstate(invalid="ignore"):
            got = compile(lambda x, axis=axis: np.sum(x * np.inf, axis=axis), backend=backend)(x)
            np.testing.assert_array_equal(got, np.sum(x * np.inf, axis=axis))


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_where_no_gradient_goes_in_captured_and_donated_arrays(backend):
    factor = np.array([np.nan, 1.0])

    def captures(x):
        return minigrad.grad(lambda x: np.sum(np.where(x > 9, x * factor, x)))(x)

    def updates(w, s):
        return w - minigrad.grad(lambda w: np.sum(np.where(w > 9, w * np.sqrt(s), w)))(w), s * 1

    np.testing.assert_array_equal(compile(captures, backend=backend)(np.ones(2)), captures(np.ones(2)))
    wanted = updates(np.ones(2), factor)
    got = compile(updates, donate=(0, 1), backend=backend)(np.ones(2), factor.copy())
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_function_of_no_module_is_compiled():
    names = {"np": np}
    exec("def f(x): return np.sin(x)", names)
    np.testing.assert_array_equal(compile(names["f"], backend="numpy")(np.ones(3)), np.sin(np.ones(3)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_loop_is_a_long_program(backend):
    def f(x):
        for _ in range(400):
            x = np.sin(x) * 0.99 + 0.001 * x
        return np.sum(x)

    x = np.linspace(-1, 1, 5)
    same(compile(lambda x: minigrad.grad(f)(x), backend=backend)(x), minigrad.grad(f)(x), 1e-12)
