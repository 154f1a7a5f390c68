"""Parameters whose gradient is missing, misshapen or elsewhere: check_layer says so, and takes none for a constant."""

import re

import numpy as np
import pytest

from minigrad.check import check_layer
from minigrad.errors import AdjointMismatch, MinigradError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4))


class Dense:
    def __init__(self):
        self.W = RNG.normal(size=(4, 3))
        self.b = RNG.normal(size=3)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, g):
        self.gradients(g)
        return g @ self.W.T

    def gradients(self, g):
        self.dW = self.x.T @ g
        self.db = g.sum(0)


def helper(x, g):
    return x @ g


class DenseInLists:
    """Whose gradients are in a list that is there from the start."""

    def __init__(self):
        self.params = [RNG.normal(size=(4, 3)), RNG.normal(size=3)]
        self.grads = [None, None]

    def forward(self, x):
        self.x = x
        return x @ self.params[0] + self.params[1]

    def backward(self, g):
        self.grads[0] = self.x.T @ g
        self.grads[1] = self.bias_gradient(g)
        return g @ self.params[0].T


def wrong(layer, *inputs, **options):
    with pytest.raises(AdjointMismatch) as caught:
        check_layer(layer, *inputs, **options)
    return caught.value.report


def with_backward(backward, base=Dense):
    return type("Changed", (base,), {"backward": backward})()


def of_another_orientation(self, g):
    self.dW = g.T @ self.x
    self.db = g.sum(0)
    return g @ self.W.T


def summed_too_far(self, g):
    self.dW = self.x.T @ g
    self.db = g.sum()
    return g @ self.W.T


def axes_left_over(self, g):
    self.dW = self.x.T @ g
    self.db = g.sum(0, keepdims=True)
    return g @ self.W.T


def not_summed(self, g):
    self.dW = self.x.T @ g
    self.db = 1.0 * g
    return g @ self.W.T


def in_a_dictionary(self, g):
    self.grads = {"W": self.x.T @ g, "b": g.sum()}
    return g @ self.W.T


MISSHAPEN = {
    of_another_orientation: (r"W: WRONG, got shape \(3, 4\), expected shape \(4, 3\)\n.*transposed", "self.dW = g.T"),
    summed_too_far: (r"b: WRONG, got shape \(\), expected shape \(3,\)\n.*summed over axes \(0,\) once too", "self.db"),
    axes_left_over: (r"b: WRONG, got shape \(1, 3\), .*\n.*axes of size 1 are left over", "self.db = g.sum(0, keep"),
    not_summed: (r"b: WRONG, got shape \(5, 3\), .*\n.*a sum over axes \(0,\) is missing", "self.db = 1.0 * g"),
    in_a_dictionary: (r"b: WRONG, got shape \(\), expected shape \(3,\)", "self.grads = {"),
}


@pytest.mark.parametrize(("backward", "says"), MISSHAPEN.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_a_gradient_of_the_wrong_shape_is_wrong_and_its_line_is_named(backward, says):
    report = wrong(with_backward(backward), X)
    assert re.search(says[0], str(report))
    assert report.culprit.confirmed
    assert says[1] in report.culprit.line.text


def test_an_element_of_a_list_of_gradients_is_held_to_its_parameter():
    layer = type("Lists", (DenseInLists,), {"bias_gradient": lambda self, g: g.sum()})()
    report = wrong(layer, X)
    assert re.search(r"params\[1\]: WRONG, got shape \(\), expected shape \(3,\)", str(report))
    assert report.culprit.variable == "self.grads[1]"
    right = type("Lists", (DenseInLists,), {"bias_gradient": lambda self, g: g.sum(0)})()
    assert check_layer(right, X).verdict == "right"


def test_a_gradient_that_is_none_is_wrong():
    def backward(self, g):
        self.dW = self.x.T @ g
        self.db = None
        return g @ self.W.T

    report = wrong(with_backward(backward), X)
    assert "b: WRONG, got None, expected shape (3,)\n      self.db is None after Changed.backward" in str(report)
    assert report.culprit is None, "no line is to blame for what is not there"


def test_a_forgotten_gradient_is_wrong():
    def backward(self, g):
        self.dW = self.x.T @ g
        return g @ self.W.T

    text = str(wrong(with_backward(backward), X))
    assert "leaves no gradient of b that could be found (such as `self.db`)" in text
    assert "gradients={'b': '...'}" in text and "constants=['b']" in text
    assert check_layer(with_backward(backward), X, constants=["b"]).verdict == "right"


def test_a_gradient_that_stays_zero_has_no_line():
    class Accumulating(Dense):
        def __init__(self):
            super().__init__()
            self.dW, self.db = np.zeros((4, 3)), np.zeros(3)

        def backward(self, g):
            self.dW += self.x.T @ g
            return g @ self.W.T

    report = wrong(Accumulating(), X)
    assert "all zeros: this gradient is not computed" in str(report)
    assert report.culprit is None


def test_gradients_that_are_returned_are_found():
    def tuple_of_all(self, g):
        return g @ self.W.T, self.x.T @ g, g.sum(0)

    def by_name(self, g):
        return g @ self.W.T, {"dW": self.x.T @ g, "db": g.sum(0)}

    for backward in (tuple_of_all, by_name):
        assert sorted(c.name for c in check_layer(with_backward(backward), X).comparisons) == ["W", "b", "x"]
    text = str(wrong(with_backward(lambda self, g: (g @ self.W.T, self.x.T @ g, g.sum())), X))
    assert "b: WRONG, got shape (), expected shape (3,)" in text


class WithConstant(Dense):
    def __init__(self):
        super().__init__()
        self.offset = RNG.normal(size=3)
        self.unused = RNG.normal(size=3)

    def forward(self, x):
        return super().forward(x) * self.offset

    def backward(self, g):
        return super().backward(g * self.offset)


def test_an_array_without_a_gradient_is_asked_about_in_the_first_lines():
    report = check_layer(WithConstant(), X)
    first, second, third = str(report).splitlines()[:3]
    assert first.endswith(": right, but not checked for offset")
    assert "no gradient found for offset, on which the result depends" in second
    assert "constants=['offset']" in third and "gradients={'offset': '...'}" in third
    assert report.as_dict()["not_checked"] == ["offset"]
    assert check_layer(WithConstant(), X, constants=["offset"]).verdict == "right"
    with pytest.raises(MinigradError, match=r"no float array at 'ofset'; it has W, b, offset"):
        check_layer(WithConstant(), X, constants=["ofset"])


def test_what_the_forward_pass_replaces_is_no_parameter():
    class Averaging:
        def __init__(self):
            self.gamma = np.full(4, 2.0)
            self.running = np.linspace(0.1, 0.4, 4)

        def forward(self, x):
            self.running = 0.9 * self.running + 0.1 * np.mean(x, axis=0)
            self.x = x
            return (x - self.running) * self.gamma

        def backward(self, g):
            self.dgamma = np.sum(g * (self.x - self.running), axis=0)
            dx = g * self.gamma
            return dx - 0.1 * dx.mean(0)

    report = check_layer(Averaging(), X)
    assert report.verdict == "right"
    assert report.notes == ["taken as constants, as states and running statistics are: running"]


def test_running_statistics_are_no_parameters_where_they_are_only_used():
    class Evaluated:
        def __init__(self):
            self.gamma, self.running_mean = np.full(4, 2.0), np.linspace(0.1, 0.4, 4)

        def forward(self, x):
            self.x = x
            return (x - self.running_mean) * self.gamma

        def backward(this, g):
            this.dgamma = np.sum(g * (this.x - this.running_mean), axis=0)
            return g * this.gamma

    report = check_layer(Evaluated(), X)
    assert report.verdict == "right"
    assert report.notes == ["taken as constants, as states and running statistics are: running_mean"]


def test_an_attribute_is_found_whatever_the_layer_calls_itself():
    class Listed(DenseInLists):
        def backward(s, g):
            s.grads[0], s.grads[1] = s.x.T @ g, g.mean(0)
            return g @ s.params[0].T

    assert wrong(Listed(), X).culprit.variable == "s.grads[1]"


# ---- the line ------------------------------------------------------------------------------------


def test_the_line_of_an_attribute_is_named_not_the_one_after():
    def divided(self, g):
        self.dW = self.x.T @ g / len(g)
        self.db = g.sum(0)
        return g @ self.W.T

    def mean(self, g):
        self.dW = self.x.T @ g
        self.db = g.mean(0)
        return g @ self.W.T

    for backward, text in ((divided, "self.dW = self.x.T @ g / len(g)"), (mean, "self.db = g.mean(0)")):
        report = wrong(with_backward(backward), X)
        assert report.culprit.line.text == text
        assert report.culprit.confirmed


# ---- what is raised ------------------------------------------------------------------------------


def test_what_a_backward_pass_raises_is_a_report_with_the_line():
    def backward(self, g):
        self.dW = self.x @ g
        return g @ self.W.T

    report = wrong(with_backward(backward), X)
    assert "Changed.backward raised ValueError: matmul" in str(report)
    assert report.culprit.line.text == "self.dW = self.x @ g"
    assert ">" in report.neighbours() and "self.dW = self.x @ g" in report.neighbours()
    assert "self.dW = self.x @ g" in report.html()
    assert "return x @ self.W + self.b" in report.html(), "the forward pass is shown as well"


def test_a_line_of_a_function_that_is_called_has_its_own_neighbours():
    def backward(self, g):
        self.dW = helper(self.x, g)
        return g @ self.W.T

    report = wrong(with_backward(backward), X)
    assert report.culprit.line.text == "return x @ g"
    before, marked = report.neighbours().splitlines()[1:3]
    assert before.endswith("def helper(x, g):")
    assert marked.startswith(">") and marked.endswith("    return x @ g")
    assert 'class="bad"' not in report.html(), "no line of the backward pass is marked"
    assert "&gt;" in report.html() and "def helper(x, g):" in report.html()


def test_what_a_forward_pass_raises_is_an_error_with_the_line():
    class Broken(Dense):
        def forward(self, x):
            return x @ self.W.T

    with pytest.raises(MinigradError, match=r"Broken\.forward raised ValueError: matmul") as caught:
        check_layer(Broken(), X)
    assert "return x @ self.W.T\n  given  float64 (5, 4)" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_class_is_no_layer():
    with pytest.raises(MinigradError, match=r"the class Dense, not a layer(.|\n)*check_layer\(Dense\(\.\.\.\), x\)"):
        check_layer(Dense, X)
