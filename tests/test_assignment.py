"""Writing elements of Tensors and of views of them: the value is what NumPy computes, and the gradient follows it."""

import operator

import numpy as np
import pytest

import minigrad
from minigrad.errors import CutGraphError
from numeric import complex_step
from samples import generator

X = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])


def check(f, *args):
    """Compare value and gradient of an analytic f with what NumPy and the complex step find."""
    rng = generator("assignment")
    wanted = f(*(np.array(x) for x in args))
    g = rng.normal(size=np.shape(wanted)).round(2)
    tangents = tuple(rng.normal(size=np.shape(x)).round(2) for x in args)
    before = [np.array(x) for x in args]
    value, pull = minigrad.vjp(f, *args)
    np.testing.assert_array_equal(value, wanted)
    got = sum(np.sum(d * t) for d, t in zip(pull(g), tangents, strict=True))
    slope = np.sum(g * complex_step(lambda *xs: f(*(x + 0j for x in xs)), args, tangents))
    assert got == pytest.approx(slope, rel=1e-12, abs=1e-12)
    for x, old in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, old, err_msg="the caller's array was written to")


def program(f):
    """Name a program for the list below."""
    PROGRAMS[f.__name__] = f
    return f


PROGRAMS: dict = {}


@program
def interleave(x):
    out = np.empty_like(x, shape=(2, 6))
    out[..., ::2] = x
    out[..., 1::2] = -x * x
    return out


@program
def element_by_element(x):
    out = np.zeros_like(x)
    for i in range(2):
        for j in range(3):
            out[i, j] = x[i, j] * x[1 - i, j]
    return out


@program
def over_what_was_there(x):
    y = x * x
    y[0] = 1.0
    y[:, 2] = x[:, 0]
    return y


@program
def broadcast_a_row(x):
    y = x * 2
    y[:] = x[0]
    return y


@program
def value_with_extra_axes_of_length_one(x):
    y = x * 2
    y[0] = x[None, 1:, :] * 3
    return y


@program
def repeated_index_last_wins(x):
    y = x * 2
    y[0, [1, 1, 0]] = x[1] * x[0]
    return y


@program
def augmented_repeated_index_adds_once(x):
    y = x * 2
    y[0, [1, 1, 0]] += x[1]
    return y


@program
def add_at_accumulates(x):
    y = x * 2
    np.add.at(y, (0, [1, 1, 0]), x[1] * x[0])
    np.subtract.at(y, ([1, 1], 2), x[0, :2])
    return y


@program
def multiply_at_without_repeats(x):
    y = x * 2
    np.multiply.at(y, (0, [2, 0]), x[1, :2])
    return y


@program
def multiply_at_with_repeats(x):
    y = x * 2
    np.multiply.at(y, (0, [2, 0, 2, 2]), x[0, 1] * np.arange(1, 5))
    np.divide.at(y, [[1, 0], [1, 1]], x[::-1] + 3)
    np.negative.at(y, (slice(None), [0, 0, 1]))
    return y


@program
def largest_of_each_group(x):
    y = np.zeros_like(x, shape=2)
    np.maximum.at(y, [1, 0, 1], x[0] * x[0])
    np.minimum.at(y, [1, 1, 1], x[1] + 5)
    return y


@program
def mask(x):
    y = x * x
    y[np.real(x) > 0.7] = 0.5
    y[np.real(x) < -1.5] *= x[0, 1]
    return y


@program
def mask_with_array(x):
    y = x * x
    y[np.array([[True, False, True], [False, False, False]])] = x[1, :2] * 3
    return y


@program
def augmented_operators(x):
    y = x * x
    z = y
    y += x
    y *= 2
    y -= x[0]
    y /= 4
    y **= 2
    return y + z


@program
def alias_sees_the_change(x):
    y = x * 1
    z = y
    y += x * x
    return z


@program
def rebinding_is_no_change(x):
    y = x * 1
    z = y
    y = y + x * x
    return z + y


@program
def recorded_value_stays(x):
    y = x * 1
    before = x * y
    y[0] = 5.0
    return before + y


@program
def write_through_a_view(x):
    y = x * x
    row = y[0]
    row[1:] = x[1, :2] * 3
    return y


@program
def write_through_views_of_views(x):
    y = np.reshape(x * x, (3, 2))
    view = y.T[:, ::-1][1]
    view[:2] += x[0, :2]
    view *= 3
    return y


@program
def write_to_the_base_of_a_view(x):
    y = x * x
    row = y[1]
    column = y[:, 0]
    y[1, 0] = x[0, 0] * 3
    y[0] = 7.0
    return row[0] * column


@program
def view_written_and_read_by_turns(x):
    y = x * x
    row = y[0]
    row += x[1]
    first = y * 2
    row[0] = 0.0
    y[0, 1] = x[0, 0]
    return first * y * row


@program
def diagonal_follows_the_base(x):
    y = x * x
    diagonal = np.diagonal(y)
    y[0, 0] = x[1, 2] * 5
    return diagonal * 1


@program
def windows_follow_the_base(x):
    y = x * x
    windows = np.lib.stride_tricks.sliding_window_view(y, 2, axis=1)
    y[0, 1] = x[1, 2] * 5
    return windows * 1


@program
def ravel_is_a_view(x):
    y = x * x
    np.ravel(y)[4] = x[0, 1]
    y.reshape(-1)[0] = 2.0
    return y


@program
def ravel_of_a_transpose_is_a_copy(x):
    y = x * x
    np.ravel(y.T)[4] = x[0, 1]
    y.T.reshape(-1)[0] = 2.0
    return y


@program
def copies_are_apart(x):
    y = x * x
    for copied in (y.copy(), np.copy(y), +y, y[[0, 1]], y[y == y], np.concatenate([y]), y.flatten()):
        copied[...] = 3.0
    return y


@program
def rows_by_iteration(x):
    y = x * x
    for k, row in enumerate(y):
        row *= k + 2
        row[0] = x[k, 1]
    return y


@program
def halves_by_split(x):
    y = x * x
    left, right = np.split(y, [1], axis=1)
    left += right[:, :1]
    right[...] = x[:, :2]
    return y


@program
def shift_over_itself(x):
    y = x * x
    y[:, 1:] = y[:, :-1]
    y[0, :2] += y[0, 1:]
    return y


@program
def reverse_in_place(x):
    y = x * x
    y[:] = y[:, ::-1]
    return y


@program
def swap_rows(x):
    y = x * x
    y[[0, 1]] = y[[1, 0]]
    return y


@program
def swap_by_tuple(x):
    y = x * x
    y[0, 0], y[1, 2] = y[1, 2] * 1, y[0, 0] * 1
    return y


@program
def parameter_itself(x):
    x += x[0] * 2
    x[1, 1] = x[0, 0] * x[0, 1]
    view = x[0]
    view *= 3
    return x


@program
def fill_and_functions(x):
    y = x * x
    y[0].fill(2.0)
    np.copyto(y[1, :2], x[0, 1:])
    np.put(y, [2, -1], x[0, :2] * x[1, :2])
    np.fill_diagonal(y, x[0, 2])
    return y


@program
def out_keyword(x):
    y = np.empty_like(x)
    np.multiply(x, x[0], out=y)
    np.add(y[0], x[1], out=y[1])
    np.exp(x[0], out=y[0])
    np.sum(x * x, axis=0, out=y[1])
    return y


@program
def out_and_where(x):
    y = x * 3
    np.multiply(x, x[0], out=y, where=np.array([True, False, True]))
    return y


@program
def whole_by_ellipsis(x):
    y = x * x
    y[...] = y * x
    y[()] = y + 1
    return y


@program
def new_axis_on_the_left(x):
    y = x * x
    y[:, None, 1] = x[:, :1]
    y[None, ..., 0] = x[0, 0]
    return y


@program
def running_state(x):
    state = x[0] * 0
    out = np.zeros_like(x)
    for k in range(2):
        state *= 0.5
        state += x[k]
        out[k] = state * state
    return out


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_program(f):
    check(f, X)


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_second_order_of_a_program(f):
    """The gradient of the program's sum of squares, as a function of its own."""

    def gradient(x):
        return minigrad.grad(lambda x: np.sum(f(x * 1.0) ** 2), x)

    rng = generator("second order")
    v, t = rng.normal(size=X.shape).round(2), rng.normal(size=X.shape).round(2)
    _, pull = minigrad.vjp(gradient, X)
    step = 1e-5
    wanted = np.sum(v * (gradient(X + step * t) - gradient(X - step * t))) / (2 * step)
    assert np.sum(pull(v)[0] * t) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


VIEWS = [
    lambda y, rng: y[rng.integers(y.shape[0])] if y.ndim > 1 else y[:],
    lambda y, rng: y[..., ::-1],
    lambda y, rng: y[: max(1, y.shape[0] - 1)],
    lambda y, rng: y.T,
    lambda y, rng: np.expand_dims(y, 0),
    lambda y, rng: y.reshape(-1),
    lambda y, rng: np.ravel(y)[1:],
    lambda y, rng: np.squeeze(y) if y.size > 1 else y[:],
    lambda y, rng: np.flip(y, 0),
]
WRITES = [
    lambda y, v, rng: y.__setitem__(..., v * 2),
    lambda y, v, rng: y.__setitem__(rng.integers(y.shape[0]), v * v),
    lambda y, v, rng: y.__iadd__(v),
    lambda y, v, rng: y.__imul__(v),
    lambda y, v, rng: y[..., :2].__isub__(v),
    lambda y, v, rng: y.__setitem__(rng.integers(0, y.shape[0], 3), v),
    lambda y, v, rng: y.__setitem__(rng.random(y.shape) < 0.5, v),
    lambda y, v, rng: np.add.at(y, rng.integers(0, y.shape[0], 3), v),
]


def random_program(seed):
    """Return a function that makes and writes to random views of two arrays, and reads them in between."""

    def run(x):
        rng = np.random.default_rng(seed)
        arrays = [x * 1.0, x * x]
        total = 0.0
        for _ in range(8):
            y = arrays[rng.integers(len(arrays))]
            action = rng.integers(3)
            if action == 0:
                arrays.append(VIEWS[rng.integers(len(VIEWS))](y, rng))
            elif action == 1:
                other = arrays[rng.integers(len(arrays))]
                value = np.ravel(other)[rng.integers(other.size)] * 0.5
                WRITES[rng.integers(len(WRITES))](y, value, rng)
            else:
                total = total + np.sum(y * np.arange(1.0, y.size + 1).reshape(y.shape))
        return total + sum(np.sum(np.sin(y) * np.arange(1.0, y.size + 1).reshape(y.shape)) for y in arrays)

    return run


@pytest.mark.parametrize("seed", range(150))
def test_random_views_and_writes(seed):
    check(random_program(seed), X)


# --- what cannot be recorded is refused


@pytest.mark.parametrize(
    "write",
    [
        lambda buffer, x: buffer.__setitem__(slice(None), x),
        lambda buffer, x: buffer.__iadd__(x),
        lambda buffer, x: np.copyto(buffer, x),
        lambda buffer, x: np.multiply(x, 2, out=buffer),
        lambda buffer, x: np.add.at(buffer, [0, 1, 0], x),
        lambda buffer, x: np.sum(x[None], axis=0, out=buffer),
        lambda buffer, x: np.put(buffer, [0, 1, 2], x),
    ],
)
def test_writing_a_tensor_into_a_plain_array_raises(write):
    with pytest.raises(CutGraphError, match="plain array"):
        minigrad.grad(lambda x: np.sum(x) + write(np.zeros(3), x), np.ones(3))


def test_writing_an_element_into_a_plain_array_raises():
    def f(x):
        buffer = np.zeros(3)
        for k in range(3):
            buffer[k] = x[k] * x[k]
        return np.sum(buffer)

    with pytest.raises(CutGraphError, match="assigned into a plain array"):
        minigrad.grad(f, np.ones(3))


def test_read_only_views_are_read_only():
    for view in (
        lambda y: np.broadcast_to(y, (2, 3)),
        np.diagonal,
        lambda y: np.broadcast_to(y[0], (2, 3))[1],
    ):
        with pytest.raises(ValueError, match="read-only"):
            minigrad.grad(lambda x, view=view: view(x[None] * 1).__setitem__(0, 1.0), np.ones(3))


def test_in_place_result_of_another_dtype_is_numpys_error():
    def f(x):
        y = x * 1
        y += 1j * x
        return np.sum(np.abs(y))

    with pytest.raises(TypeError, match=r"cast .*complex128"):
        minigrad.grad(f, np.ones(3))


def test_float64_written_into_float32_is_rounded_and_keeps_its_gradient():
    def f(x):
        y = np.zeros(3, np.float32) * x.astype(np.float32)
        y[...] = x / 3
        y += x
        assert y.dtype == np.float32
        return np.sum(y * np.array([1, 2, 4], np.float32))

    got = minigrad.grad(f, np.ones(3))
    np.testing.assert_allclose(got, np.array([4, 8, 16]) / 3, rtol=1e-6)
    assert got.dtype == np.float64


def test_real_part_of_a_real_array_is_the_array():
    def f(x):
        y = x * x
        y.real[0] = 5.0
        np.real(y)[1] = x[0]
        return np.sum(y)

    assert minigrad.grad(f, np.array([1.0, 2.0, 3.0])).tolist() == [1, 0, 6]


def test_parts_of_complex_arrays_follow_their_base_and_are_not_written_to():
    def reading(x):
        y = x * (1 + 2j)
        real, imaginary = y.real, y.imag[1:]
        y[1] = x[0] * 3j
        return np.sum(real) + 10 * np.sum(imaginary)

    assert minigrad.value_and_grad(reading, np.array([1.0, 2.0, 3.0]))[0] == 94
    assert minigrad.grad(reading, np.array([1.0, 2.0, 3.0])).tolist() == [31, 0, 21]
    for part in (lambda y: y.real, lambda y: y.imag, lambda y: np.real(y)[:2]):
        with pytest.raises(NotImplementedError, match="real or imaginary part"):
            minigrad.grad(lambda x, part=part: part(x * 1j).__setitem__(0, 1.0), np.ones(3))


def test_a_value_of_the_wrong_shape_is_numpys_error():
    with pytest.raises(ValueError, match="broadcast"):
        minigrad.grad(lambda x: np.zeros_like(x).__setitem__(slice(0, 2), x), np.ones(3))


@pytest.mark.parametrize(
    "assign",
    [
        lambda y, x: y.__setitem__(0, x[1]),
        lambda y, x: operator.setitem(y, 0, x[1]),
        lambda y, x: list(map(y.__setitem__, [0], [x[1]])),
    ],
)
def test_an_assignment_that_is_spelt_out(assign):
    """No statement of Python's, but no compiled code that swaps rows either, as Generator.shuffle does."""

    def f(x):
        y = x * 1.0
        assign(y, x * x)
        return np.sum(y * np.arange(6.0).reshape(3, 2))

    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(minigrad.grad(f, x), [[0, 0], [2, 3 + 2 * 3], [4, 5]])


# ---- views of views -----------------------------------------------------------------------------


def operations(f, *args):
    return [eq.op.name for eq in minigrad.trace(f, *args).equations]


def test_the_second_half_of_an_update_records_nothing():
    def f(x):
        y = np.sin(x)
        y[1] *= 2  # Python assigns y[1] to y[1] once it has been multiplied
        y[0][1:] += 1
        return y

    assert operations(f, X).count("setitem") == 2
    check(f, X)


def test_an_update_of_a_whole_array_is_the_operation_alone():
    def f(x):
        y = np.sin(x)
        row = y[0]
        y *= 2
        y += row
        return y * row

    names = operations(f, X)
    assert "setitem" not in names and names.count("np.multiply") == 2 and names.count("np.add") == 1
    check(f, X)


def test_an_update_keeps_the_dtype_and_what_may_be_written():
    def narrow(x):
        y = np.sin(x)
        y *= np.float64(2)
        return y

    assert minigrad.vjp(narrow, X.astype(np.float32))[0].dtype == np.float32

    def stretched(x):
        y = np.broadcast_to(x, (2, 2, 3))
        y *= 2
        return y

    with pytest.raises(ValueError, match="read-only"):
        minigrad.vjp(stretched, X)


def test_a_write_through_many_views_is_one_write():
    def f(x):
        y = np.sin(x)
        views = [y]
        for _ in range(20):
            views.append(views[-1][1:])
        views[-1][0] = 2 * x[0]
        return views[5] * 3

    x = generator("views").normal(size=30).round(2)
    names = operations(f, x)
    assert names.count("setitem") == 1 and names.count("getitem") == 2, names
    check(f, x)


def test_a_write_through_a_view_that_was_turned():
    def f(x):
        y = np.sin(x)
        y.T[1][1:] = x[0, :1] * 2
        y[:, 1:].T[:, 0] *= x[1, 0]
        y.reshape(3, 2)[1:][0] += 1
        return y

    check(f, X)


@pytest.mark.parametrize("part", [lambda y: y[0], lambda y: y.T[1], lambda y: y], ids=["row", "column", "whole"])
def test_a_mask_takes_no_rows_of_values(part):
    def f(x):
        y = np.sin(x)
        view = part(y)
        view[view > -2] = np.ones((1, int(np.sum(plain(view) > -2))))
        return y

    def plain(t):
        return minigrad.stop_gradient(t)

    with pytest.raises(TypeError, match="NumPy boolean array indexing assignment requires a 0 or 1-dimensional input"):
        f(X)
    with pytest.raises(TypeError, match="NumPy boolean array indexing assignment requires a 0 or 1-dimensional input"):
        minigrad.vjp(f, X)
