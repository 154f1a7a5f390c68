"""What stands in for functions of NumPy, SciPy and Python that know no Tensors, while somebody's layer is traced.

Each is called with the function that it stands in for, and its arguments.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from minigrad.array import array as array_of
from minigrad.op import Recorded
from minigrad.special import erf
from minigrad.tensor import plain

__all__ = ["STAND_INS", "Columns", "in_place_of_class", "of_scipy"]

numpy: Any = np  # NumPy's stubs do not know that its functions answer for Tensors


def _as_array(original: Callable[..., Any], a: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(a, Recorded):
        return a if dtype is None else a.astype(dtype, copy=False)  # type: ignore[attr-defined]
    if has_tensor(a):
        return array_of(a, dtype)
    return original(a, dtype, *args, **kwargs)


def _array(original: Callable[..., Any], a: Any, dtype: Any = None, **kwargs: Any) -> Any:
    if not has_tensor(a):
        return original(a, dtype, **kwargs)
    made = array_of(a, dtype)
    if kwargs.get("copy", True) and made is a:
        made = numpy.copy(made)
    missing = kwargs.get("ndmin", 0) - made.ndim
    return made.reshape((1,) * missing + made.shape) if missing > 0 else made


def has_tensor(a: Any) -> bool:
    """Tell whether a Tensor is among the parts of nested lists and tuples."""
    return isinstance(a, Recorded) or (isinstance(a, (list, tuple)) and any(has_tensor(part) for part in a))


def _from_iterable(original: Callable[..., Any], parts: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    given = list(parts)
    return array_of(given) if has_tensor(given) else original(given, *args, **kwargs)


def _enumerated(original: Callable[..., Any], a: Any) -> Iterator[Any]:
    """Yield each index of an array with its element."""
    return ((i, a[i]) for i in np.ndindex(a.shape)) if has_tensor(a) else original(a)


def _vectorize(original: Callable[..., Any], f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a vectorised function that is called with an element of a Tensor at a time."""
    usual = original(f, *args, **kwargs)

    def vectorised(*arrays: Any) -> Any:
        if not any(isinstance(a, Recorded) for a in arrays):
            return usual(*arrays)
        shape = np.broadcast_shapes(*map(np.shape, arrays))
        flat = [numpy.broadcast_to(a, shape).reshape(-1) for a in arrays]
        found = [f(*(a[i] for a in flat)) for i in range(flat[0].shape[0])]
        return array_of(found).reshape(shape)

    return vectorised


def _as_strided(original: Callable[..., Any], x: Any, shape: Any = None, strides: Any = None, **kwargs: Any) -> Any:
    """Take the elements that a strided view would show."""
    if not isinstance(x, Recorded):
        return original(x, shape, strides, **kwargs)
    data = plain(x)
    if not data.flags.c_contiguous:
        return original(x, shape, strides, **kwargs)  # which refuses a Tensor, with the reason
    places = np.arange(data.size).reshape(data.shape)
    scale = [s // data.itemsize * places.itemsize for s in (data.strides if strides is None else strides)]
    wanted = original(places, data.shape if shape is None else shape, scale)
    return numpy.take(numpy.reshape(x, -1), np.array(wanted))


def _of_math(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def answer(original: Callable[..., Any], *args: Any) -> Any:
        return function(*args) if any(isinstance(a, Recorded) for a in args) else original(*args)

    answer.__name__ = name
    return answer


_MATHEMATICS: dict[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos, "fabs": np.abs, "pow": np.power,
    "erf": erf,
}  # fmt: skip

STAND_INS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    *((f, _as_array) for f in (np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)),
    (np.array, _array),
    (np.fromiter, _from_iterable),
    (np.ndenumerate, _enumerated),
    (np.vectorize, _vectorize),
    (np.lib.stride_tricks.as_strided, _as_strided),
    *((getattr(math, name), _of_math(name, f)) for name, f in _MATHEMATICS.items()),
]


class Columns:
    """`np.c_` and `np.r_` for arrays, some of which are Tensors."""

    def __init__(self, original: Any, axis: int) -> None:
        self._original = original
        self._axis = axis

    def __getitem__(self, key: Any) -> Any:
        if not has_tensor(key):
            return self._original[key]
        parts = [numpy.atleast_1d(part) for part in (key if isinstance(key, tuple) else (key,))]
        if self._axis == -1:
            parts = [part.reshape(-1, 1) if part.ndim == 1 else part for part in parts]
        return numpy.concatenate(parts, axis=self._axis)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def in_place_of_class(
    original: type, is_one: Callable[[Any], bool], make: Callable[..., Any], attributes: dict[str, Any]
) -> Any:
    """Return a class that answers for another: of which some Tensors are instances, and which makes some.

    Parameters
    ----------
    original
        What it is equal to, and what it makes if `make` does not.
    is_one
        Whether something is an instance that is no instance of the original.
    make
        `make(original, *args, **kwargs)` is what it returns when it is called.
    attributes
        What it has besides those of the original.
    """

    class Kind(type):
        def __instancecheck__(cls, x: Any) -> bool:
            return isinstance(x, original) or is_one(x)

        def __subclasscheck__(cls, c: Any) -> bool:
            return c is cls or issubclass(c, original)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(original, *args, **kwargs)

        def __eq__(cls, other: Any) -> bool:
            return other is cls or other is original

        def __hash__(cls) -> int:
            return hash(original)

        def __getattr__(cls, name: str) -> Any:
            return getattr(original, name)

    return Kind(original.__name__, (), {"__module__": original.__module__, **attributes})


# ---- SciPy: not needed, but if it has been imported, people's layers use these --------------------------------------


def of_scipy() -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Return SciPy's functions that are no ufuncs with their stand-ins, as far as SciPy has been imported."""
    signal, special = sys.modules.get("scipy.signal"), sys.modules.get("scipy.special")
    found: dict[str, tuple[Any, Callable[..., Any]]] = {
        "correlate2d": (signal, _correlate), "correlate": (signal, _correlate),
        "convolve2d": (signal, _convolve), "convolve": (signal, _convolve), "fftconvolve": (signal, _convolve),
        "softmax": (special, _softmax), "log_softmax": (special, _log_softmax), "logsumexp": (special, _logsumexp),
    }  # fmt: skip
    return [(getattr(module, name), f) for name, (module, f) in found.items() if hasattr(module, name)]


def _correlate(original: Callable[..., Any], x: Any, y: Any, mode: str = "full", *rest: Any, **kwargs: Any) -> Any:
    """Correlate as a product of the windows of x with y."""
    strange = rest or kwargs.get("boundary", "fill") != "fill" or kwargs.get("fillvalue", 0) != 0
    if strange or not has_tensor((x, y)) or any(n < m for n, m in zip(np.shape(x), np.shape(y), strict=True)):
        return original(x, y, mode, *rest, **kwargs)
    sizes = np.shape(y)
    if mode == "valid":
        around = [(0, 0) for _ in sizes]
    elif mode == "same":
        before = [(n - 1) // 2 if original.__name__ == "correlate2d" else n // 2 for n in sizes]
        around = [(b, n - 1 - b) for b, n in zip(before, sizes, strict=True)]
    else:
        around = [(n - 1, n - 1) for n in sizes]
    windows = numpy.lib.stride_tricks.sliding_window_view(numpy.pad(x, around), sizes)
    return numpy.tensordot(windows, numpy.conj(y), len(sizes))


def _convolve(original: Callable[..., Any], x: Any, y: Any, mode: str = "full", *rest: Any, **kwargs: Any) -> Any:
    """Convolve as a correlation with y turned around."""
    if rest or not has_tensor((x, y)):
        return original(x, y, mode, *rest, **kwargs)
    if mode != "same":
        return _correlate(original, x, numpy.conj(numpy.flip(y)), mode, **kwargs)
    whole = _correlate(original, x, numpy.conj(numpy.flip(y)), "full", **kwargs)
    return whole[tuple(slice((m - 1) // 2, (m - 1) // 2 + n) for n, m in zip(x.shape, np.shape(y), strict=True))]


def _logsumexp(original: Callable[..., Any], x: Any, axis: Any = None, *rest: Any, **kwargs: Any) -> Any:
    keepdims = kwargs.get("keepdims", False)
    if rest or not isinstance(x, Recorded) or set(kwargs) - {"keepdims"}:
        return original(x, axis, *rest, **kwargs)
    top = np.max(plain(x), axis=axis, keepdims=True)
    out = numpy.log(numpy.sum(numpy.exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdims else numpy.squeeze(out, axis=axis)


def _softmax(original: Callable[..., Any], x: Any, axis: Any = None) -> Any:
    return numpy.exp(_log_softmax(original, x, axis)) if isinstance(x, Recorded) else original(x, axis)


def _log_softmax(original: Callable[..., Any], x: Any, axis: Any = None) -> Any:
    return x - _logsumexp(original, x, axis, keepdims=True) if isinstance(x, Recorded) else original(x, axis)
