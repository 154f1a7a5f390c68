"""More layers in the styles of public code: what each does that others do not is in its first line.

As in foreign_layers.py, they know nothing of minigrad; tests/test_check_styles.py checks them as they stand.
"""

import numpy as np
from scipy import signal

# ---- numbers on the way ------------------------------------------------------------------------------------------


def filtered(x, w, b):
    """One step of a loop at a time, the bias turned into a Python number."""
    out = np.full(shape=(len(x) - len(w) + 1,), fill_value=0.0)
    for i in range(len(out)):
        out[i] = float(np.squeeze(np.sum(x[i : i + len(w)] * w))) + float(np.squeeze(b))
    return out, (x, w, b)


def filtered_backward(dout, cache):
    x, w, b = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for i, g in enumerate(dout):
        dw += g * x[i : i + len(w)]
        dx[i : i + len(w)] += g * w
    return dx, dw, np.full_like(b, dout.sum())


class Rescaled:
    """Divides by a number that is taken out of an array, and looks at its type."""

    def forward(self, x):
        scale = np.max(np.abs(x)).item()
        if not isinstance(scale, (int, float)):
            raise TypeError("scale must be a number")
        self.x, self.scale = x, scale
        return np.fromiter((v / scale for _, v in np.ndenumerate(x)), dtype=float).reshape(x.shape)

    def backward(self, g):
        dx = g / self.scale
        top = np.unravel_index(np.argmax(np.abs(self.x)), self.x.shape)
        dx[top] -= np.sign(self.x[top]) * np.sum(g * self.x) / self.scale**2
        return dx


class ScipyConvolution:
    """scipy.signal does the work."""

    def __init__(self, depth, channels, size):
        rng = np.random.default_rng(21)
        self.kernels = rng.standard_normal((depth, channels, size, size))
        self.biases = rng.standard_normal(depth)

    def forward(self, x):
        self.x = x
        out = [
            sum(signal.correlate2d(x[j], self.kernels[i, j], "valid") for j in range(len(x))) + self.biases[i]
            for i in range(len(self.kernels))
        ]
        return np.array(out)

    def backward(self, g):
        self.kernels_grad, dx = np.zeros_like(self.kernels), np.zeros_like(self.x)
        self.biases_grad = g.sum(axis=(1, 2))
        for i in range(len(self.kernels)):
            for j in range(len(self.x)):
                self.kernels_grad[i, j] = signal.correlate2d(self.x[j], g[i], "valid")
                dx[j] += signal.convolve2d(g[i], self.kernels[i, j], "full")
        return dx


# ---- what is handed on -------------------------------------------------------------------------------------------


def cell(xt, h_prev, parameters):
    """Parameters in a dictionary, gradients in another; and a prediction that the backward pass knows nothing of."""
    h_next = np.tanh(parameters["Wx"] @ xt + parameters["Wh"] @ h_prev + parameters["bh"])
    prediction = parameters["Wy"] @ h_next + parameters["by"]
    return h_next, prediction, (h_next, h_prev, xt, parameters)


def cell_backward(dh_next, cache):
    h_next, h_prev, xt, parameters = cache
    da = dh_next * (1 - h_next**2)
    return {
        "dxt": parameters["Wx"].T @ da,
        "dh_prev": parameters["Wh"].T @ da,
        "dWx": da @ xt.T,
        "dWh": da @ h_prev.T,
        "dbh": da.sum(axis=1, keepdims=True),
    }


class LastStates:
    """Two results, of which the second has an incoming gradient: its name says so."""

    def __init__(self, n):
        self.W = 0.5 * np.random.default_rng(22).standard_normal((n, n))

    def forward(self, xs):
        self.states = [np.zeros_like(xs[0])]
        for x in xs:
            self.states.append(np.tanh(x + self.states[-1] @ self.W))
        last, stack = self.states[-1], np.array(self.states[1:])
        return last, stack

    def backward(self, d_stack):
        self.dW, dxs, dh = np.zeros_like(self.W), np.zeros_like(d_stack), 0.0
        for t in reversed(range(len(d_stack))):
            da = (d_stack[t] + dh) * (1 - self.states[t + 1] ** 2)
            self.dW += self.states[t].T @ da
            dxs[t], dh = da, da @ self.W.T
        return dxs


class Product:
    """Takes a list of arrays, and returns a list of gradients."""

    def forward(self, parts):
        self.parts = parts
        out = parts[0].copy()
        for part in parts[1:]:
            out *= part
        return out

    def backward(self, dout):
        return [dout * np.prod([p for j, p in enumerate(self.parts) if j != i], axis=0) for i in range(len(self.parts))]


class HuberLoss:
    """The backward pass is given what the forward pass is given, the labels first."""

    def calculate(self, y_true, y_pred):
        e = np.abs(y_pred - y_true)
        return np.mean(np.where(e < 1, 0.5 * e**2, e - 0.5))

    def backward(self, y_true, y_pred):
        self.derivatives = np.clip(y_pred - y_true, -1, 1) / y_pred.size


def softplus(x):
    return np.logaddexp(0, x)


def softplus_backward(dy, x):
    return dy / (1 + np.exp(-x))


# ---- made late, for one size, or in another precision ------------------------------------------------------------


class LazyDense:
    """Makes its parameters when it first runs, and keeps every input in a list."""

    def __init__(self, units):
        self.units = units
        self.parameters, self.gradients = {"W": None, "b": None}, {}
        self.inputs = []

    def forward(self, x):
        if self.parameters["W"] is None:
            rng = np.random.default_rng(23)
            self.parameters["W"] = rng.standard_normal((x.shape[1], self.units))
            self.parameters["b"] = rng.standard_normal(self.units)
        self.inputs.append(x)
        return x @ self.parameters["W"] + self.parameters["b"]

    def backward(self, g):
        if len(self.inputs) != 1:
            raise ValueError(f"one backward pass for {len(self.inputs)} forward passes")
        (x,) = self.inputs
        self.gradients["W"], self.gradients["b"] = x.T @ g, g.sum(axis=0)
        return g @ self.parameters["W"].T


class RunningMean:
    """Fills a buffer in single precision, forward and backward."""

    def __init__(self, n):
        self.w = np.random.default_rng(24).standard_normal(n)

    def forward(self, xs):
        self.xs = xs
        hs = np.empty(xs.shape, dtype="f")
        hs[0] = xs[0] * self.w
        for t in range(1, len(xs)):
            hs[t] = np.tanh(0.5 * hs[t - 1] + xs[t] * self.w)
        self.hs = hs
        return hs

    def backward(self, dhs):
        self.dw, dxs, dh = np.zeros_like(self.w), np.empty(dhs.shape, dtype="f"), 0
        for t in reversed(range(len(dhs))):
            da = (dhs[t] + dh) * ((1 - self.hs[t] ** 2) if t else 1)
            dxs[t], dh = da * self.w, 0.5 * da
            self.dw += (da * self.xs[t]).sum(axis=0)
        return dxs


class FlattenOf:
    """Knows the shape of its examples beforehand."""

    def __init__(self, shape):
        self.shape = shape

    def forward(self, x):
        return x.reshape(len(x), -1)

    def backward(self, g):
        return g.reshape(len(g), *self.shape)


class LogLoss:
    """The logarithm has an epsilon that the backward pass does not know, and the labels come first."""

    def forward(self, target, scores):
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        self.p, self.target = e / e.sum(axis=1, keepdims=True), target
        return -np.sum(target * np.log(self.p + 1e-7)) / len(target)

    def backward(self):
        return (self.p - self.target) / len(self.target)


class Probabilities:
    """Asserts what it is given."""

    def forward(self, p):
        assert np.min(p) >= 0, "probabilities are not negative"
        self.p = p
        return p * (1 - p)

    def backward(self, g):
        return g * (1 - 2 * self.p)


class Unrolled:
    """Makes a layer for each step when it runs, which share its parameters, and keeps its last state."""

    def __init__(self, n):
        rng = np.random.default_rng(25)
        self.params = [0.5 * rng.standard_normal((n, n)), rng.standard_normal(n)]
        self.grads = [np.zeros_like(p) for p in self.params]
        self.layers, self.h = None, None

    def forward(self, xs):
        self.layers, self.h, hs = [], np.zeros(xs.shape[1:]), np.empty(xs.shape)
        for t, x in enumerate(xs):
            self.layers.append(Step(*self.params))
            self.h = hs[t] = self.layers[-1].forward(x, self.h)
        return hs

    def backward(self, dhs):
        dxs, dh = np.empty_like(dhs), 0
        for grad in self.grads:
            grad[...] = 0
        for t in reversed(range(len(dhs))):
            dxs[t], dh = self.layers[t].backward(dhs[t] + dh)
            for grad, more in zip(self.grads, self.layers[t].grads, strict=True):
                grad += more
        return dxs


class Step:
    def __init__(self, W, b):
        self.params = [W, b]
        self.grads = [np.zeros_like(W), np.zeros_like(b)]

    def forward(self, x, h):
        W, b = self.params
        self.h, self.out = h, np.tanh(x + h @ W + b)
        return self.out

    def backward(self, dout):
        da = dout * (1 - self.out**2)
        self.grads[0][...], self.grads[1][...] = self.h.T @ da, da.sum(axis=0)
        return da, da @ self.params[0].T


class SquaredError:
    """The labels come first, and the prediction is called y."""

    def forward(self, y_true, y):
        self.difference = y - y_true
        return np.sum(self.difference**2, axis=1)

    def backward(self, g):
        return 2 * self.difference * g[:, None]


class Classifier:
    """One method returns the loss and a dictionary of gradients, named as the parameters are."""

    def __init__(self, inputs, hidden, classes):
        rng = np.random.default_rng(0)
        self.params = {
            "W1": rng.normal(size=(inputs, hidden)).round(2), "b1": rng.normal(size=hidden).round(2),
            "W2": rng.normal(size=(hidden, classes)).round(2),
        }  # fmt: skip

    def loss(self, X, y):
        h = np.maximum(0, X @ self.params["W1"] + self.params["b1"])
        scores = h @ self.params["W2"]
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        loss = -np.log(p[rows, y]).mean() + 0.05 * np.sum(self.params["W2"] ** 2)
        p[rows, y] -= 1
        dscores = p / len(y)
        grads = {"W2": h.T @ dscores + 0.1 * self.params["W2"]}
        dh = dscores @ self.params["W2"].T
        dh[h <= 0] = 0
        grads["W1"], grads["b1"] = X.T @ dh, dh.sum(axis=0)
        return loss, grads


class WithoutDecay(Classifier):
    def loss(self, X, y):
        loss, grads = super().loss(X, y)
        grads["W2"] = grads["W2"] - 0.1 * self.params["W2"]
        return loss, grads


class FirstStep:
    """A step of a recurrent layer from a state of zeros: the gradient of one matrix is zero, as it was before."""

    def __init__(self, n, h):
        rng = np.random.default_rng(26)
        shapes = {"Whh": (h, h), "Wxh": (n, h), "bh": (h,)}
        self.gradients = {k: np.zeros(shape) for k, shape in shapes.items()}
        self.parameters = {k: 0.5 * rng.standard_normal(shape) for k, shape in shapes.items()}
        self.h = np.zeros((1, h))

    def forward(self, x):
        self.x, self.before = x, self.h
        self.h = np.tanh(x @ self.parameters["Wxh"] + self.h @ self.parameters["Whh"] + self.parameters["bh"])
        return self.h

    def backward(self, dh):
        da = dh * (1 - self.h**2)
        self.gradients["Wxh"] += self.x.T @ da
        self.gradients["Whh"] += np.repeat(self.before, len(da), axis=0).T @ da
        self.gradients["bh"] += da.sum(axis=0)
        return da @ self.parameters["Wxh"].T


class Gate:
    """Keeps what it computes in attributes, which look like gradients of each other once it has run."""

    def __init__(self, n):
        self.W = np.random.default_rng(27).standard_normal((n, n))

    def forward(self, x):
        self.x = x
        self.gate = 1 / (1 + np.exp(-x @ self.W))
        self.out = x * self.gate
        return self.out

    def backward(self, dout):
        self.dgate = dout * self.x
        self.da = self.dgate * self.gate * (1 - self.gate)
        self.dW = self.x.T @ self.da
        return dout * self.gate + self.da @ self.W.T


class ColumnSoftmax:
    """Takes one column."""

    def forward(self, z):
        e = np.exp(z)
        self.p = e / np.sum(e)
        return self.p

    def backward(self, g):
        return ((np.identity(self.p.size) - self.p.T) * self.p) @ g


def steps(h, W, U):
    """Returns the loss, gradients of all but the first argument, and a state that looks like one of it."""
    last = np.tanh(W @ h)
    out = U @ last
    dlast = (U.T @ out) * (1 - last**2)
    return 0.5 * np.sum(out**2), dlast @ h.T, out @ last.T, last
