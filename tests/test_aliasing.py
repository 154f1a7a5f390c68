"""Views and aliases of Tensors that are written to: what NumPy would have computed, and the gradient follows it."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad
from against_numpy import agrees, refuses_alike
from minigrad.errors import UnsupportedError

X = np.array([[0.31, -0.52, 1.13, 0.74], [-0.85, 0.96, 0.27, -1.38], [0.49, 1.61, -0.63, 0.22]])
CASES = {}
REFUSED = {}


def case(f):
    """Run this function of X, shape (3, 4), on arrays and on Tensors."""
    CASES[f.__name__] = f
    return f


def refused(f):
    """NumPy raises, and so must a Tensor."""
    REFUSED[f.__name__] = f
    return f


# --- writing through views


@case
def view_of_a_view(x):
    y = x * 1
    y[1:][:, ::2][0] = x[0, :2] * 3
    return y * y


@case
def named_view_of_a_view(x):
    y = x * 1
    v = y[1:]
    w = v[:, ::2]
    w[1] *= x[1, :2]
    v[0] = x[2]
    return y * y, v * 2, w * w


@case
def base_written_then_view_read(x):
    y = x * 1
    v = y[1]
    y[1] = x[0] * 2
    return v * v


@case
def view_used_before_and_after_the_base_is_written(x):
    y = x * 1
    v = y[1]
    before = v * 2
    y[1] = x[0] * x[2]
    return before * v


@case
def two_overlapping_views(x):
    y = x * 1
    a, b = y[:2], y[1:]
    a[1] = x[0] * b[1]
    b[0] *= 2
    return a * b + y[:2]


@case
def reshaped(x):
    y = x * 1
    r = y.reshape(4, 3)
    r[1] = x[:, 0]
    r[:, 2] *= x[0]
    return y * y


@case
def reshaped_in_fortran_order(x):
    y = x * 1
    y.reshape(4, 3, order="F")[0] = 1.5
    return y * y


@case
def transposed(x):
    y = x * 1
    t = y.T
    t[0] = x[:, 1]
    t += 1
    return y * t.T


@case
def raveled(x):
    y = x * 1
    r = y.ravel()
    r[::2] = x.ravel()[1::2]
    return y * y


@case
def ravel_of_a_transpose_is_a_copy(x):
    y = (x * 1).T
    y.ravel()[::2] = 0
    return y * y


@case
def reshape_of_a_transpose_is_a_copy(x):
    y = x * 1
    y.T.reshape(2, 6)[0] = 1
    return y * y


@case
def transpose_in_memory_order_is_a_view(x):
    y = (x * 1).T
    y.reshape(12, order="A")[1] = 9
    y.ravel(order="K")[2] = x[1, 1]
    return y * y


@case
def flattened_is_a_copy(x):
    y = x * 1
    y.flatten()[0] = 5
    y.copy()[1] = 6
    return y * y


@case
def new_and_removed_axes(x):
    y = x * 1
    d = y[:, None]
    e = np.squeeze(d)
    e[0] = x[2]
    d[1, 0, 1] = 7
    np.expand_dims(y, -1)[2, 3] = x[0, 0]
    return y * e


@case
def moved_axes(x):
    y = x * 1
    np.moveaxis(y, 0, 1)[0] *= 2
    y.swapaxes(0, 1)[1] *= x[:, 1]
    np.rollaxis(y, 1)[2] += x[:, 0]
    return y * y


@case
def split_views(x):
    y = x * 1
    a, b = np.split(y, 2, axis=1)
    a[:] = b * 2
    b *= a
    return y


@case
def flipped_and_rotated(x):
    y = x * 1
    np.flip(y, 0)[0] = 3 * x[1]
    np.rot90(y)[0] = x[:, 1]
    y[::-1, ::-2][1] *= x[0, :2]
    return y * y


@case
def at_least_two_axes(x):
    y = x[0] * 1
    np.atleast_2d(y)[0, 1] = 3 * x[1, 1]
    return y * y


@case
def real_part(x):
    y = x * 1
    y.real[0] = x[1]
    np.real(y)[2] *= x[0]
    return y * y


@case
def rows_in_a_loop(x):
    y = x * 1
    for row in y:
        row *= row[0]
    return y


@case
def unpacked_rows(x):
    y = x * 1
    a, b, c = y
    a[:] = b
    b += c
    return y


@case
def diagonal_follows_its_base(x):
    y = x * 1
    d, e = np.diagonal(y), np.diag(y)
    y[0, 0] = 5 * x[1, 1]
    return d * d, e * x[0, :3]


@case
def broadcast_follows_its_base(x):
    y = x * 1
    d = np.broadcast_to(y[0], (2, 4))
    y[0] = x[1]
    return d * d


@case
def zero_dimensional_view(x):
    y = x * 1
    e = y[0, 0, ...]
    y[0, 0] = x[1, 1]
    f = y[1, 1, ...]
    f[...] = x[2, 2]
    f += x[0, 1]
    return e * y * f


@case
def element_is_a_scalar_and_no_view(x):
    y = x * 1
    e = y[0, 0]
    y[0, 0] = 5
    e += x[1, 1]
    return e * y


@refused
def diagonal_is_read_only(x):
    y = x * 1
    np.diagonal(y)[0] = 1


@refused
def broadcast_is_read_only(x):
    y = x * 1
    np.broadcast_to(y[0], (2, 4))[0] = 1


@refused
def read_only_in_place(x):
    y = np.broadcast_to(x[0] * 1, (2, 4))
    y += 1


# --- augmented assignment


@case
def name_and_alias(x):
    y = x * 1
    z = y
    z += x
    return y * z


@case
def rebinding_is_no_alias(x):
    y = x * 1
    z = y
    z = z + x
    z *= 2
    return y * z


@case
def parts(x):
    y = x * 1
    y[1] += y[0]
    y[1:] *= y[:2]
    y[[0, 0]] += x[0]
    y[y > 0.5] *= 2
    y[..., -1] -= x[1, 1]
    y[0] /= x[2]
    y[2] **= 2
    return y


@case
def matrix_product_in_place(x):
    y = x[:, :3] * 1
    y @= x[:, 1:]
    return y


@case
def remainder_in_place(x):
    y = x * 3
    y %= 1.7
    y[0] //= 0.5
    return y * x


@case
def scalar_is_immutable(x):
    y = np.sum(x * x)
    z = y
    z += 1
    return y * z


@case
def zero_dimensional_array_is_not(x):
    y = (x * 1)[0, 0, ...]
    z = y
    z += x[1, 1]
    z[...] = z * 2
    return y * z


@case
def parameter_stays(x):
    v = x[0]
    v *= 2
    return x * x


@refused
def integer_result_in_place(x):
    y = (x * 1).astype(np.float32)
    y += x * 1j


@refused
def grown_in_place(x):
    y = x[0] * 1
    y += x


# --- values


@case
def broadcast_value(x):
    y = x * 1
    y[:, 1:3] = x[0, :2]
    y[0] = x[1:2]
    return y * y


@case
def of_its_own_elements(x):
    y = x * 1
    y[[0, 1]] = y[[1, 0]]
    y[1:] = y[:-1]
    y[:, 0], y[:, 1] = y[:, 1] * 2, y[:, 0] * 3
    y[1:] += y[:-1]
    return y * x


@case
def tuple_swap_of_views(x):
    y = x * 1
    y[0], y[1] = y[1], y[0]
    return y * x


@case
def number_and_list(x):
    y = x * 1
    y[0] = 2
    y[1] = [1, 2, 3, 4]
    y[2, :2] = x[0, 0]
    return y * x


@case
def into_a_fresh_buffer(x):
    y = np.zeros_like(x)
    for i in range(3):
        for j in range(4):
            y[i, j] = x[i, j] * (y[i - 1, j] if i else 1)
    return y


@case
def into_an_empty_buffer(x):
    y = np.empty_like(x)
    y[..., ::2] = x[..., 1::2] * 2
    y[..., 1::2] = x[..., ::2]
    return y * y


@case
def of_nothing(x):
    y = x * 1
    y[0:0] = x[:0]
    y[x > 100] = x[x > 100]
    return y * y


@case
def cast_to_the_buffer(x):
    y = np.zeros_like(x, dtype=np.complex128)
    y[0] = x[1]
    return np.real(y * y)


@refused
def value_of_another_shape(x):
    y = x * 1
    y[0] = x


@refused
def index_out_of_bounds(x):
    y = x * 1
    y[5] = 1.0


@refused
def too_many_indices(x):
    y = x * 1
    y[0, 0, 0] = 1.0


# --- index arrays and masks


@case
def repeated_index_keeps_the_last(x):
    y = x * 1
    y[[0, 0, 1]] = x * x
    return y


@case
def repeated_pairs(x):
    y = x * 1
    y[[0, 0, 1], [1, 1, 2]] = x[:, 0] * x[:, 1]
    return y


@case
def repeated_index_of_a_broadcast_value(x):
    y = x * 1
    y[[0, 0, 1]] = x[2]
    y[[0, -3], 1] = x[1, 1]
    return y * y


@case
def mask(x):
    y = x * 1
    y[y > 0.5] = y[y > 0.5] ** 2
    y[y < -0.5] = x[0, 0]
    return y


@case
def mask_of_rows(x):
    y = x * 1
    y[[True, False, True]] = x[1]
    y[np.array([False, True, True]), 1] = x[0, :2]
    return y * y


@case
def through_a_view_by_arrays(x):
    y = x * 1
    v = y[:, 1:].T
    v[[0, 2]] = x[:2, :3]
    v[v > 1] = x[0, 0]
    v[[1, 1], [0, 2]] *= x[1, :2]
    return y * y


@case
def mixed_index(x):
    y = np.reshape(x, (3, 2, 2)) * 1
    y[[0, 2], :, 1] = x[:2, :2]
    y[1, ..., [0, 1]] += x[0, 0]
    y[..., None, 0][0] = x[1, 1]
    return y * y


# --- functions that write


@case
def out_of_ufuncs(x):
    y = np.empty_like(x)
    np.exp(x, out=y)
    np.multiply(y, x, out=y)
    np.add(y, 1, y)
    np.tanh(y, out=(y,))
    return y


@case
def out_is_a_view(x):
    y = np.zeros_like(x)
    np.exp(x[0], out=y[1])
    np.sum(x, axis=0, out=y[2])
    np.clip(y, -0.5, 2.5, out=y)
    return y


@case
def out_of_functions(x):
    y, z, s = np.zeros_like(x), np.zeros_like(x, shape=(2 * len(x), *x.shape[1:])), np.zeros_like(x[0])
    np.concatenate([x, x * x], out=z)
    np.concatenate([x[1:], x[:1]], 0, y)
    np.einsum("i...->...", x * y, out=s)
    np.clip(y, -0.5, 2.5, y)
    return y, z, s * s


@case
def out_of_a_product_of_several(x):
    a = np.reshape(x, (len(x), -1))
    y = np.zeros_like(a)
    np.linalg.multi_dot([a, a.T, a], out=y)
    return y * a


@case
def out_with_where(x):
    y = np.ones_like(x)
    np.exp(x, out=y, where=x > 0)
    return y


@case
def several_outs(x):
    a, b = np.empty_like(x), np.empty_like(x)
    np.modf(x * 3, out=(a, b))
    return a, b * x


@case
def copyto(x):
    y = np.zeros_like(x)
    np.copyto(y, x[0])
    np.copyto(y[1], x[2])
    np.copyto(y, x * x, where=x > 0)
    return y


@case
def put(x):
    y = x * 1
    np.put(y, [0, 5, -1], x[0])
    y.put([1, 1], 3 * x[2, 2])
    np.put(y[1], [0, 0], x[:2, 0])
    return y * y


@case
def put_along_axis(x):
    y = x * 1
    np.put_along_axis(y, np.array([[1], [2], [0]]), x[:, :1] * 2, axis=1)
    return y * y


@case
def place_and_putmask(x):
    y = x * 1
    np.place(y, y > 0, x[0])
    np.putmask(y, y < 0, x * x)
    return y


@case
def fill_diagonal(x):
    y = x * 1
    np.fill_diagonal(y, x[0, :3])
    z = np.concatenate([x[:, :2], x[:, 2:]]) * 1
    np.fill_diagonal(z, x[1, 1], wrap=True)
    return y * y, z * z


@case
def fill(x):
    y = x * 1
    y[0].fill(x[1, 1])
    return y * y


@case
def sorted_in_place(x):
    y = x * 1
    v = y[0]
    y.sort(axis=0)
    y[1].sort()
    y[2].partition(2)
    return y * x * v


@case
def add_at(x):
    y = x * 1
    np.add.at(y, [0, 0, 1], x * x)
    np.subtract.at(y, (0, [1, 1]), x[0, 0])
    np.add.at(y[2], [1, 1, 1], x[:, 0])
    np.add.at(y, y > 1, x[0, 0])
    return y * x


@case
def out_is_larger(x):
    y = np.zeros_like(x)
    np.exp(x[0], out=y)
    return y * x


@refused
def out_is_smaller(x):
    np.exp(x, out=np.zeros_like(x[0]))


@refused
def out_that_cannot_hold_it(x):
    np.multiply(x, 1j, out=np.zeros_like(x))


@pytest.mark.parametrize("f", CASES.values(), ids=CASES)
def test_as_numpy(f):
    agrees(f, X)


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED)
def test_refused_as_by_numpy(f):
    refuses_alike(f, X)


# --- where a plain array stays plain


def test_parameters_and_cotangents_are_not_written_to():
    x, g = X.copy(), X.copy()

    def f(x):
        x[0] = 3.0
        x += 1
        return x * x

    _, pull = minigrad.vjp(f, x)
    pulled = pull(g)[0]
    pulled += 1
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(g, X)


def test_assigning_a_plain_array_copies_it():
    c = np.ones(4)

    def f(x):
        y = np.zeros_like(x)
        y[0] = c
        y[1] = y[0] * 2
        return y * x

    value, _ = minigrad.vjp(f, X)
    c[:] = 5
    np.testing.assert_array_equal(value[0], X[0])


def test_read_only_error_names_the_line():
    def f(x):
        np.broadcast_to(x * 1, (2, 3, 4))[0] = 1

    with pytest.raises(ValueError, match="assignment destination is read-only") as caught:
        minigrad.vjp(f, X)
    assert re.search(r"test_aliasing\.py:\d+ +np\.broadcast_to", str(caught.value))


# --- nested differentiation


@pytest.mark.parametrize(
    "name", ["named_view_of_a_view", "two_overlapping_views", "through_a_view_by_arrays", "add_at"]
)
def test_second_derivative_through_assignment(name):
    f = CASES[name]
    weights = np.random.default_rng(1).normal(size=X.shape)

    def loss(x):
        out = f(x)
        return sum(np.sum(np.sin(part)) for part in (out if isinstance(out, tuple) else (out,)))

    agrees(lambda x: np.sum(weights * minigrad.grad(loss, x)), X)


def test_outer_tensor_written_inside_an_inner_differentiation():
    def f(x):
        seen = np.zeros_like(x)

        def inner(z):
            seen[0] = x[1] * 2  # of the outer level
            return np.sum(z * z * x)

        slope = minigrad.grad(inner, x) if not isinstance(x, np.ndarray) else 2 * x * x
        seen[0] = x[1] * 2
        return slope * seen

    agrees(f, X)


def test_inner_value_kept_in_an_outer_tensor_raises():
    """The array would hold the value, but how it came about is forgotten with the inner differentiation."""

    def f(x):
        kept = np.zeros_like(x)

        def inner(z):
            kept[0] = z[0] * 2
            return np.sum(z * z)

        return np.sum(minigrad.grad(inner, x) * kept)

    with pytest.raises(minigrad.errors.LeakedTensorError, match="whose forward pass has ended"):
        minigrad.grad(f, X)


# --- an oracle test: random programs of views, assignments and arithmetic

VIEWS = [
    "{a}[1:]", "{a}[:, ::-1]", "{a}.T", "{a}.reshape(-1)", "{a}[..., None]", "{a}[0]", "np.flip({a})", "{a}.ravel()",
    "{a}[:, 1:]", "np.swapaxes({a}, 0, -1)", "{a}", "{a} * 2.0", "np.sin({a})", "{a}.copy()", "{a}[::2]",
]  # fmt: skip
WRITES = [
    "{a}[...] = {b}", "{a} += {b}", "{a} *= {b}", "{a}[0] = {b}", "{a}[-1:] -= {b}", "{a}[[0, 0]] = {b}",
    "{a}[{a} > 0.2137] = np.mean({b})", "np.add.at({a}, [0, 0], {b})", "np.multiply({a}, {b}, out={a})",
    "{a}[..., 0] = {b}", "np.copyto({a}, {b})",
]  # fmt: skip
VALUES = ["0.5", "np.sum({c}) / 8.0", "{c}[..., :1] * 0.5", "{c}", "np.mean({c}, axis=0)"]


@st.composite
def programs(draw):
    """Draw the lines of a function of x, in which v0, v1, ... are views, copies and results."""
    lines, n = ["v0 = x * 1.0"], 1
    for _ in range(draw(st.integers(2, 9))):
        a, b = (f"v{draw(st.integers(0, n - 1))}" for _ in range(2))
        if draw(st.booleans()):
            lines.append(f"v{n} = " + draw(st.sampled_from(VIEWS)).format(a=a))
            n += 1
        else:
            value = draw(st.sampled_from(VALUES)).format(c=b)
            lines.append(draw(st.sampled_from(WRITES)).format(a=a, b=value))
    return lines, n


@settings(max_examples=250, deadline=None, derandomize=True)
@given(programs())
def test_random_programs(program):
    lines, n = program
    caught = "(ValueError, IndexError, TypeError)"
    body = [f"    try:\n        {line}\n    except {caught}: bad += {2**i}" for i, line in enumerate(lines)]
    known = "".join(f"    v{i} = x * 0.0\n" for i in range(1, n))
    names = ", ".join(f"v{i} * v{i}" for i in range(n))
    source = "def f(x):\n    bad = 0\n" + known + "\n".join(body) + f"\n    return {names}, bad * 1.0 + 0.0 * x\n"
    scope = {"np": np}
    exec(source, scope)
    agrees(scope["f"], X, tolerance=1e-6)


def test_shuffle_of_rows_is_refused_and_of_numbers_is_right():
    """Generator.shuffle swaps rows of what is no ndarray through views, so that one of them is lost."""

    def rows(w):
        w = w * 1.0
        np.random.default_rng(3).shuffle(w)
        return np.sum(w[:, 0] * np.arange(6))

    def numbers(w):
        w = w * 1.0
        np.random.default_rng(3).shuffle(w)
        return np.sum(w * np.arange(6))

    w = np.arange(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy's own: Tensor is not a Sequence
        with pytest.raises(UnsupportedError, match=r"t\[rng\.permutation\(len\(t\)\)\]"):
            minigrad.grad(rows, w[:, None])
        value, gradient = minigrad.value_and_grad(numbers, w)
    plain = w.copy()
    np.random.default_rng(3).shuffle(plain)
    assert value == np.sum(plain * np.arange(6))
    assert list(gradient[plain.astype(int)]) == list(range(6))
