"""A layer of somebody's, as it stands: its backward pass forgets the gain, which is all ones when training starts.

So it is right on the first step and wrong on every other. The report names the line, and says what to write there.
"""

import numpy as np

import minigrad.check
from minigrad.errors import AdjointMismatch


class RMSNorm:
    """As many are: parameters and gradients are attributes. Nothing in it knows of minigrad."""

    def __init__(self, d_model, eps=1e-6):
        self.eps = eps
        self.gamma = np.ones(d_model)
        self.grad_gamma = None

    def forward(self, x):
        x = np.asarray(x, dtype=np.float64)
        self.x = x
        self.rms = np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + self.eps)
        self.x_norm = x / self.rms
        return self.gamma * self.x_norm

    def backward(self, grad_output):
        self.grad_gamma = np.sum(grad_output * self.x_norm, axis=tuple(range(grad_output.ndim - 1)))
        grad_x_norm = grad_output
        along = np.mean(grad_x_norm * self.x_norm, axis=-1, keepdims=True)
        return (grad_x_norm - self.x_norm * along) / self.rms


rng = np.random.default_rng(10)
x = rng.normal(size=(2, 3, 8))

# With the gain that it starts with, nothing is wrong: a test at initialisation would pass.
layer = RMSNorm(8)
print(minigrad.check.check_layer(layer, x).title, "at the start: right\n")

# After some training it is.
layer.gamma = rng.uniform(0.5, 1.5, 8)
try:
    minigrad.check.check_layer(layer, x)
except AdjointMismatch as error:
    report = error.report
    print(report)

assert [c.name for c in report.comparisons if not c.right] == ["x"]
assert report.culprit.line.text == "grad_x_norm = grad_output"
assert report.culprit.variable == "grad_x_norm"
assert report.culprit.why == "should be the gradient of x_norm"
assert report.culprit.cure == "`grad_output * self.gamma` in place of `grad_output`"


class Mended(RMSNorm):
    """The same, with the line as the report has it."""

    def backward(self, grad_output):
        self.grad_gamma = np.sum(grad_output * self.x_norm, axis=tuple(range(grad_output.ndim - 1)))
        grad_x_norm = grad_output * self.gamma
        along = np.mean(grad_x_norm * self.x_norm, axis=-1, keepdims=True)
        return (grad_x_norm - self.x_norm * along) / self.rms


layer = Mended(8)
layer.gamma = rng.uniform(0.5, 1.5, 8)
minigrad.check.check_layer(layer, x)
print("\nwith the gain: right")
