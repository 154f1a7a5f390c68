"""Layers in the styles in which people write them by hand: forward and backward in NumPy, knowing nothing of minigrad.

Each is as careless as its style: it fills buffers, converts to arrays, writes in place, keeps what it needs in
attributes. They are traced and checked as they stand, in tests/test_check_foreign.py.
"""

import itertools
import math

import numpy as np
from numpy import zeros

# ---- classes: dense layers, each with another idea of where gradients go -----------------------------------------


class DenseIntoAttributes:
    """Outputs and gradients are attributes; nothing is returned."""

    def __init__(self, n_inputs, n_neurons):
        rng = np.random.default_rng(1)
        self.weights = 0.5 * rng.standard_normal((n_inputs, n_neurons))
        self.biases = np.zeros((1, n_neurons))

    def forward(self, inputs):
        self.inputs = inputs
        self.output = np.dot(inputs, self.weights) + self.biases

    def backward(self, dvalues):
        self.dweights = np.dot(self.inputs.T, dvalues)
        self.dbiases = np.sum(dvalues, axis=0, keepdims=True)
        self.dinputs = np.dot(dvalues, self.weights.T)


class DenseThatLearns:
    """Columns are examples; the backward pass makes a step of gradient descent."""

    def __init__(self, input_size, output_size):
        rng = np.random.default_rng(2)
        self.weights = rng.standard_normal((output_size, input_size))
        self.bias = rng.standard_normal((output_size, 1))

    def forward(self, input):
        self.input = input
        return np.dot(self.weights, self.input) + self.bias

    def backward(self, output_gradient, learning_rate):
        weights_gradient = np.dot(output_gradient, self.input.T)
        input_gradient = np.dot(self.weights.T, output_gradient)
        self.weights -= learning_rate * weights_gradient
        self.bias -= learning_rate * np.sum(output_gradient, axis=1, keepdims=True)
        return input_gradient


class AffineWithLists:
    """Parameters and gradients in two lists, gradients written in place."""

    def __init__(self, n, m):
        rng = np.random.default_rng(3)
        W, b = rng.standard_normal((n, m)), rng.standard_normal(m)
        self.params = [W, b]
        self.grads = [np.zeros_like(W), np.zeros_like(b)]
        self.x = None

    def forward(self, x):
        W, b = self.params
        out = np.dot(x, W) + b
        self.x = x
        return out

    def backward(self, dout):
        W, _ = self.params
        dx = np.dot(dout, W.T)
        self.grads[0][...] = np.dot(self.x.T, dout)
        self.grads[1][...] = np.sum(dout, axis=0)
        return dx


class Param:
    def __init__(self, data):
        self.data = data
        self.grad = np.zeros_like(data)


class LinearWithParams:
    """Parameters are objects; gradients accumulate in them."""

    def __init__(self, n, m):
        rng = np.random.default_rng(4)
        self.weight, self.bias = Param(rng.standard_normal((m, n))), Param(np.zeros(m))

    def __call__(self, x):
        self.x = x
        return x @ self.weight.data.T + self.bias.data

    def backward(self, grad_output):
        flat_g = grad_output.reshape(-1, grad_output.shape[-1])
        self.weight.grad += flat_g.T @ self.x.reshape(-1, self.x.shape[-1])
        self.bias.grad += flat_g.sum(axis=0)
        return grad_output @ self.weight.data


class PrivateDense:
    """Private attributes behind properties, and a check of what comes in."""

    def __init__(self, n, m):
        rng = np.random.default_rng(5)
        self.__W = rng.standard_normal((n, m))
        self.__dW = None

    @property
    def weights(self):
        return self.__W

    def forward_pass(self, X):
        if not isinstance(X, np.ndarray):
            raise TypeError("X must be a numpy array")
        X = np.asarray(X, dtype=np.float64)
        self._X = X
        return X.dot(self.weights)

    def backward_pass(self, dA):
        self.__dW = self._X.T.dot(dA)
        return dA.dot(self.__W.T)


class DenseWithBiasColumn:
    """The bias is a column of ones."""

    def __init__(self, n, m):
        self.W = np.random.default_rng(6).standard_normal((n + 1, m))

    def forward(self, x):
        self.xb = np.c_[x, np.ones(len(x))]
        return self.xb @ self.W

    def backward(self, grad):
        self.grad_W = self.xb.T @ grad
        return grad @ self.W[:-1].T


class Sequential:
    """Layers in a list."""

    def __init__(self, *layers):
        self.layers = list(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dout):
        for layer in reversed(self.layers):
            dout = layer.backward(dout)
        return dout


# ---- activations -------------------------------------------------------------------------------------------------


class ReluWithMask:
    """Writes zeros into a copy."""

    def forward(self, x):
        self.mask = x <= 0
        out = x.copy()
        out[self.mask] = 0
        return out

    def backward(self, dout):
        dout[self.mask] = 0
        return dout


class StableSigmoid:
    """Fills an empty buffer from both sides of zero."""

    def forward(self, x):
        out = np.empty(x.shape)
        positive = x >= 0
        out[positive] = 1 / (1 + np.exp(-x[positive]))
        e = np.exp(x[~positive])
        out[~positive] = e / (1 + e)
        self.out = out
        return out

    def backward(self, dout):
        return dout * self.out * (1.0 - self.out)


class TanhInPlace:
    """A layer that reuses its buffer for everything."""

    def __init__(self, n, m):
        rng = np.random.default_rng(7)
        self.coef_, self.intercept_ = rng.standard_normal((n, m)), rng.standard_normal(m)

    def forward(self, X):
        Z = np.dot(X, self.coef_)
        Z += self.intercept_
        np.tanh(Z, out=Z)
        self.X, self.Z = X, Z
        return Z

    def backward(self, delta):
        delta = delta * (1 - self.Z**2)
        self.coef_grad = self.X.T @ delta
        self.intercept_grad = delta.sum(0)
        return delta @ self.coef_.T


class ExactGelu:
    """math and np.vectorize, an element at a time."""

    def forward(self, x):
        self.x = x
        self.cdf = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        return x * self.cdf

    def backward(self, dout):
        pdf = np.exp(-0.5 * self.x**2) / math.sqrt(2 * math.pi)
        return dout * (self.cdf + self.x * pdf)


class Dropout:
    """Draws its mask from the global generator."""

    def __init__(self, p=0.5):
        self.p = p
        self.train = True

    def forward(self, x):
        if not self.train:
            return x
        self.mask = (np.random.rand(*x.shape) < self.p) / self.p  # noqa: NPY002  (the style is the point)
        return x * self.mask

    def backward(self, dout):
        return dout * self.mask


class Softmax:
    """The Jacobian of each example, one by one."""

    def forward(self, inputs):
        exp_values = np.exp(inputs - np.max(inputs, axis=1, keepdims=True))
        self.output = exp_values / np.sum(exp_values, axis=1, keepdims=True)
        return self.output

    def backward(self, dvalues):
        self.dinputs = np.empty_like(dvalues)
        for i, (single, dsingle) in enumerate(zip(self.output, dvalues, strict=True)):
            single = single.reshape(-1, 1)
            jacobian = np.diagflat(single) - np.dot(single, single.T)
            self.dinputs[i] = np.dot(jacobian, dsingle)
        return self.dinputs


# ---- normalisation -----------------------------------------------------------------------------------------------


class BatchNorm:
    """Running statistics besides gradients; in training mode."""

    def __init__(self, d, momentum=0.9):
        self.gamma, self.beta = np.linspace(0.5, 1.5, d), np.linspace(-0.2, 0.3, d)
        self.running_mean, self.running_var = np.zeros(d), np.ones(d)
        self.momentum, self.eps = momentum, 1e-5

    def forward(self, x, training=True):
        if training:
            mu, var = x.mean(axis=0), x.var(axis=0)
            self.running_mean = self.momentum * self.running_mean + (1 - self.momentum) * mu
            self.running_var = self.momentum * self.running_var + (1 - self.momentum) * var
        else:
            mu, var = self.running_mean, self.running_var
        self.std = np.sqrt(var + self.eps)
        self.xhat = (x - mu) / self.std
        return self.gamma * self.xhat + self.beta

    def backward(self, dout):
        n = dout.shape[0]
        self.dbeta = dout.sum(axis=0)
        self.dgamma = (dout * self.xhat).sum(axis=0)
        dxhat = dout * self.gamma
        return (n * dxhat - dxhat.sum(axis=0) - self.xhat * (dxhat * self.xhat).sum(axis=0)) / (n * self.std)


class LayerNorm:
    """A dictionary for the cache, and one each for parameters and gradients."""

    def __init__(self, d):
        self.params = {"gamma": np.linspace(0.8, 1.2, d), "beta": np.zeros(d)}
        self.grads = {}
        self.cache = {}

    def forward(self, x):
        mean = np.mean(x, axis=-1, keepdims=True)
        var = np.var(x, axis=-1, keepdims=True)
        x_norm = (x - mean) / np.sqrt(var + 1e-5)
        self.cache = {"x_norm": x_norm, "var": var}
        return self.params["gamma"] * x_norm + self.params["beta"]

    def backward(self, dout):
        x_norm, var = self.cache["x_norm"], self.cache["var"]
        axes = tuple(range(dout.ndim - 1))
        self.grads["gamma"] = np.sum(dout * x_norm, axis=axes)
        self.grads["beta"] = np.sum(dout, axis=axes)
        dx_norm = dout * self.params["gamma"]
        m1 = dx_norm.mean(axis=-1, keepdims=True)
        m2 = np.mean(dx_norm * x_norm, axis=-1, keepdims=True)
        return (dx_norm - m1 - x_norm * m2) / np.sqrt(var + 1e-5)


def batchnorm_forward(x, gamma, beta, bn_param):
    """The statistics live in a dictionary that the call changes; every step has a name."""
    eps, momentum = bn_param.get("eps", 1e-5), bn_param.get("momentum", 0.9)
    N, D = x.shape
    running_mean = bn_param.get("running_mean", np.zeros(D, dtype=x.dtype))
    mu = 1 / float(N) * np.sum(x, axis=0)
    xmu = x - mu
    sq = xmu**2
    var = 1 / float(N) * np.sum(sq, axis=0)
    sqrtvar = np.sqrt(var + eps)
    ivar = 1.0 / sqrtvar
    xhat = xmu * ivar
    out = gamma * xhat + beta
    bn_param["running_mean"] = momentum * running_mean + (1 - momentum) * mu
    return out, (xhat, gamma, xmu, ivar, sqrtvar, var, eps)


def batchnorm_backward(dout, cache):
    xhat, gamma, xmu, ivar, sqrtvar, var, eps = cache
    N, D = dout.shape
    dbeta = np.sum(dout, axis=0)
    dgamma = np.sum(dout * xhat, axis=0)
    dxhat = dout * gamma
    divar = np.sum(dxhat * xmu, axis=0)
    dxmu1 = dxhat * ivar
    dsqrtvar = -1.0 / (sqrtvar**2) * divar
    dvar = 0.5 * 1.0 / np.sqrt(var + eps) * dsqrtvar
    dsq = 1.0 / N * np.ones((N, D)) * dvar
    dxmu2 = 2 * xmu * dsq
    dx1 = dxmu1 + dxmu2
    dmu = -1 * np.sum(dxmu1 + dxmu2, axis=0)
    dx2 = 1.0 / N * np.ones((N, D)) * dmu
    return dx1 + dx2, dgamma, dbeta


# ---- convolution and pooling -------------------------------------------------------------------------------------


def conv_forward_naive(x, w, b, conv_param):
    """Four loops over a buffer of zeros."""
    stride, pad = conv_param["stride"], conv_param["pad"]
    N, _, H, W = x.shape
    F, _, HH, WW = w.shape
    H_out, W_out = 1 + (H + 2 * pad - HH) // stride, 1 + (W + 2 * pad - WW) // stride
    x_pad = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="constant")
    out = zeros((N, F, H_out, W_out))
    for n in range(N):
        for f in range(F):
            for i in range(H_out):
                for j in range(W_out):
                    window = x_pad[n, :, i * stride : i * stride + HH, j * stride : j * stride + WW]
                    out[n, f, i, j] = np.sum(window * w[f]) + b[f]
    return out, (x, w, b, conv_param)


def conv_backward_naive(dout, cache):
    x, w, b, conv_param = cache
    stride, pad = conv_param["stride"], conv_param["pad"]
    N, F, H_out, W_out = dout.shape
    HH, WW = w.shape[2:]
    x_pad = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), mode="constant")
    dx_pad, dw, db = zeros(x_pad.shape), zeros(w.shape), zeros(b.shape)
    for n in range(N):
        for f in range(F):
            db[f] += dout[n, f].sum()
            for i in range(H_out):
                for j in range(W_out):
                    rows, cols = slice(i * stride, i * stride + HH), slice(j * stride, j * stride + WW)
                    dw[f] += x_pad[n, :, rows, cols] * dout[n, f, i, j]
                    dx_pad[n, :, rows, cols] += w[f] * dout[n, f, i, j]
    dx = dx_pad[:, :, pad:-pad, pad:-pad] if pad > 0 else dx_pad
    return dx, dw, db


def im2col(input_data, filter_h, filter_w, stride=1, pad=0):
    N, C, H, W = input_data.shape
    out_h, out_w = (H + 2 * pad - filter_h) // stride + 1, (W + 2 * pad - filter_w) // stride + 1
    img = np.pad(input_data, [(0, 0), (0, 0), (pad, pad), (pad, pad)], "constant")
    col = np.zeros((N, C, filter_h, filter_w, out_h, out_w))
    for y in range(filter_h):
        for x in range(filter_w):
            col[:, :, y, x, :, :] = img[
                :, :, y : y + stride * out_h : stride, x : x + stride * out_w : stride
            ]
    return col.transpose(0, 4, 5, 1, 2, 3).reshape(N * out_h * out_w, -1)


def col2im(col, input_shape, filter_h, filter_w, stride=1, pad=0):
    N, C, H, W = input_shape
    out_h, out_w = (H + 2 * pad - filter_h) // stride + 1, (W + 2 * pad - filter_w) // stride + 1
    col = col.reshape(N, out_h, out_w, C, filter_h, filter_w).transpose(0, 3, 4, 5, 1, 2)
    img = np.zeros((N, C, H + 2 * pad + stride - 1, W + 2 * pad + stride - 1))
    for y in range(filter_h):
        for x in range(filter_w):
            img[:, :, y : y + stride * out_h : stride, x : x + stride * out_w : stride] += col[
                :, :, y, x, :, :
            ]
    return img[:, :, pad : H + pad, pad : W + pad]


class Convolution:
    """One matrix product over unfolded patches."""

    def __init__(self, W, b, stride=1, pad=0):
        self.W, self.b, self.stride, self.pad = W, b, stride, pad

    def forward(self, x):
        FN, _, FH, FW = self.W.shape
        N, _, H, W = x.shape
        out_h, out_w = (
            1 + int((H + 2 * self.pad - FH) / self.stride),
            1 + int((W + 2 * self.pad - FW) / self.stride),
        )
        col = im2col(x, FH, FW, self.stride, self.pad)
        col_W = self.W.reshape(FN, -1).T
        self.x, self.col, self.col_W = x, col, col_W
        return (np.dot(col, col_W) + self.b).reshape(N, out_h, out_w, -1).transpose(0, 3, 1, 2)

    def backward(self, dout):
        FN, C, FH, FW = self.W.shape
        dout = dout.transpose(0, 2, 3, 1).reshape(-1, FN)
        self.db = np.sum(dout, axis=0)
        self.dW = np.dot(self.col.T, dout)
        self.dW = self.dW.transpose(1, 0).reshape(FN, C, FH, FW)
        return col2im(np.dot(dout, self.col_W.T), self.x.shape, FH, FW, self.stride, self.pad)


class StridedConv1d:
    """Windows through strides, without a copy."""

    def __init__(self, kernel):
        self.kernel = kernel

    def forward(self, signal):
        k, n = len(self.kernel), len(signal)
        step = signal.strides[0]
        self.windows = np.lib.stride_tricks.as_strided(signal, shape=(n - k + 1, k), strides=(step, step))
        self.n = n
        return self.windows @ self.kernel

    def backward(self, grad):
        self.grad_kernel = self.windows.T @ grad
        out = np.zeros(self.n)
        for i, g in enumerate(grad):
            out[i : i + len(self.kernel)] += g * self.kernel
        return out


class MaxPooling:
    """The largest of each unfolded patch; argmax remembered."""

    def __init__(self, pool_h, pool_w, stride):
        self.pool_h, self.pool_w, self.stride = pool_h, pool_w, stride

    def forward(self, x):
        N, C, H, W = x.shape
        out_h, out_w = 1 + (H - self.pool_h) // self.stride, 1 + (W - self.pool_w) // self.stride
        col = im2col(x, self.pool_h, self.pool_w, self.stride).reshape(-1, self.pool_h * self.pool_w)
        self.arg_max = np.argmax(col, axis=1)
        self.x = x
        return np.max(col, axis=1).reshape(N, out_h, out_w, C).transpose(0, 3, 1, 2)

    def backward(self, dout):
        dout = dout.transpose(0, 2, 3, 1)
        size = self.pool_h * self.pool_w
        dmax = np.zeros((dout.size, size))
        dmax[np.arange(self.arg_max.size), self.arg_max.flatten()] = dout.flatten()
        dcol = dmax.reshape(dout.shape[0] * dout.shape[1] * dout.shape[2], -1)
        return col2im(dcol, self.x.shape, self.pool_h, self.pool_w, self.stride)


# ---- recurrent layers --------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step_forward(x, prev_h, prev_c, Wx, Wh, b):
    """Two results besides the cache."""
    H = prev_h.shape[1]
    a = x.dot(Wx) + prev_h.dot(Wh) + b
    i, f = sigmoid(a[:, :H]), sigmoid(a[:, H : 2 * H])
    o, g = sigmoid(a[:, 2 * H : 3 * H]), np.tanh(a[:, 3 * H :])
    next_c = f * prev_c + i * g
    next_h = o * np.tanh(next_c)
    return next_h, next_c, (x, prev_h, prev_c, Wx, Wh, i, f, o, g, next_c)


def lstm_step_backward(dnext_h, dnext_c, cache):
    x, prev_h, prev_c, Wx, Wh, i, f, o, g, next_c = cache
    tanh_c = np.tanh(next_c)
    do = dnext_h * tanh_c
    dc = dnext_c + dnext_h * o * (1 - tanh_c**2)
    di, df, dg = dc * g, dc * prev_c, dc * i
    dprev_c = dc * f
    da = np.hstack([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])
    return da.dot(Wx.T), da.dot(Wh.T), dprev_c, x.T.dot(da), prev_h.T.dot(da), da.sum(axis=0)


def rnn_forward(x, h0, Wx, Wh, b):
    """A buffer of states, filled step by step."""
    N, T, _ = x.shape
    h = np.zeros((N, T, h0.shape[1]))
    cache, prev = [], h0
    for t in range(T):
        h[:, t, :] = np.tanh(x[:, t, :] @ Wx + prev @ Wh + b)
        cache.append((x[:, t, :], prev, Wx, Wh, h[:, t, :]))
        prev = h[:, t, :]
    return h, cache


def rnn_backward(dh, cache):
    N, T, H = dh.shape
    D = cache[0][0].shape[1]
    dx, dprev = np.zeros((N, T, D)), np.zeros((N, H))
    dWx, dWh, db = np.zeros((D, H)), np.zeros((H, H)), np.zeros(H)
    for t in reversed(range(T)):
        x, prev, Wx, Wh, h = cache[t]
        da = (dh[:, t, :] + dprev) * (1 - h**2)
        dx[:, t, :] = da @ Wx.T
        dWx += x.T @ da
        dWh += prev.T @ da
        db += da.sum(axis=0)
        dprev = da @ Wh.T
    return dx, dprev, dWx, dWh, db


class GruCell:
    """Takes two inputs, and returns two gradients; weights in a dictionary."""

    def __init__(self, n, h):
        rng = np.random.default_rng(8)
        self.p = {k: rng.standard_normal((n + h, h)) for k in ("z", "r", "h")}
        self.dp = {k: np.zeros_like(v) for k, v in self.p.items()}

    def forward(self, x, h):
        xh = np.concatenate((x, h), axis=1)
        z, r = sigmoid(xh @ self.p["z"]), sigmoid(xh @ self.p["r"])
        xr = np.concatenate((x, r * h), axis=1)
        c = np.tanh(xr @ self.p["h"])
        self.saved = x, h, xh, z, r, xr, c
        return (1 - z) * h + z * c

    def backward(self, grad):
        x, h, xh, z, r, xr, c = self.saved
        n = x.shape[1]
        dz, dc, dh = grad * (c - h), grad * z, grad * (1 - z)
        dc_raw = dc * (1 - c**2)
        self.dp["h"] += xr.T @ dc_raw
        dxr = dc_raw @ self.p["h"].T
        dx, drh = dxr[:, :n], dxr[:, n:]
        dr, dh = drh * h, dh + drh * r
        dz_raw, dr_raw = dz * z * (1 - z), dr * r * (1 - r)
        self.dp["z"] += xh.T @ dz_raw
        self.dp["r"] += xh.T @ dr_raw
        dxh = dz_raw @ self.p["z"].T + dr_raw @ self.p["r"].T
        return dx + dxh[:, :n], dh + dxh[:, n:]


# ---- embeddings and attention ------------------------------------------------------------------------------------


class Embedding:
    """Rows picked by number; repeated numbers accumulate."""

    def __init__(self, V, D):
        W = np.random.default_rng(9).standard_normal((V, D))
        self.params, self.grads = [W], [np.zeros_like(W)]
        self.idx = None

    def forward(self, idx):
        (W,) = self.params
        self.idx = idx
        return W[idx]

    def backward(self, dout):
        (dW,) = self.grads
        dW[...] = 0
        np.add.at(dW, self.idx, dout)
        return None


class CausalSelfAttention:
    """All heads in one product, the mask in the scores."""

    def __init__(self, d_model, n_heads):
        rng = np.random.default_rng(10)
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.W_qkv = rng.standard_normal((d_model, 3 * d_model)) / np.sqrt(d_model)
        self.W_out = rng.standard_normal((d_model, d_model)) / np.sqrt(d_model)

    def forward(self, x):
        B, T, C = x.shape
        self.x = x
        qkv = x @ self.W_qkv
        q, k, v = np.split(qkv, 3, axis=-1)
        split = lambda t: t.reshape(B, T, self.n_heads, self.d_head).transpose(0, 2, 1, 3)
        self.q, self.k, self.v = split(q), split(k), split(v)
        scores = self.q @ self.k.transpose(0, 1, 3, 2) / np.sqrt(self.d_head)
        mask = np.triu(np.ones((T, T)), k=1).astype(bool)
        scores[:, :, mask] = -1e9
        scores -= scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores)
        weights /= weights.sum(axis=-1, keepdims=True)
        self.weights = weights
        self.y = (weights @ self.v).transpose(0, 2, 1, 3).reshape(B, T, C)
        return self.y @ self.W_out

    def backward(self, dout):
        B, T, C = dout.shape
        self.dW_out = self.y.reshape(-1, C).T @ dout.reshape(-1, C)
        dy = (dout @ self.W_out.T).reshape(B, T, self.n_heads, self.d_head).transpose(0, 2, 1, 3)
        dweights = dy @ self.v.transpose(0, 1, 3, 2)
        dv = self.weights.transpose(0, 1, 3, 2) @ dy
        dscores = self.weights * (dweights - (dweights * self.weights).sum(axis=-1, keepdims=True))
        dscores /= np.sqrt(self.d_head)
        dq = dscores @ self.k
        dk = dscores.transpose(0, 1, 3, 2) @ self.q
        join = lambda t: t.transpose(0, 2, 1, 3).reshape(B, T, C)
        dqkv = np.concatenate([join(dq), join(dk), join(dv)], axis=-1)
        self.dW_qkv = self.x.reshape(-1, C).T @ dqkv.reshape(-1, 3 * C)
        return dqkv @ self.W_qkv.T


# ---- losses ------------------------------------------------------------------------------------------------------


class SoftmaxWithLoss:
    """The gradient of the mean over the batch."""

    def forward(self, x, t):
        x = x - np.max(x, axis=-1, keepdims=True)
        self.y = np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True)
        self.t = t
        batch_size = self.y.shape[0]
        return -np.sum(np.log(self.y[np.arange(batch_size), t] + 1e-7)) / batch_size

    def backward(self, dout=1):
        batch_size = self.t.shape[0]
        p = self.y[np.arange(batch_size), self.t]
        dx = self.y * (p / (p + 1e-7))[:, None]
        dx[np.arange(batch_size), self.t] -= p / (p + 1e-7)
        return dx * dout / batch_size


class MeanSquaredError:
    """The loss is a Python float, and the backward pass takes no argument."""

    def forward(self, prediction, target):
        self.difference = np.asarray(prediction) - np.asarray(target)
        return float(np.mean(self.difference**2))

    def backward(self):
        return 2 * self.difference / self.difference.size


def softmax_loss(x, y):
    """Loss and gradient in one go."""
    shifted = x - np.max(x, axis=1, keepdims=True)
    Z = np.sum(np.exp(shifted), axis=1, keepdims=True)
    log_probs = shifted - np.log(Z)
    N = x.shape[0]
    loss = -np.sum(log_probs[np.arange(N), y]) / N
    dx = np.exp(log_probs)
    dx[np.arange(N), y] -= 1
    dx /= N
    return loss, dx


def svm_loss_naive(W, X, y, reg):
    """Loops over examples and classes; the loss is a number that grows."""
    dW = np.zeros(W.shape)
    loss = 0.0
    for i in range(X.shape[0]):
        scores = X[i].dot(W)
        for j in range(W.shape[1]):
            margin = scores[j] - scores[y[i]] + 1
            if j != y[i] and margin > 0:
                loss += margin
                dW[:, j] += X[i]
                dW[:, y[i]] -= X[i]
    return loss / X.shape[0] + reg * np.sum(W * W), dW / X.shape[0] + 2 * reg * W


def two_layer_loss(params, X, y):
    """Parameters and gradients are dictionaries with the same keys."""
    h = np.maximum(0, X.dot(params["W1"]) + params["b1"])
    loss, dscores = softmax_loss(h.dot(params["W2"]) + params["b2"], y)
    dh = dscores.dot(params["W2"].T)
    dh[h <= 0] = 0
    return loss, {"W1": X.T.dot(dh), "b1": dh.sum(axis=0), "W2": h.T.dot(dscores), "b2": dscores.sum(axis=0)}


# ---- functions with a cache --------------------------------------------------------------------------------------


def affine_forward(x, w, b):
    out = x.reshape(x.shape[0], -1).dot(w) + b
    return out, (x, w, b)


def affine_backward(dout, cache):
    x, w, _ = cache
    dx = dout.dot(w.T).reshape(x.shape)
    dw = x.reshape(x.shape[0], -1).T.dot(dout)
    return dx, dw, np.sum(dout, axis=0)


def row_norms_forward(x):
    """A list of rows becomes an array."""
    norms = np.array([np.sqrt(np.sum(row**2)) for row in x])
    return np.array([row / n for row, n in zip(x, norms, strict=True)]), (x, norms)


def row_norms_backward(dout, cache):
    x, norms = cache
    unit = x / norms[:, None]
    return (dout - unit * np.sum(dout * unit, axis=1, keepdims=True)) / norms[:, None]


class PerceptronWithLists:
    """A whole network: weights in one list, biases in another, gradients in two more."""

    def __init__(self, sizes):
        rng = np.random.default_rng(11)
        self.weights = [rng.standard_normal((a, b)) for a, b in itertools.pairwise(sizes)]
        self.biases = [np.zeros(b) for b in sizes[1:]]

    def forward(self, x):
        self.activations = [x]
        for W, b in zip(self.weights, self.biases, strict=True):
            x = np.tanh(x @ W + b)
            self.activations.append(x)
        return x

    def backward(self, delta):
        self.d_weights, self.d_biases = [None] * len(self.weights), [None] * len(self.biases)
        for i in reversed(range(len(self.weights))):
            delta = delta * (1 - self.activations[i + 1] ** 2)
            self.d_weights[i] = self.activations[i].T @ delta
            self.d_biases[i] = delta.sum(axis=0)
            delta = delta @ self.weights[i].T
        return delta


class CrossEntropyOfProbabilities:
    """Its backward pass is given the prediction again."""

    def forward(self, y_pred, y_true):
        clipped = np.clip(y_pred, 1e-7, 1 - 1e-7)
        return np.mean(-np.log(clipped[range(len(y_pred)), y_true]))

    def backward(self, dvalues, y_true):
        samples, labels = len(dvalues), len(dvalues[0])
        y_true = np.eye(labels)[y_true]
        self.dinputs = -y_true / dvalues / samples


class SequenceLSTM:
    """States in dictionaries by time step, the result an array of a list."""

    def __init__(self, n, h):
        self.W = np.random.default_rng(12).standard_normal((n + h, 4 * h))
        self.dW = np.zeros_like(self.W)
        self.h = h

    def forward(self, X):
        H = self.h
        self.hs, self.cs = {-1: np.zeros(H)}, {-1: np.zeros(H)}
        self.zs, self.gates = {}, {}
        for t in range(len(X)):
            z = np.hstack((X[t], self.hs[t - 1]))
            a = z @ self.W
            i, f, o = (sigmoid(a[k * H : (k + 1) * H]) for k in range(3))
            g = np.tanh(a[3 * H :])
            self.cs[t] = f * self.cs[t - 1] + i * g
            self.hs[t] = o * np.tanh(self.cs[t])
            self.zs[t], self.gates[t] = z, (i, f, o, g)
        return np.array([self.hs[t] for t in range(len(X))])

    def backward(self, dhs):
        self.dW = np.zeros_like(self.W)
        dh, dc = np.zeros(self.h), np.zeros(self.h)
        n = len(self.W) - self.h
        dX = np.zeros((len(dhs), n))
        for t in reversed(range(len(dhs))):
            i, f, o, g = self.gates[t]
            dh, tanh_c = dh + dhs[t], np.tanh(self.cs[t])
            dc = dc + dh * o * (1 - tanh_c**2)
            di, df, do, dg = dc * g, dc * self.cs[t - 1], dh * tanh_c, dc * i
            da = np.concatenate([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])
            self.dW += np.outer(self.zs[t], da)
            dz = self.W @ da
            dX[t], dh, dc = dz[:n], dz[n:], dc * f
        return dX
