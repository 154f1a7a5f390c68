"""compare_adjoints: the first wrong line of an adjoint written by hand, found by experiment."""

import inspect
import sys
import zlib

import numpy as np
import pytest

import attention_by_hand as hand
import mutants
from minigrad.check import check_adjoint, compare_adjoints
from minigrad.check.forms import factor_between, form_of
from minigrad.check.truths import forward_name
from minigrad.errors import AdjointMismatch, MinigradError

ARGS = hand.arguments()
RNG = np.random.default_rng(5)


def line_of(function, text):
    """The number of the line of a function that contains a text."""
    lines, start = inspect.getsourcelines(function)
    (found,) = [start + i for i, line in enumerate(lines) if text in line]
    return found


def broken(text, by):
    """attention_adjoint with a text of its source replaced, as `mutants` makes them."""
    lines = inspect.getsource(hand).splitlines(keepends=True)
    number = line_of(hand.attention_adjoint, text)
    assert lines[number - 1].count(text) == 1
    changed = [line.replace(text, by) if i == number - 1 else line for i, line in enumerate(lines)]
    return mutants.function_of(hand.attention_adjoint, changed), number


def culprit(forward, adjoint, *args, **options):
    with pytest.raises(AdjointMismatch, match="first wrong line") as caught:
        compare_adjoints(forward, adjoint, *args, **options)
    return caught.value.report.culprit


def culprit_or_none(forward, adjoint, *args):
    try:
        compare_adjoints(forward, adjoint, *args)
    except AdjointMismatch as error:
        return error.report.culprit
    return None


def test_a_right_adjoint_is_not_flagged():
    report = compare_adjoints(hand.attention, hand.attention_adjoint, *ARGS)
    assert report.right
    assert report.culprit is None
    single = [a.astype(np.float32) if a.dtype == np.float64 else a for a in ARGS]
    assert compare_adjoints(hand.attention, hand.attention_adjoint, *single).right


BREAKS = {
    "a sign": ("dweights * weights, axis=-1", "-dweights * weights, axis=-1"),
    "a transpose left out": ("np.swapaxes(dscaled, -1, -2) @ q", "dscaled @ q"),
    "a scale left out": ("dscaled = dscores * scale", "dscaled = dscores * 1.0"),
    "a wrong axis": ("along = np.mean(dxhat * xhat, axis=-1", "along = np.mean(dxhat * xhat, axis=-2"),
    "a sum for a mean": ("along = np.mean(", "along = np.sum("),
    "a gain left out": ("dxhat = dnormed * gain", "dxhat = dnormed * 1.0"),
    "a term left out": ("dx += (dxhat - xhat * along) / rms", "dx += dxhat / rms"),
    "a wrong weight": ("drows = drows + dk_rows @ w_k.T", "drows = drows + dk_rows @ w_q.T"),
    "a wrong variable": ("dk_rows = join(dk)", "dk_rows = join(dv)"),
    "a part forgotten": ("drows += dv_rows @ w_v.T", "drows += 0 * dv_rows @ w_v.T"),
    "a value of the forward": ("xhat = x / rms", "xhat = x * rms"),
    "a constant of the forward": ("axis=-1, keepdims=True) + 1e-6)", "axis=-1, keepdims=True) + 1e-2)"),
    "a factor of 1.0005": ("dv = np.swapaxes", "dv = 1.0005 * np.swapaxes"),
    "what is returned": ("return dx, dgain, dw_q, dw_k", "return dx, dgain, dw_k, dw_q"),
    "an exception": ("djoined = g @ w_o.T", "djoined = g @ w_o.T[:3]"),
}


@pytest.mark.parametrize(("text", "by"), BREAKS.values(), ids=BREAKS)
def test_the_broken_line_of_a_long_adjoint_is_named(text, by):
    adjoint, number = broken(text, by)
    found = culprit(hand.attention, adjoint, *ARGS)
    assert found.line.line == number, str(found)


def test_a_sample_of_all_single_line_changes():
    """Some of them; the whole study is benchmarks/mutation_study.py."""
    caught, named = 0, []
    for mutant in mutants.mutants(hand.attention_adjoint):
        if zlib.crc32(str(mutant).encode()) % 397 == 1:
            found = culprit_or_none(hand.attention, mutant.function, *ARGS)
            if found is not None:
                caught += 1
                named += [str(mutant)] * (found.line.line == mutant.line)
    assert caught >= 4
    assert len(named) >= caught - 1


# ---- what is said of it --------------------------------------------------------------------------


def test_the_report_shows_the_line_its_neighbours_and_the_generated_formula():
    adjoint, number = broken("dxhat = dnormed * gain", "dxhat = dnormed * 1.0")
    with pytest.raises(AdjointMismatch) as caught:
        compare_adjoints(hand.attention, adjoint, *ARGS)
    text = str(caught.value)
    assert f":{number}    dxhat = dnormed * 1.0" in text
    assert "`dxhat` should be the gradient of xhat" in text
    assert "everything is right with `gain` in place of `1.0`" in text
    assert "dgain = np.sum(dnormed * xhat, axis=(0, 1))    # is the gradient of gain" in text
    assert "the generated adjoint computes it as\n      dxhat = dnormed * gain" in text


def test_names_need_not_match():
    def forward(x, w):
        scores = np.tanh(x @ w)
        return scores * scores

    def adjoint(g, x, w):
        delta = 2 * g * np.tanh(x @ w)
        u = delta * (1 - np.tanh(x @ w))
        return u @ w.T, x.T @ u

    x, w = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
    found = culprit(forward, adjoint, x, w)
    assert found.line.line == line_of(adjoint, "u = delta")
    assert culprit(forward, adjoint, x, w, names={"u": "x"}).line.line == line_of(adjoint, "u = delta")


@pytest.mark.parametrize(
    "name",
    "dscores d_scores grad_scores scores_grad gscores gradScores dScores dL_dscores scores_bar".split(),
)
def test_names_of_gradients(name):
    assert forward_name(name, ["q", "scores"], {}) == ("scores", "gradient")
    assert forward_name(f"self.{name}", ["q", "scores"], {}) == ("scores", "gradient")


def test_other_names():
    assert forward_name("scores", ["q", "scores"], {}) == ("scores", "value")
    assert forward_name("delta", ["q", "scores"], {"delta": "q"}) == ("q", "gradient")
    assert forward_name("scale", ["q", "scores"], {}) is None


def test_a_helper_is_looked_into():
    def back_through_softmax(dp, p):
        inner = (dp * p).sum(0, keepdims=True)
        return p * (dp - inner)

    def forward(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def adjoint(g, x):
        p = forward(x)
        dx = back_through_softmax(g, p)
        return dx

    found = culprit(forward, adjoint, RNG.normal(size=(3, 4)))
    assert found.line.line == line_of(back_through_softmax, "inner =")
    assert found.why.endswith(f"adjoint calls it in line {line_of(adjoint, 'dx = back')}")
    assert "`1` in place of `0`" in found.cure


def test_loops_that_fill_a_buffer():
    def forward(x, w):
        return np.stack([x[i] * w[i] for i in range(len(x))])

    def adjoint(g, x, w):
        dx, dw = np.zeros_like(x), np.zeros_like(w)
        for i in range(len(x)):
            dx[i] = g[i] * w[i]
            dw[i] += np.sum(g[i] * w[i])
        return dx, dw

    found = culprit(forward, adjoint, RNG.normal(size=(3, 4)), RNG.normal(size=3))
    assert found.line.line == line_of(adjoint, "dw[i] +=")


def test_closures_and_methods():
    scale = 3.0

    class Layer:
        def __init__(self):
            self.__factor = scale

        def forward(self, x):
            return np.sin(x) * self.__factor

        def adjoint(self, g, x):
            slope = np.cos(x)
            dx = g * slope * scale / self.__factor
            return dx

    layer = Layer()
    found = culprit(layer.forward, layer.adjoint, RNG.normal(size=4))
    assert found.line.line == line_of(Layer.adjoint, "dx = ")


def test_the_debugger_and_the_function_are_left_as_they_were():
    def adjoint(g, x):
        slope = np.sin(x)
        return g * slope

    code = adjoint.__code__

    def tracer(frame, event, arg):
        return None

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(tracer)
    try:
        culprit(np.sin, adjoint, RNG.normal(size=4))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before[0])
    assert sys.getprofile() is before[1]
    assert adjoint.__code__ is code


def test_what_has_no_source_is_compared_all_the_same():
    scope = {"np": np}
    exec("def adjoint(g, x):\n    slope = -np.cos(x)\n    return g * slope", scope)  # as typed at a prompt
    found = culprit(np.sin, scope["adjoint"], RNG.normal(size=4))
    assert (found.line.file, found.line.line) in [("<string>", 2), ("<string>", 3)]


def test_what_cannot_be_traced_cannot_be_compared():
    with pytest.raises(MinigradError, match="converted to a plain array"):
        compare_adjoints(lambda x: np.array(x), lambda g, x: g.copy(), RNG.normal(size=3))


def test_check_adjoint_names_the_line_too():
    adjoint, number = broken("dxhat = dnormed * gain", "dxhat = dnormed * 1.0")
    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(hand.attention, adjoint, *ARGS)
    assert caught.value.report.culprit.line.line == number


# ---- forms ---------------------------------------------------------------------------------------


def test_forms_of_an_array():
    x = RNG.normal(size=(2, 3, 4))
    assert form_of(x, x, 1e-9) == ""
    assert form_of(x.reshape(6, 4), x, 1e-9) == "reshaped"
    assert form_of(x.transpose(1, 0, 2), x, 1e-9) == "transposed (1, 0, 2)"
    assert form_of(x.transpose(2, 0, 1).reshape(8, 3), x, 1e-9) == "transposed (2, 0, 1)"
    assert form_of(x.sum((0, 1)), x, 1e-9) == "summed over axes (0, 1)"
    assert form_of(x, x.sum(1), 1e-9) == "before its sum over axes (1,)"
    assert form_of(np.broadcast_to(x[:, :1], x.shape), x[:, 0], 1e-9) == "copied"
    assert form_of(np.repeat(x, 2, axis=1), x, 1e-9) == "copied 2 times along axis 1"
    for other in (-x, 2 * x, x[::-1], x[..., :3], x + 1e-6):
        assert form_of(other, x, 1e-9) is None


def test_factors_between_arrays():
    x = RNG.normal(size=(3, 4))
    assert factor_between(-2 * x, x, 1e-9) == pytest.approx(-2)
    assert factor_between(x + 1e-3 * x**2, x, 1e-9) is None
    assert factor_between(x, np.zeros_like(x), 1e-9) is None
