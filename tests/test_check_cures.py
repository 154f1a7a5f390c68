"""Wrong lines that are mended by another attribute, or by writing to a part in another way."""

import linecache

import numpy as np
import pytest

from minigrad.check import check_adjoint, check_layer
from minigrad.check.edits import Source
from minigrad.errors import AdjointMismatch
from samples import generator


def normal(*shape):
    return generator(f"cures {shape}").normal(size=shape).round(2)


class Windows:
    """Sums of products over windows of three: a convolution by its columns."""

    def __init__(self):
        self.W = normal(3, 2)

    def forward(self, x):
        self.shape = x.shape
        self.columns = np.stack([x[:, i : i + x.shape[1] - 2] for i in range(3)], axis=-1)
        return self.columns @ self.W

    def backward(self, dout):
        self.dW = np.einsum("ntk,ntd->kd", self.columns, dout)
        dcolumns = dout @ self.W.T
        dx = np.zeros(self.shape)
        for i in range(3):
            dx[:, i : i + dout.shape[1]] = dcolumns[..., i]  # wrong: windows overlap
        return dx


class Rows:
    def __init__(self):
        self.W = normal(5, 3)

    def forward(self, ids):
        self.ids = ids
        return self.W[ids]

    def backward(self, dout):
        self.dW = np.zeros_like(self.W)
        self.dW[self.ids] += dout  # wrong: ids repeat


class RowsAssigned(Rows):
    def backward(self, dout):
        self.dW = np.zeros_like(self.W)
        self.dW[self.ids] = dout  # wrong: ids repeat


class Two:
    def __init__(self):
        self.A, self.B = normal(4, 4), normal(4, 4) + 1

    def forward(self, x):
        self.x, self.h = x, np.tanh(x @ self.A)
        return self.h @ self.B

    def backward(self, dout):
        self.dB = self.h.T @ dout
        dh = dout @ self.A.T  # wrong: of the other layer
        dz = dh * (1 - self.h**2)
        self.dA = self.x.T @ dz
        return dz @ self.A.T


class Recurrent:
    """Of variables that lead to each other in a loop the first that is wrong is named."""

    def __init__(self):
        self.W, self.U = normal(3, 4), normal(4, 4)

    def forward(self, x):
        self.x, self.hs = x, [np.zeros((len(x), 4))]
        for t in range(x.shape[1]):
            self.hs.append(np.tanh(x[:, t] @ self.W + self.hs[-1] @ self.U))
        return np.stack(self.hs[1:], axis=1)

    def backward(self, dout):
        self.dW, self.dU = np.zeros_like(self.W), np.zeros_like(self.U)
        dx, dh_next = np.zeros_like(self.x), np.zeros_like(self.hs[0])
        for t in reversed(range(dout.shape[1])):
            da = dout[:, t] * (1 - self.hs[t + 1] ** 2)  # wrong: without dh_next
            self.dW += self.x[:, t].T @ da
            self.dU += self.hs[t].T @ da
            dx[:, t] = da @ self.W.T
            dh_next = da @ self.U.T  # noqa: F841 - it is forgotten above: that is what is wrong
        return dx


@pytest.mark.parametrize(("layer", "x", "cure"), [
    (Windows(), normal(2, 6), "`dx[:, i:i + dout.shape[1]] += dcolumns[..., i]` in place of"),
    (Rows(), np.array([1, 1, 0]), "`np.add.at(self.dW, self.ids, dout)` in place of `self.dW[self.ids] += dout`"),
    (RowsAssigned(), np.array([1, 1, 0]), "`np.add.at(self.dW, self.ids, dout)` in place of"),
    (Two(), normal(3, 4), "`self.B` in place of `self.A`"),
    (Recurrent(), normal(2, 3, 3), "`dout[:, t] + dh_next` in place of `dout[:, t]`"),
], ids=lambda x: type(x).__name__)  # fmt: skip
def test_the_line_is_named_with_its_cure(layer, x, cure):
    with pytest.raises(AdjointMismatch) as caught:
        check_layer(layer, x)
    found = caught.value.report.culprit
    with open(__file__, encoding="utf-8") as file:
        line = file.readlines()[found.line.line - 1]
    assert "# wrong" in line
    assert found.confirmed and found.cure.startswith(cure)


class Branches:
    """Two branches that are added; the gradient of one is forgotten, and no small edit puts it back."""

    def __init__(self):
        self.A, self.B = normal(4, 4), normal(4, 4) + 1

    def forward(self, x):
        self.x = x
        self.left, self.right = np.tanh(x @ self.A), np.tanh(x @ self.B)
        return self.left * self.right

    def backward(self, dout):
        dleft, dright = dout * self.right, dout * self.left
        da, db = dleft * (1 - self.left**2), dright * (1 - self.right**2)
        self.dA, self.dB = self.x.T @ da, self.x.T @ db
        return da @ self.A.T


def test_a_forgotten_term_is_looked_for_where_the_gradient_is_returned():
    with pytest.raises(AdjointMismatch) as caught:
        check_layer(Branches(), normal(3, 4))
    found = caught.value.report.culprit
    with open(__file__, encoding="utf-8") as file:
        assert file.readlines()[found.line.line - 1].strip() == "return da @ self.A.T"


def rnn(x, h0, W):
    h, hs = h0, []
    for t in range(x.shape[0]):
        h = np.tanh(x[t] + h @ W)
        hs.append(h)
    return np.stack(hs), (x, h0, W, hs)


def rnn_backward_of_the_end(dhs, cache):
    x, h0, W, hs = cache
    dx, dW, dh = np.zeros_like(x), np.zeros_like(W), np.zeros_like(h0)
    for t in reversed(range(x.shape[0])):
        da = (dhs[t] + dh) * (1 - hs[t] ** 2)
        before = hs[t - 1]  # wrong: the first is hs[-1]
        dx[t] = da
        dW += before.T @ da
        dh = da @ W.T
    return dx, dh, dW


def rnn_backward_of_another_state(dhs, cache):
    x, h0, W, hs = cache
    dx, dW, dh = np.zeros_like(x), np.zeros_like(W), np.zeros_like(h0)
    for t in reversed(range(x.shape[0])):
        da = (dhs[t] + dh) * (1 - hs[t] ** 2)
        before = np.cos(hs[t - 1]) if t else 2 * h0  # wrong in two ways
        dx[t] = da
        dW += before.T @ da
        dh = da @ W.T
    return dx, dh, dW


def test_what_a_loop_had_on_its_turn_before_or_began_with_is_tried():
    with pytest.raises(AdjointMismatch) as caught:
        check_layer((rnn, rnn_backward_of_the_end), normal(3, 2, 4), normal(2, 4), normal(4, 4))
    assert caught.value.report.culprit.cure == "`hs[t - 1] if t else h0` in place of `hs[t - 1]`"


def test_that_a_gradient_is_right_once_it_is_right_is_no_evidence():
    with pytest.raises(AdjointMismatch) as caught:
        check_layer((rnn, rnn_backward_of_another_state), normal(3, 2, 4), normal(2, 4), normal(4, 4))
    culprit = caught.value.report.culprit
    assert culprit.variable == "dW" and not culprit.confirmed
    assert "as a suspicion" in str(culprit) and "once it is" not in str(culprit)


RECURRENT = """
def backward(dhs, cache):
    x, h0, W, hs = cache
    dx, dW, dh = np.zeros_like(x), np.zeros_like(W), np.zeros_like(h0)
    for t in reversed(range(x.shape[0])):
        da = (dhs[t] + dh) * (1 - hs[t] ** 2)
        before = hs[t - 1] if t else h0
        dx[t] = da
        dW += before.T @ da
        dh = da @ W.T
    return dx, dh, dW
"""


def compiled(source, name):
    """Return a function from its source, which can be looked up as if it were in a file."""
    file = f"/a/file/of/{name}.py"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    scope = {"np": np}
    exec(compile(source, file, "exec"), scope)
    return scope["backward"]


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        ("(1 - hs[t] ** 2)", "(1 - hs[t])", 6),
        ("(dhs[t] + dh) * (1 - hs[t] ** 2)", "dhs[t] * (1 - hs[t] ** 2) + dh", 6),
        ("reversed(range(x.shape[0]))", "range(x.shape[0])", 5),
        ("dW += before", "dW = before", 9),
        ("dh = da @", "dh = dh + da @", 10),
    ],
)
def test_the_line_of_a_loop_is_named(right, wrong, line):
    assert right in RECURRENT
    backward = compiled(RECURRENT.replace(right, wrong), wrong)
    with pytest.raises(AdjointMismatch) as caught:
        check_layer((rnn, backward), normal(3, 2, 4), normal(2, 4), normal(4, 4))
    culprit = caught.value.report.culprit
    assert culprit.confirmed and culprit.line.line == line


def test_a_line_of_a_loop_that_no_edit_mends_is_suspected_where_its_first_turn_is_wrong(monkeypatch):
    monkeypatch.setattr(Source, "edits", lambda self, line, cost: iter(()))
    wrong = RECURRENT.replace("(dhs[t] + dh) * (1 - hs[t] ** 2)", "(2 * dhs[t] + dh) * (1 - np.cos(hs[t]))")
    with pytest.raises(AdjointMismatch) as caught:
        check_layer((rnn, compiled(wrong, "two mistakes")), normal(3, 2, 4), normal(2, 4), normal(4, 4))
    culprit = caught.value.report.culprit
    assert not culprit.confirmed and (culprit.variable, culprit.line.line) == ("da", 6)


def shifted(x):
    return x[1:] * x[:-1]


def shifted_adjoint(g, x):
    dx = np.zeros_like(x)
    dx[1:] += g * x[:-1]
    dx[:-1] += g * x[:-1]  # wrong
    return dx


def test_another_slice_is_tried():
    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(shifted, shifted_adjoint, normal(5))
    culprit = caught.value.report.culprit
    assert culprit.cure == "`1:` in place of `:-1`" and culprit.line.text == "dx[:-1] += g * x[:-1]  # wrong"


def two_products(x, w, v):
    return (x @ w) @ v


def two_products_adjoint(g, x, w, v):
    h = x @ w
    dv = h.T @ g
    dh = np.cos(g) @ np.sin(v.T)  # wrong in two ways, and with it two gradients of three
    dw = x.T @ dh
    dx = dh @ w.T
    return dx, dw, dv


def test_no_edit_is_tried_twice_nor_of_a_line_that_not_all_that_is_wrong_depends_on(monkeypatch):
    tried, edits = [], Source.edits

    def noted(source, line, cost):
        tried.append((linecache.getline(__file__, line).split("=")[0].strip(), cost))
        return edits(source, line, cost)

    monkeypatch.setattr(Source, "edits", noted)
    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(two_products, two_products_adjoint, normal(3, 4), normal(4, 5), normal(5, 2))
    assert caught.value.report.culprit.variable == "dh"
    assert len(tried) == len(set(tried)) and ("dh", 1) in tried
    assert not {"h", "dv", "dw", "dx"} & {name for name, _ in tried}


def picked(x, i, j):
    return np.tanh(x[:, i, j])


def picked_adjoint(g, x, i, j):
    dx = np.zeros_like(x)
    t = np.tanh(x[:, j, i])
    dx[:, i, j] += g * (1 - t**2)
    return dx


def test_an_index_with_slices_is_shown_in_its_brackets():
    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(picked, picked_adjoint, normal(2, 4, 4), 1, 2)
    assert caught.value.report.culprit.cure == "`[:, i, j]` in place of `[:, j, i]`"
