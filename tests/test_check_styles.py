"""check_layer on more styles of public code: each layer is traced and checked as it stands, and a wrong one caught."""

import copy

import numpy as np
import pytest
import scipy.signal
import scipy.special

import foreign_styles as foreign
import minigrad
from minigrad.check import check_layer
from minigrad.check.constructors import answering
from minigrad.errors import AdjointMismatch, MinigradError


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


# A layer or a pair of functions; its inputs; and the gradients that are to be found.
STYLES = {
    "float() on the way": ((foreign.filtered, foreign.filtered_backward), [normal(6), normal(3), normal(1)], "x w b"),
    ".item() on the way": (foreign.Rescaled(), [normal(3, 4)], "x"),
    "scipy.signal": (foreign.ScipyConvolution(2, 3, 2), [normal(3, 4, 5)], "biases kernels x"),
    "a dictionary of parameters, a result too many": (
        (foreign.cell, foreign.cell_backward),
        [normal(3, 4), normal(5, 4), {"Wx": normal(5, 3), "Wh": normal(5, 5), "bh": normal(5, 1),
                                      "Wy": normal(2, 5), "by": normal(2, 1)}],
        "xt h_prev parameters.Wx parameters.Wh parameters.bh"),
    "the second result": (foreign.LastStates(3), [normal(4, 2, 3)], "W xs"),
    "a list of inputs": (foreign.Product(), [[normal(3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)]],
                         "parts[0] parts[1] parts[2]"),
    "no cache, but the input again": ((foreign.softplus, foreign.softplus_backward), [normal(3, 4)], "x"),
    "parameters made at the first run": (foreign.LazyDense(3), [normal(5, 4)], "parameters['W'] parameters['b'] x"),
    "buffers in float32": (foreign.RunningMean(4), [normal(5, 3, 4)], "w xs"),
    "made for one shape": (foreign.FlattenOf((4, 3)), [normal(2, 4, 3)], "x"),
    "layers made on the way": (foreign.Unrolled(3), [normal(4, 2, 3)], "params[0] params[1] xs"),
    "one column": (foreign.ColumnSoftmax(), [normal(4, 1)], "z"),
    "asserts": (foreign.Probabilities(), [np.array([0.0, 1e-9, 0.5])], "p"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "inputs", "names"), STYLES.values(), ids=STYLES)
def test_a_style_is_checked_as_it_stands(layer, inputs, names):
    report = check_layer(copy.deepcopy(layer), *inputs)
    assert report.right
    assert sorted(c.name for c in report.comparisons) == sorted(names.split())
    assert "the generated adjoint, confirmed" in report.reference, "it was traced"
    assert not report.notes


def test_what_a_loss_returns_besides_is_no_gradient():
    report = check_layer(foreign.steps, normal(4, 1), normal(4, 4), normal(3, 4))
    assert [c.name for c in report.comparisons] == ["W", "U"]


def test_a_method_that_returns_the_loss_and_the_gradients():
    model, X, y = foreign.Classifier(4, 5, 3), normal(6, 4), np.array([0, 2, 1, 1, 0, 2])
    for given in (model, model.loss):
        report = check_layer(given, X, y)
        assert report.right and report.title.startswith("Classifier")
        assert [c.name for c in report.comparisons] == ["params['W1']", "params['W2']", "params['b1']"]
    with pytest.raises(AdjointMismatch) as caught:
        check_layer(foreign.WithoutDecay(4, 5, 3).loss, X, y)
    assert [c.name for c in caught.value.report.comparisons if not c.right] == ["params['W2']"]
    with pytest.raises(MinigradError, match=r"Gate.forward should return \(loss, gradients\), got ndarray"):
        check_layer(foreign.Gate(3).forward, normal(4, 3))


def test_a_gradient_that_is_zero_is_no_parameter():
    report = check_layer(foreign.FirstStep(4, 3), normal(2, 4))
    assert [c.name for c in report.comparisons] == [
        "parameters['Whh']", "parameters['Wxh']", "parameters['bh']", "x"]  # fmt: skip
    assert report.notes == ["taken as constants, as states and running statistics are: h"]


def test_what_an_earlier_run_has_left_is_no_parameter():
    layer, x = foreign.Gate(3), normal(4, 3)
    layer.forward(x)
    layer.backward(x)
    report = check_layer(layer, x)
    assert [c.name for c in report.comparisons] == ["W", "x"]


def test_the_gradient_of_a_loss_is_that_of_its_prediction():
    report = check_layer(foreign.SquaredError(), normal(3, 4), normal(3, 4, seed=1))
    assert [c.name for c in report.comparisons] == ["y"]


def test_an_epsilon_that_the_backward_pass_does_not_know_is_a_remark():
    report = check_layer(foreign.LogLoss(), np.eye(4)[[1, 0, 3]], normal(3, 4))
    assert [c.name for c in report.comparisons] == ["scores"]
    assert any("the gradient of scores is off by" in n and "an epsilon" in n for n in report.notes)


def test_a_shape_that_the_layer_was_not_made_for_is_a_remark():
    report = check_layer(foreign.FlattenOf((4, 3)), normal(2, 4, 3))
    said = [str(v) for v in report.variations if not v.holds]
    assert said and all("the layer was made for other sizes" in text for text in said)


def test_a_loss_that_is_given_its_inputs_again():
    report = check_layer(foreign.HuberLoss(), 2 * normal(3, 4), normal(3, 4), forward="calculate")
    assert [c.name for c in report.comparisons] == ["y_pred"]
    assert report.notes == ["no gradient of y_true is returned: it is not checked"]


def without_the_flip(self, g):
    dx = foreign.ScipyConvolution.backward(self, g)
    self.kernels_grad = self.kernels_grad[..., ::-1].copy()
    return dx


def with_a_constant_scale(self, g):
    return g / self.scale


def of_the_last_step(self, dhs):
    dxs = foreign.RunningMean.backward(self, dhs)
    self.dw *= 1.0001
    return dxs


def without_bias(self, g):
    dx = foreign.LazyDense.backward(self, g)
    self.gradients["b"] = 0 * self.gradients["b"]
    return dx


def a_term_too_few(dh_next, cache):
    gradients = foreign.cell_backward(dh_next, cache)
    return gradients | {"dbh": gradients["dbh"][:, :1] * 0.5}


WRONG = {
    "a little off in float32": (
        type("Wrong", (foreign.RunningMean,), {"backward": of_the_last_step})(4), [normal(5, 3, 4)], "w: WRONG"),
    "a parameter made late": (
        type("Wrong", (foreign.LazyDense,), {"backward": without_bias})(3), [normal(5, 4)],
        r"parameters\['b'\]: WRONG"),
    "in a dictionary": (
        (foreign.cell, a_term_too_few),
        [normal(3, 4), normal(5, 4), {"Wx": normal(5, 3), "Wh": normal(5, 5), "bh": normal(5, 1),
                                      "Wy": normal(2, 5), "by": normal(2, 1)}],
        r"parameters.bh: WRONG(.|\n)*ratio 0.5"),
    "a kernel the wrong way round": (
        type("Wrong", (foreign.ScipyConvolution,), {"backward": without_the_flip})(2, 3, 2), [normal(3, 4, 5)],
        r"respect to kernels: WRONG"),
    "a number taken for a constant": (
        type("Wrong", (foreign.Rescaled,), {"backward": with_a_constant_scale})(), [normal(3, 4)],
        r"1 of 12 elements are wrong"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "inputs", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_one_is_caught(layer, inputs, says):
    with pytest.raises(AdjointMismatch, match=says):
        check_layer(layer, *inputs)


# ---- what stands in for functions that know no Tensors ---------------------------------------------------------------


def traced(f, *args):
    """Return f(*args) and its gradients for ones, computed on Tensors in the context."""

    def within(*tensors):
        with answering(tensors[0]._tape, [f]):
            return f(*tensors)

    out, pull = minigrad.vjp(within, *args)
    return out, pull(np.ones_like(out))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("name", ["correlate2d", "convolve2d", "correlate", "convolve", "fftconvolve"])
def test_convolutions_of_scipy(name, mode):
    for shape in ((2, 2), (3, 2), (3, 3), (1, 4)):
        out, _ = traced(lambda x, y: getattr(scipy.signal, name)(x, y, mode), normal(5, 6), normal(*shape))
        assert np.allclose(out, getattr(scipy.signal, name)(normal(5, 6), normal(*shape), mode), rtol=0, atol=1e-13)


SPECIAL = {
    "softmax": lambda x: scipy.special.softmax(x, axis=1),
    "log_softmax": lambda x: scipy.special.log_softmax(x, axis=0),
    "logsumexp": lambda x: scipy.special.logsumexp(x, axis=1),
    "logsumexp of everything": lambda x: scipy.special.logsumexp(x),
    "full of a Tensor": lambda x: np.full((2, 3), x[0, 0]) + np.full_like(np.ones(3), fill_value=x[1, 1]),
    "float of a number": lambda x: x * float("2") * float(3),
    "float as a dtype": lambda x: np.arange(4).astype(float) * x + np.zeros(4, dtype=float),
    "float of an element": lambda x: x * float(x[0, 1]),
    "int of an element": lambda x: x * int(x.max() + 3),
}


@pytest.mark.parametrize("f", SPECIAL.values(), ids=SPECIAL)
def test_what_stands_in_is_differentiated(f):
    x, rng = normal(3, 4), np.random.default_rng(5)
    v = rng.normal(size=x.shape)
    out, (gradient,) = traced(f, x)
    assert np.allclose(out, f(x), rtol=1e-14)
    slope = np.sum(f(x + 1e-6 * v) - f(x - 1e-6 * v)) / 2e-6
    assert np.isclose(np.sum(gradient * v), slope, rtol=1e-6, atol=1e-8)


def test_float_is_python_again_afterwards():
    def f(x):
        assert isinstance(1.5, float)
        assert float == float  # noqa: E721  (as people write it)
        assert float is not before
        return x * float(x[0])

    before = float
    traced(f, normal(3))
    assert "float" not in globals()
    assert float is before
