"""The methods of ndarray on Tensors, and the methods of ufuncs: same value as NumPy's, and the right gradient."""

import numpy as np
import pytest

import minigrad
from minigrad.errors import UnsupportedError
from numeric import central_difference
from samples import generator, real

X = real(2, 3).draw(generator("methods"))
MASK = np.array([[True, False, True], [False, True, True]])


def check(f, *args):
    """Compare value, dtype and gradient with NumPy and differences."""
    wanted = f(*args)
    value, pull = minigrad.vjp(f, *args)
    np.testing.assert_allclose(value, wanted, rtol=1e-14, atol=1e-15)
    assert np.shape(value) == np.shape(wanted)
    assert np.asarray(value).dtype == np.asarray(wanted).dtype
    rng = generator("methods")
    g = np.asarray(rng.normal(size=np.shape(wanted)).round(2), np.asarray(wanted).dtype)
    tangents = tuple(rng.normal(size=x.shape).round(2) for x in args)
    slope = np.sum(g * central_difference(f, args, tangents)).real
    got = sum(np.sum(d * t) for d, t in zip(pull(g), tangents, strict=True))
    assert got == pytest.approx(slope, rel=1e-6, abs=1e-8)


METHODS = {
    "sum": lambda x: x.sum(),
    "sum, axis by place": lambda x: x.sum(0),
    "sum, keywords": lambda x: x.sum(axis=1, keepdims=True, initial=2.0, where=MASK),
    "mean": lambda x: x.mean(axis=(0, 1)),
    "mean, dtype": lambda x: x.mean(1, np.float64),
    "var": lambda x: x.var(axis=1, ddof=1),
    "std": lambda x: x.std(0, keepdims=True),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(axis=0, initial=9.0, where=MASK),
    "prod": lambda x: x.prod(axis=-1),
    "cumsum": lambda x: x.cumsum(),
    "cumprod": lambda x: x.cumprod(axis=1),
    "any and all": lambda x: x * x.any() * x.all(),
    "argmax": lambda x: x[0, x.argmax(axis=1)],
    "argmin": lambda x: x[0, x[0].argmin()],
    "argsort": lambda x: x[0, x[0].argsort()],
    "argpartition": lambda x: x[1, x[1].argpartition(1)[:2]].sum(),
    "reshape, tuple": lambda x: x.reshape((3, 2)),
    "reshape, varargs": lambda x: x.reshape(3, -1),
    "reshape, order": lambda x: x.reshape(-1, order="F"),
    "transpose": lambda x: x.transpose(),
    "transpose, varargs": lambda x: x[None].transpose(2, 0, 1),
    "transpose, tuple": lambda x: x[None].transpose((2, 0, 1)),
    "T": lambda x: x.T,
    "mT": lambda x: x[None].mT,
    "real and imag": lambda x: x.real + x.imag,
    "ravel": lambda x: x.ravel("F"),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "repeat": lambda x: x.repeat([1, 2], axis=0),
    "take": lambda x: x.take([5, 0, 5]),
    "take, axis": lambda x: x.take([1, 1], 1),
    "compress": lambda x: x.compress([True, False, True], axis=1),
    "compress, flattened": lambda x: x.compress([False, True]),
    "trace": lambda x: x.trace(1),
    "diagonal": lambda x: x.diagonal(offset=1),
    "nonzero": lambda x: x[x.nonzero()],
    "searchsorted": lambda x: x * np.sort(x[0]).searchsorted([0.0, 0.5, 9.0]),
    "round": lambda x: x + x.round(),
    "clip": lambda x: x.clip(-1, 1),
    "clip, keywords": lambda x: x.clip(max=0.5),
    "conj": lambda x: x.conj() + x.conjugate(),
    "copy": lambda x: x.copy(order="F") * 2,
    "astype": lambda x: x.astype(np.complex128).real,
    "astype without copy": lambda x: x.astype(x.dtype, copy=False) * 3,
    "dot": lambda x: x.dot(x.T),
    "sort": lambda x: sorted_in_place(x * 1, axis=0),
    "partition": lambda x: partitioned_in_place(x * 1, 1),
    "put": lambda x: put_in_place(x * 1, [0, -1], x[0, :2] * 3),
    "view": lambda x: x.view() * 2,
    "len and size": lambda x: x * len(x) * x.size * x.ndim * x.nbytes * x.itemsize,
    "operators": lambda x: -((+x) ** 2) / (1 + abs(x)) - 2**x + x // 0.7 + x % 0.7 + 3 - (1 - x) @ x.T @ x,
    "divmod": lambda x: divmod(x, 0.7)[1] + divmod(7.3, x)[1],
    "comparisons": lambda x: x * ((x > 0) & (x <= 1)) + x * (x != 0.5) + x * (x == x),
    "formatting": lambda x: x * len(f"{x[0, 0]:.3f}{x!r:.0}"),
    "copy module": lambda x: __import__("copy").copy(x) + __import__("copy").deepcopy(x),
    "built-in sum and max": lambda x: sum(x[0]) + max(x[1]) + min(x[0]),
}


def sorted_in_place(y, **keywords):
    y.sort(**keywords)
    return y


def partitioned_in_place(y, kth):
    y.partition(kth)
    return np.sum(y[:, :1])


def put_in_place(y, places, values):
    y.put(places, values)
    return y


@pytest.mark.parametrize("f", METHODS.values(), ids=METHODS)
def test_method(f):
    check(f, X)


# --- ufuncs: reduce, accumulate, reduceat, outer, at, and the keywords

POSITIVE = np.abs(X) + 0.5
# Not np.power and np.arctan2: NumPy 2.4 reduces them wrongly (np.power.reduce([2.0, 3.0, 1.5]) is 2.8, not 22.6).
BINARY = [np.add, np.multiply, np.subtract, np.divide, np.maximum, np.minimum, np.fmax, np.fmin]
BINARY += [np.logaddexp, np.logaddexp2, np.hypot, np.remainder, np.copysign]


@pytest.mark.parametrize("ufunc", BINARY)
def test_reduce(ufunc):
    check(lambda x: ufunc.reduce(x), POSITIVE)
    check(lambda x: ufunc.reduce(x, axis=1), POSITIVE)
    check(lambda x: ufunc.reduce(x, -1, keepdims=True), POSITIVE)
    check(lambda x: ufunc.reduce(x, 0, initial=1.5), POSITIVE)
    check(lambda x: ufunc.reduce(x, 0, initial=1.5, where=MASK), POSITIVE)
    check(lambda x: ufunc.reduce(x[:1], axis=0), POSITIVE)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.fmin, np.logaddexp, np.hypot])
def test_reduce_over_several_axes(ufunc):
    check(lambda x: ufunc.reduce(x, axis=None), POSITIVE)
    check(lambda x: ufunc.reduce(x[None], axis=(0, -1), keepdims=True), POSITIVE)


@pytest.mark.parametrize("ufunc", BINARY)
def test_accumulate(ufunc):
    check(lambda x: ufunc.accumulate(x), POSITIVE)
    check(lambda x: ufunc.accumulate(x, axis=1), POSITIVE)
    check(lambda x: ufunc.accumulate(x[0]), POSITIVE)


@pytest.mark.parametrize("ufunc", BINARY)
def test_reduceat(ufunc):
    check(lambda x: ufunc.reduceat(x, [0, 1, 0], axis=0), POSITIVE)
    check(lambda x: ufunc.reduceat(x, [0, 2, 1, 1], axis=1), POSITIVE)
    check(lambda x: ufunc.reduceat(np.ravel(x), np.array([3, 0, 5])), POSITIVE)


@pytest.mark.parametrize("ufunc", BINARY)
def test_outer(ufunc):
    check(lambda x: ufunc.outer(x, x[0, :2]), POSITIVE)
    check(lambda x, y: ufunc.outer(x[0], y), POSITIVE, POSITIVE + 0.25)
    check(lambda x: ufunc.outer([1.5, 2.0], x), POSITIVE)


def test_reduce_of_nothing():
    for ufunc, identity in ((np.add, 0), (np.multiply, 1), (np.logaddexp, -np.inf), (np.hypot, 0)):
        value, pull = minigrad.vjp(lambda x, u=ufunc: u.reduce(x), np.ones((0, 2)))
        assert value.tolist() == [identity, identity]
        assert pull(np.ones(2))[0].shape == (0, 2)
    with pytest.raises(ValueError, match="identity"):
        minigrad.vjp(np.maximum.reduce, np.ones((0, 2)))
    with pytest.raises(ValueError, match="reorderable"):
        minigrad.vjp(lambda x: np.subtract.reduce(x, axis=(0, 1)), X)


def test_logical_methods_give_plain_arrays():
    def f(x):
        assert type(np.logical_and.reduce(x)) is np.ndarray
        assert np.logical_or.reduce(x > 0, axis=None) in (True, False)
        assert type(np.greater.outer(x, x)) is np.ndarray
        return np.sum(x)

    minigrad.grad(f, X)


def test_ufunc_keywords():
    check(lambda x: np.add(x, x, dtype=np.complex128).real, X)
    check(lambda x: np.multiply(x, 2, casting="same_kind", order="K", subok=True), X)
    with pytest.raises(UnsupportedError, match="where="):
        minigrad.vjp(lambda x: np.multiply(x, 2, where=MASK), X)
    with pytest.raises(UnsupportedError, match="axes="):
        minigrad.vjp(lambda x: np.matmul(x, x.T, axes=[(0, 1), (0, 1), (0, 1)]), X)


def test_out_by_place():
    def f(x):
        y = np.zeros_like(x)
        np.sum(x * x, 0, None, y[0])
        np.add(x[0], x[1], y[1])
        np.ptp(x * 2, 0, y[1])
        np.median(x, 0, y[0])
        return y

    check(f, X)
