"""Other shapes: axes that belong together change together, arrays stay what they are, and accidents are no verdicts."""

import warnings

import numpy as np
import pytest

from minigrad.check import check_adjoint, check_layer
from minigrad.check.resizing import reindexed, resized
from minigrad.check.subject import Subject
from minigrad.check.variations import variations
from minigrad.errors import AdjointMismatch

RNG = np.random.default_rng(3)
LABELS = np.array([0, 3, 1, 2, 2])
Z = RNG.normal(size=(5, 4))


def softmax(z):
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def by_labels(z, y):
    """Runs by accident if z alone is longer: the rows that were added are not looked at."""
    return -np.mean(np.log(softmax(z)[np.arange(len(y)), y]))


def by_labels_adjoint(g, z, y):
    dz = softmax(z)
    dz[np.arange(len(y)), y] -= 1
    return g * dz / len(z)


def by_one_hot(z, y):
    return -np.sum(y * np.log(softmax(z))) / len(z)


def by_one_hot_adjoint(g, z, y):
    """Right only where the rows of y sum to one."""
    return g * (softmax(z) - y) / len(z)


def in_a_loop(z, y):
    return sum(-np.log(softmax(row[None])[0, label]) for row, label in zip(z, y, strict=False)) / len(y)


def mean_squared(x, y):
    return np.mean((x - y) ** 2)


def mean_squared_adjoint(g, x, y):
    dx = 2 * g * (x - y) / x.size
    return dx, -dx


def affine(x, w, b):
    return x @ w + b


def affine_adjoint(g, x, w, b):
    return g @ w.T, x.T @ g, np.sum(g, axis=0, keepdims=b.ndim > 1)


def normal(*shape):
    return RNG.normal(size=shape)


def nothing(x, y):
    return 0.0 * x * y


def nothing_adjoint(g, x, y):
    return 0.0 * g * y


RIGHT = {
    "a result that depends on nothing": (nothing, nothing_adjoint, normal(3, 4), normal(3, 4)),
    "labels": (by_labels, by_labels_adjoint, Z, LABELS),
    "as many labels as classes": (by_labels, by_labels_adjoint, Z[:4], LABELS[:4]),
    "one label": (by_labels, by_labels_adjoint, Z[:1], LABELS[:1]),
    "one class in all rows": (by_labels, by_labels_adjoint, Z, np.ones_like(LABELS)),
    "one-hot rows": (by_one_hot, by_one_hot_adjoint, Z, np.eye(4)[LABELS]),
    "rows of probabilities": (by_one_hot, by_one_hot_adjoint, Z, softmax(normal(5, 4))),
    "a loop over the shorter": (in_a_loop, by_labels_adjoint, Z, LABELS),
    "two inputs of one shape": (mean_squared, mean_squared_adjoint, normal(4, 4), normal(4, 4)),
    "two inputs of one row": (mean_squared, mean_squared_adjoint, normal(1, 4), normal(1, 4)),
    "one row, and a bias that is one": (affine, affine_adjoint, normal(1, 4), normal(4, 3), normal(1, 3)),
    "as many rows as columns": (affine, affine_adjoint, normal(3, 3), normal(3, 3), normal(3)),
}  # fmt: skip


@pytest.mark.parametrize(("forward", "adjoint", "args"), [(f, a, x) for f, a, *x in RIGHT.values()], ids=RIGHT)
def test_a_right_adjoint_is_right_in_other_shapes(forward, adjoint, args):
    argnums = None if adjoint in (mean_squared_adjoint, affine_adjoint) else [0]
    report = check_adjoint(forward, adjoint, *args, argnums=argnums)
    assert len(report.variations) >= 4, "it was tried in other shapes"
    assert report.verdict == "right"
    assert report.culprit is None


def test_a_loss_layer_with_labels():
    class SoftmaxLoss:
        def forward(self, z, y):
            self.p, self.y = softmax(z), y
            return -np.mean(np.log(self.p[np.arange(len(y)), y]))

        def backward(self):
            dz = self.p.copy()
            dz[np.arange(len(self.y)), self.y] -= 1
            return dz / len(self.y)

    assert len(check_layer(SoftmaxLoss(), Z, LABELS).variations) >= 4


def normalised(x):
    return x / np.sum(x * x, axis=1, keepdims=True)


def normalised_adjoint(g, x, keep=True):
    s = np.sum(x * x, axis=1, keepdims=True)
    inner = np.sum(g * x, axis=1, keepdims=True)
    return g / s - 2 * x * inner / (s * s)


def scaled_rows(x, s):
    return x * s[:, None]


def scaled_rows_adjoint(g, x, s):
    """Right where there are as many rows as columns only, for there it is made so that nothing raises."""
    along = s[:, None] if x.shape[0] == x.shape[1] else np.resize(s, x.shape[1])
    return g * along, np.sum(g * x, axis=1)


def test_what_is_right_for_a_square_only_is_wrong():
    with pytest.raises(AdjointMismatch, match=r"right with axis \d of x longer: (.|\n)*respect to x: WRONG"):
        check_adjoint(scaled_rows, scaled_rows_adjoint, normal(4, 4), normal(4))


def test_what_is_right_for_one_row_only_is_wrong():
    def first_row(g, x, w, b):
        return g @ w.T, x.T @ g, g[0].copy()

    with pytest.raises(AdjointMismatch, match=r"right with axis 0 of x longer: (.|\n)*respect to b: WRONG") as caught:
        check_adjoint(affine, first_row, normal(1, 4), normal(4, 3), normal(3))
    assert "g[0].copy()" in caught.value.report.culprit.line.text


def filtered(x, kernel):
    out = np.zeros_like(x)
    padded = np.pad(x, [(len(kernel) - 1, 0), (0, 0)])
    for k in range(len(kernel)):
        out = out + kernel[k] * padded[len(kernel) - 1 - k : len(kernel) - 1 - k + len(x)]
    return out


def filtered_adjoint(g, x, kernel):
    K, T = len(kernel), len(x)
    dx, dkernel = np.zeros_like(x), np.zeros_like(kernel)
    for k in range(K):
        dx[: T - k] += kernel[k] * g[k:]
        dkernel[k] = np.sum(g[k:] * x[: T - k], axis=0)
    return dx, dkernel


def test_what_raises_in_another_shape_is_named_with_the_shape_and_no_edit_that_breaks_the_example():
    with pytest.raises(AdjointMismatch) as caught:
        check_adjoint(filtered, filtered_adjoint, normal(5, 4), normal(3, 4))
    text, culprit = str(caught.value), caught.value.report.culprit
    assert text.startswith("filtered_adjoint, the adjoint of filtered: WRONG in another shape\n")
    assert "everything is right" not in text and culprit.line.text == "dx[: T - k] += kernel[k] * g[k:]"
    assert "tried with x (5, 4), kernel (7, 4)" in text


def test_other_shapes_can_be_left_out():
    report = check_adjoint(scaled_rows, scaled_rows_adjoint, normal(4, 4), normal(4), other_shapes=False)
    assert report.verdict == "right"
    assert report.variations == []


def test_axes_that_belong_together_change_together():
    subject = Subject.of(by_labels, by_labels_adjoint, [Z, LABELS], None, [0])
    shapes = {v.label: [x.shape for x in v.subjects[0].args] for v in variations(subject)}
    assert shapes["with axis 0 of z longer"] == [(7, 4), (7,)]
    assert shapes["with axis 1 of z longer"] == [(5, 6), (5,)]
    assert shapes["with axis 1 of z of size 1"] == [(5, 1), (5,)]
    assert all(np.all(v.subjects[0].args[1] < v.subjects[0].args[0].shape[1]) for v in variations(subject))


# ---- arrays in other shapes ----------------------------------------------------------------------


def test_arrays_stay_what_they_are():
    rng = np.random.default_rng(0)
    for shape in ((7, 4), (5, 6), (5, 2), (1, 4), (3, 3)):
        one_hot = resized(np.eye(4)[LABELS], shape, rng)
        assert one_hot.shape == shape
        assert np.array_equal(np.sum(one_hot == 1, axis=1), np.ones(shape[0])) and set(one_hot.flat) <= {0, 1}
        np.testing.assert_allclose(np.sum(resized(softmax(Z), shape, rng), axis=1), 1, rtol=1e-12)
        mask = (Z > 0).astype(float)
        assert set(resized(mask, shape, rng).flat) <= {0, 1}
    symmetric = Z.T @ Z
    larger = resized(symmetric, (6, 6), rng)
    assert np.array_equal(larger, larger.T)
    plain = resized(Z, (7, 4), rng)
    assert len(np.unique(plain)) == 28, "no two elements are equal"


def test_indices_stay_valid():
    assert np.array_equal(reindexed(LABELS, {4: 2}), LABELS % 2)
    assert np.array_equal(reindexed(LABELS, {5: 2}), LABELS % 2)
    assert np.array_equal(reindexed(LABELS, {3: 2}), LABELS), "they were no indices into 3"
    assert np.array_equal(reindexed(np.array([-1, 3]), {4: 2}), [-1, 3])


def test_what_numpy_says_of_empty_arrays_is_not_passed_on():
    def centred(x):
        return x - np.mean(x, axis=-1, keepdims=True)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        report = check_adjoint(centred, lambda g, x: g - np.mean(g, axis=-1, keepdims=True), normal(3, 4))
    assert "right with axis 1 of x empty" in {c.name for c in report.variations}
    assert [str(w.message) for w in seen] == []
