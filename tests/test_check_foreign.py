"""check_layer: layers in every style are traced and checked as they stand, and wrong ones are caught."""

import copy
import cProfile
import math
import re
import sys
import threading

import numpy as np
import pytest

import foreign_layers as foreign
import minigrad
from minigrad.check import check_layer
from minigrad.check.constructors import answering
from minigrad.check.places import places
from minigrad.errors import AdjointMismatch, CutGraphError, MinigradError


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


CLASSES = np.array([0, 3, 1, 2, 2])

# A layer, a pair of functions or a function; its inputs; and the gradients that are to be found.
LAYERS = {
    "outputs and gradients in attributes": (foreign.DenseIntoAttributes(4, 3), [normal(5, 4)], "biases weights inputs"),
    "learns in its backward pass": (foreign.DenseThatLearns(4, 3), [normal(4, 5)], "bias weights input"),
    "lists of parameters": (foreign.AffineWithLists(4, 3), [normal(5, 4)], "params[0] params[1] x"),
    "objects for parameters": (foreign.LinearWithParams(4, 3), [normal(2, 5, 4)], "bias.data weight.data x"),
    "private attributes": (foreign.PrivateDense(4, 3), [normal(5, 4)], "_PrivateDense__W X"),
    "np.c_": (foreign.DenseWithBiasColumn(4, 3), [normal(5, 4)], "W x"),
    "writes into a copy": (foreign.ReluWithMask(), [normal(5, 4)], "x"),
    "fills an empty buffer": (foreign.StableSigmoid(), [normal(5, 4)], "x"),
    "out= its own input": (foreign.TanhInPlace(4, 3), [normal(5, 4)], "coef_ intercept_ X"),
    "np.vectorize and math": (foreign.ExactGelu(), [normal(5, 4)], "x"),
    "random mask": (foreign.Dropout(), [normal(5, 4)], "x"),
    "a Jacobian for each row": (foreign.Softmax(), [normal(5, 4)], "inputs"),
    "running statistics": (foreign.BatchNorm(4), [normal(6, 4)], "beta gamma x"),
    "dictionaries": (foreign.LayerNorm(4), [normal(2, 6, 4)], "params['beta'] params['gamma'] x"),
    "unfolded convolution": (
        foreign.Convolution(normal(2, 3, 3, 3), normal(2), 1, 1), [normal(1, 3, 3, 3)], "W b x"),
    "strides": (foreign.StridedConv1d(normal(3)), [normal(7)], "kernel signal"),
    "argmax of patches": (foreign.MaxPooling(2, 2, 2), [normal(2, 1, 4, 4)], "x"),
    "two inputs": (foreign.GruCell(3, 4), [normal(2, 3), normal(2, 4)], "p['h'] p['r'] p['z'] x h"),
    "np.add.at": (foreign.Embedding(6, 3), [np.array([[0, 2, 2], [5, 1, 0]])], "params[0]"),
    "attention": (foreign.CausalSelfAttention(4, 2), [normal(2, 3, 4)], "W_out W_qkv x"),
    "layers in a list": (
        foreign.Sequential(foreign.AffineWithLists(4, 5), foreign.ReluWithMask(), foreign.BatchNorm(5)),
        [normal(6, 4)], "layers[0].params[0] layers[0].params[1] layers[2].beta layers[2].gamma x"),
    "a loss with dout=1": (foreign.SoftmaxWithLoss(), [normal(5, 4), CLASSES], "x"),
    "a loss that is a float": (foreign.MeanSquaredError(), [normal(5, 4), normal(5, 4, seed=1)], "prediction"),
    "loss and gradient at once": (foreign.softmax_loss, [normal(5, 4), CLASSES], "x"),
    "loss in loops": (foreign.svm_loss_naive, [normal(4, 4), normal(5, 4), CLASSES, 0.1], "W"),
    "dictionaries of gradients": (
        foreign.two_layer_loss,
        [{"W1": normal(4, 6), "b1": normal(6), "W2": normal(6, 4), "b2": normal(4)}, normal(5, 4), CLASSES],
        "params.W1 params.W2 params.b1 params.b2"),
    "a cache": ((foreign.affine_forward, foreign.affine_backward), [normal(5, 2, 2), normal(4, 3), normal(3)], "x w b"),
    "a dictionary that is changed": (
        (foreign.batchnorm_forward, foreign.batchnorm_backward), [normal(6, 4), normal(4), normal(4), {"eps": 1e-5}],
        "x gamma beta"),
    "four loops": (
        (foreign.conv_forward_naive, foreign.conv_backward_naive),
        [normal(1, 2, 3, 3), normal(2, 2, 3, 3), normal(2), {"stride": 2, "pad": 1}], "x w b"),
    "two results and a cache": (
        (foreign.lstm_step_forward, foreign.lstm_step_backward),
        [normal(2, 3), normal(2, 4), normal(2, 4, seed=1), normal(3, 16), normal(4, 16), normal(16)],
        "x prev_h prev_c Wx Wh b " * 2),
    "a buffer over time": (
        (foreign.rnn_forward, foreign.rnn_backward),
        [normal(2, 3, 2), normal(2, 4), normal(2, 4), normal(4, 4), normal(4)], "x h0 Wx Wh b"),
    "lists of weights and of biases": (
        foreign.PerceptronWithLists([3, 4, 2]), [normal(5, 3)], "weights[0] weights[1] biases[0] biases[1] x"),
    "given the prediction again": (
        foreign.CrossEntropyOfProbabilities(), [0.5 + 0.3 * np.tanh(normal(5, 4)), CLASSES], "y_pred"),
    "states by time step": (foreign.SequenceLSTM(2, 3), [normal(4, 2)], "W X"),
    "a list of rows": ((foreign.row_norms_forward, foreign.row_norms_backward), [normal(4, 3)], "x"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "inputs", "names"), LAYERS.values(), ids=LAYERS)
def test_a_layer_is_checked_as_it_stands(layer, inputs, names):
    report = check_layer(copy.deepcopy(layer), *inputs)
    assert report.right
    assert sorted(c.name for c in report.comparisons) == sorted(names.split())
    assert "the generated adjoint, confirmed" in report.reference, "it was traced"
    assert not [note for note in report.notes if "number" in note]


def test_the_layer_and_its_inputs_are_left_as_they_were():
    layer, x = foreign.DenseThatLearns(4, 3), normal(4, 5)
    before = {p.path: p.value.copy() for p in places(layer)}, x.copy()
    check_layer(layer, x)
    assert {p.path for p in places(layer)} == set(before[0])
    assert all(np.array_equal(p.value, before[0][p.path]) for p in places(layer))
    assert np.array_equal(x, before[1])


# ---- wrong layers --------------------------------------------------------------------------------


def variant(cls, **methods):
    return type(f"Wrong{cls.__name__}", (cls,), methods)


def without_gain(self, dout):
    n = dout.shape[0]
    self.dbeta, self.dgamma = dout.sum(axis=0), (dout * self.xhat).sum(axis=0)
    dxhat = dout
    return (n * dxhat - dxhat.sum(axis=0) - self.xhat * (dxhat * self.xhat).sum(axis=0)) / (n * self.std)


def last_only(self, dout):
    (dW,) = self.grads
    dW[...] = 0
    dW[self.idx] = dout


def bias_forgotten(self, dout):
    self.grads[0][...] = np.dot(self.x.T, dout)
    return np.dot(dout, self.params[0].T)


def no_mean(self, dout=1):
    return foreign.SoftmaxWithLoss.backward(self, dout) * len(self.t)


def step_of_the_wrong_sign(self, output_gradient, learning_rate):
    input_gradient = np.dot(self.weights.T, output_gradient)
    self.weights += learning_rate * np.dot(output_gradient, self.input.T)
    self.bias -= learning_rate * np.sum(output_gradient, axis=1, keepdims=True)
    return input_gradient


WRONG = {
    "a gain left out": (variant(foreign.BatchNorm, backward=without_gain)(4), [normal(6, 4)],
                        "`dxhat` should be the gradient of xhat"),
    "+= loses repeated numbers": (variant(foreign.Embedding, backward=last_only)(6, 3),
                                  [np.array([[0, 2, 2], [5, 1, 0]])], r"respect to params\[0\]: WRONG"),
    "a gradient never computed": (variant(foreign.AffineWithLists, backward=bias_forgotten)(4, 3), [normal(5, 4)],
                                  r"params\[1\]: WRONG(.|\n)*all zeros"),
    "a sum for a mean": (variant(foreign.SoftmaxWithLoss, backward=no_mean)(), [normal(5, 4), CLASSES],
                         r"times 5, the size of axis 0 of x"),
    "a step of the wrong sign": (variant(foreign.DenseThatLearns, backward=step_of_the_wrong_sign)(4, 3),
                                 [normal(4, 5)], "weights: WRONG(.|\n)*the sign is wrong"),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "inputs", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_layer_is_caught(layer, inputs, says):
    with pytest.raises(AdjointMismatch, match=says):
        check_layer(layer, *inputs)


def test_gradients_under_unusual_names():
    class Odd:
        def __init__(self):
            self.matrix = normal(4, 3)

        def run(self, x):
            self.x = x
            return x @ self.matrix

        def unrun(self, g):
            self.update = self.x.T @ g
            return g @ self.matrix.T

    with pytest.raises(MinigradError, match=r"Odd has no forward method: wanted one of forward, __call__"):
        check_layer(Odd(), normal(5, 4))
    report = check_layer(Odd(), normal(5, 4), forward="run", backward="unrun", gradients={"matrix": "update"})
    assert [c.name for c in report.comparisons] == ["matrix", "x"]


def test_what_has_no_gradient_is_said():
    class Shifted:
        def __init__(self):
            self.shift = normal(4)

        def forward(self, x):
            return x + self.shift

        def backward(self, g):
            return g.copy()

    report = check_layer(Shifted(), normal(5, 4))
    assert report.verdict == "right, but not checked for shift"


def test_a_value_that_is_lost_on_the_way_is_noticed():
    """np.float64() in the middle cuts the graph: the measurement disagrees, and is then the reference."""

    class Scaled:
        def forward(self, x):
            self.x = x
            self.scale = np.float64(np.max(np.abs(x)))
            return x / self.scale

        def __init__(self, right):
            self.right = right

        def backward(self, g):
            dx = g / self.scale
            if self.right:
                top = np.unravel_index(np.argmax(np.abs(self.x)), self.x.shape)
                dx[top] -= np.sign(self.x[top]) * np.sum(g * self.x) / self.scale**2
            return dx

    report = check_layer(Scaled(True), normal(3, 4))
    assert "disagrees with what was measured" in report.reference
    assert any("a Tensor was turned into a number at" in n and "self.scale = np.float" in n for n in report.notes)
    with pytest.raises(AdjointMismatch):
        check_layer(Scaled(False), normal(3, 4))


def test_a_plain_array_that_cannot_carry_a_gradient():
    table = np.zeros((2, 3))

    def forward(x):
        table[0] = x
        return table * 2, None

    report = check_layer((forward, lambda g, cache: 2 * g[0]), normal(3))
    assert "it cannot be traced (CutGraphError: a Tensor was assigned into a plain array" in report.reference


# ---- the context ---------------------------------------------------------------------------------


def tape_of(f):
    """Call f(tape, tensor) while a differentiation runs."""
    found = []

    def function(x):
        found.append(f(x._tape, x))
        return x

    minigrad.vjp(function, np.arange(3.0))
    return found[0]


def scope():
    return {name: value for name, value in globals().items() if name in ("np", "math", "sys")}


def test_numpy_itself_is_not_changed_and_modules_are_restored():
    before = dict(vars(np)), dict(vars(math)), dict(vars(foreign)), scope()

    def inside(tape, t):
        with answering(tape, [foreign.DenseThatLearns]):
            assert foreign.np is not np
            assert foreign.zeros is not np.zeros
            assert dict(vars(np)) == before[0]
            made = foreign.np.zeros(3), foreign.np.asarray(t), foreign.zeros((2, 2)), np.random.default_rng(0).random(3)
        assert isinstance(made[0], minigrad.Tensor) and made[1] is t and isinstance(made[2], minigrad.Tensor)
        assert type(made[3]) is np.ndarray

    tape_of(inside)
    assert (dict(vars(np)), dict(vars(math)), dict(vars(foreign)), scope()) == before


def test_modules_are_restored_when_a_layer_raises():
    def broken(x):
        raise ValueError("no")

    before = dict(vars(foreign)), scope()
    with pytest.raises(MinigradError, match="raised ValueError: no"):
        check_layer((broken, lambda g, cache: g), normal(3))

    def inside(tape, t):
        with pytest.raises(ZeroDivisionError), answering(tape, [foreign.Softmax]):
            raise ZeroDivisionError

    tape_of(inside)
    assert (dict(vars(foreign)), scope()) == before


def test_other_threads_get_plain_arrays():
    def inside(tape, t):
        kinds = []
        with answering(tape, [foreign.Softmax]):

            def other():
                made = foreign.np.zeros(3), foreign.np.asarray([1.0]), foreign.math.sqrt(4.0)
                kinds.extend(type(x) for x in made)
                kinds.append(isinstance(t, foreign.np.ndarray))

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            assert isinstance(foreign.np.zeros(3), minigrad.Tensor)
            assert isinstance(t, foreign.np.ndarray)
        return kinds

    assert tape_of(inside) == [np.ndarray, np.ndarray, float, False]


def test_numbers_are_remembered_only_in_the_context():
    def inside(tape, t):
        with answering(tape, []) as seen:
            total = np.sum(t)
            number = float(total)
            assert number == 3.0
            assert seen.tensor_of(number)._slot == total._slot
            assert seen.tensor_of(3.5) == 3.5
        with pytest.raises(CutGraphError, match=r"converted by float\(\)"):
            float(total)

    tape_of(inside)
    assert "foreign_layers" in sys.modules


def doubled(x):
    return 2 * x, (x,)


def doubled_backward(dout, cache):
    return 2 * dout


def test_a_backward_function_beside_its_forward_function_is_refused_with_the_call_that_was_meant():
    x = np.ones((2, 3))
    fix = re.escape("check_layer((doubled, doubled_backward), *inputs)")
    with pytest.raises(MinigradError, match=fix):
        check_layer(doubled, x, backward=doubled_backward)
    with pytest.raises(MinigradError, match=fix):
        check_layer(doubled, doubled_backward, x)
    with pytest.raises(MinigradError, match=r"one number first, got an array of shape \(2, 3\)\n  fix .*\(doubled, "):
        check_layer(doubled, x)
    assert check_layer((doubled, doubled_backward), x).right


def test_a_check_can_be_profiled():
    profile = cProfile.Profile()
    profile.enable()
    try:
        check_layer((doubled, doubled_backward), np.ones((2, 3)))
    finally:
        profile.disable()
    assert doubled_backward.__code__ in {entry.code for entry in profile.getstats()}


class Accumulating:
    def __init__(self):
        rng = np.random.default_rng(3)
        self.W, self.b = rng.standard_normal((3, 2)), rng.standard_normal(2)
        self.dW = np.zeros((3, 2))

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, g):
        self.dW += self.x.T @ g
        self.db = g.sum(axis=0)
        return g @ self.W.T


def test_that_a_gradient_is_added_to_what_was_there_is_remarked_on():
    report = check_layer(Accumulating(), np.random.default_rng(4).standard_normal((5, 3)))
    notes = [note for note in report.notes if "added to what was there" in note]
    assert report.right and len(notes) == 1 and notes[0].startswith("the gradient of W is added")
