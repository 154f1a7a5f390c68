"""An array that is overwritten between the forward and the backward pass is never silently wrong.

Either the error names the place, or the gradient is that of the values the forward pass used.
"""

import re

import numpy as np
import pytest

import minigrad
from minigrad.errors import OverwrittenError
from minigrad.fingerprint import fingerprint

X = np.array([1.5, -2.0, 3.0])


def overwritten(name):
    return pytest.raises(OverwrittenError, match=f"used as '{name}'.*was overwritten")


# --- what the backward pass needs, changed in the meantime: an error


def scale_by_changed_constant(x):
    c = np.array([1.0, 2.0, 3.0])
    y = x * c
    c[1] = 5.0
    return np.sum(y)


def scale_by_changed_base(x):
    c = np.array([[1.0, 2.0, 3.0]])
    y = x * c[0]
    c += 1
    return np.sum(y)


def scale_by_restored_too_early(x):
    w = np.array([1.0, 2.0, 4.0])
    w *= 2
    y = x * w
    w /= 2
    return np.sum(y)


def reused_buffer(x):
    buffer = np.empty(3)
    total = 0.0
    for k in range(3):
        buffer[...] = k + 1
        total = total + np.sum(x * buffer)
    return total


def changed_zero_dimensional(x):
    c = np.array(2.0)
    y = x * c
    c[...] = 3.0
    return np.sum(y)


def gather_by_changed_index(x):
    i = np.array([0, 2])
    y = x[i]
    i[:] = 1
    return np.sum(y)


def assign_by_changed_index(x):
    i = np.array([0, 2])
    y = np.zeros_like(x)
    y[i] = x[:2]
    i[:] = 1
    return np.sum(y)


def take_by_changed_index(x):
    i = np.array([0, 2])
    y = np.take(x, i)
    i[0] = 1
    return np.sum(y)


def choose_by_changed_mask(x):
    m = np.array([True, False, True])
    y = np.where(m, x, 0.0)
    m[1] = True
    return np.sum(y)


def select_by_changed_mask(x):
    m = np.array([True, False, True])
    y = x[m]
    m[:] = [False, True, True]
    return np.sum(y)


def sum_where_changed(x):
    m = np.array([True, False, True])
    y = np.sum(x, where=m)
    m[1] = True
    return y


def multiply_by_changed_matrix(x):
    w = np.ones((3, 2))
    y = x @ w
    w *= 0
    return np.sum(y)


def contract_with_changed_vector(x):
    w = np.ones(3)
    y = np.einsum("i,i->", x, w)
    w[0] = 2
    return y


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (scale_by_changed_constant, "y"),
        (scale_by_changed_base, "y"),
        (scale_by_restored_too_early, "y"),
        (reused_buffer, "y"),
        (changed_zero_dimensional, "y"),
        (gather_by_changed_index, "arrays"),
        (assign_by_changed_index, "arrays"),
        (take_by_changed_index, "arrays"),
        (choose_by_changed_mask, "condition"),
        (select_by_changed_mask, "arrays"),
        (sum_where_changed, "where"),
        (multiply_by_changed_matrix, "y"),
        (contract_with_changed_vector, "operands"),
    ],
)
def test_changed_array_raises(loss, name):
    with overwritten(name):
        minigrad.grad(loss, X)


def test_error_names_the_line_and_the_array():
    with pytest.raises(OverwrittenError) as caught:
        minigrad.grad(scale_by_changed_constant, X)
    text = str(caught.value)
    assert text.startswith("an array that np.multiply used as 'y' (float64 (3,)) was overwritten between the forward")
    assert re.search(r"used at +.*test_overwritten\.py:\d+ +y = x \* c\n", text)
    assert "fix       write to a copy" in text


PARAMETER_USES = {
    "itself": lambda x: x,
    "view": lambda x: x[1:],
    "view of a view": lambda x: x[None].T[::-1],
    "reshaped": lambda x: x.reshape(3, 1),
    "broadcast": lambda x: np.broadcast_to(x, (2, 3)),
    "astype without copy": lambda x: x.astype(np.float64, copy=False),
    "real part": lambda x: x.real,
    "split": lambda x: np.split(x, 3)[2],
}


@pytest.mark.parametrize("use", PARAMETER_USES.values(), ids=PARAMETER_USES)
def test_changed_parameter_raises(use):
    p = X.copy()

    def loss(x):
        y = use(x)
        y = y * y
        p[2] = 7.0
        return np.sum(y)

    with overwritten("x"):
        minigrad.grad(loss, p)


def test_a_parameter_given_twice_is_one_array():
    p = X.copy()

    def loss(x, y):
        z = x * y
        p[0] = 9.0
        return np.sum(z)

    with overwritten("x"):
        minigrad.grad(loss, p, p, argnums=(0, 1))


def test_changed_between_vjp_and_pull():
    p = X.copy()
    _, pull = minigrad.vjp(lambda x: x * x, p)
    g = np.array([0.5, 1.0, -1.0])
    wanted = 2 * X * g
    np.testing.assert_array_equal(pull(g)[0], wanted)
    p[0] += 1
    with overwritten("x"):
        pull(g)
    p[0] -= 1
    np.testing.assert_array_equal(pull(g)[0], wanted)


def test_changed_before_the_outer_backward_pass():
    w = np.array([1.0, 2.0, 3.0])

    def outer(x):
        value, slope = minigrad.value_and_grad(lambda z: np.sum(z * z * w), x)
        w[0] = 100.0
        return value + np.sum(slope * slope)

    with overwritten("y"):
        minigrad.grad(outer, X)


def test_changed_before_the_inner_backward_pass():
    """The inner backward pass works on Tensors of the outer one, whose values are the parameter's memory."""
    p = X.copy()

    def inner(z):
        y = np.sum(z * z)
        p[0] = 100.0
        return y

    with overwritten("x"):
        minigrad.grad(lambda x: np.sum(minigrad.grad(inner, x) ** 2), p)


def test_changed_operand_of_a_custom_adjoint_and_a_checkpoint():
    scale = minigrad.custom_adjoint(lambda x, w: x * w, lambda g, x, w: (g * w, g * x))
    for f in (scale, minigrad.checkpoint(lambda x, w: x * w)):

        def loss(x, f=f):
            w = np.ones(3)
            y = f(x, w)
            w[0] = 3.0
            return np.sum(y)

        with overwritten("leaves"):
            minigrad.grad(loss, X)


# --- changes that do not matter: no error, and the gradient of what the forward pass saw


def restored(x):
    c = np.array([1.0, 2.0, 3.0])
    y = x * c
    kept = c.copy()
    c[:] = 0
    c[:] = kept
    return np.sum(y)


def added_buffer(x):
    buffer = np.empty(3)
    total = 0.0
    for k in range(3):
        buffer[...] = k
        total = total + np.sum(x + buffer) * (k + 1)
    return total / 6 + np.sum(x)


def changed_list_operand(x):
    c = [1.0, 2.0, 3.0]
    y = x * c
    c[0] = 100.0
    return np.sum(y)


def changed_list_index(x):
    i = [0, 2]
    y = x[i]
    i[0] = 1
    return np.sum(y * np.array([1.0, 3.0])) + 2 * x[1]


def changed_list_parameter(x):
    axes = [1, 0]
    y = np.transpose(np.reshape(x, (3, 1)) * np.ones((3, 2)), axes)
    axes[:] = [0, 1]
    return np.sum(y * np.array([[0.25, 0.5, 1.0], [0.75, 1.5, 2.0]]))


def changed_array_parameter(x):
    shift = np.array([1])
    y = np.roll(x, shift, axis=0)
    shift[0] = 2
    return np.sum(y * np.array([3.0, 1.0, 2.0]))


def copied_by_assignment(x):
    w = np.array([1.0, 2.0, 3.0])
    y = np.zeros_like(x)
    y[...] = w
    y = y * x
    w[:] = 0
    return np.sum(y)


@pytest.mark.parametrize(
    "loss",
    [
        restored,
        added_buffer,
        changed_list_operand,
        changed_list_index,
        changed_list_parameter,
        changed_array_parameter,
        copied_by_assignment,
    ],
)
def test_harmless_change_is_no_error(loss):
    wanted = {"added_buffer": np.full(3, 2.0)}.get(loss.__name__, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(minigrad.grad(loss, X), wanted)


def test_parameter_changed_after_the_last_use_of_its_value():
    p = X.copy()

    def loss(x):
        y = np.exp(x)
        p[:] = 0
        return np.sum(y)

    np.testing.assert_array_equal(minigrad.grad(loss, p), np.exp(X))


# --- the caller's arrays stay as they are


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_flags_and_values_of_the_arrays_are_left_alone(writable, fails):
    p, c, i = X.copy(), np.array([1.0, 2.0, 3.0]), np.array([0, 2, 1])
    for array in (p, c, i):
        array.flags.writeable = writable

    def loss(x):
        y = x * c
        y = y[i] + minigrad.stop_gradient(x)
        y[0] = 1.0
        if fails:
            raise KeyError("the user's own")
        return np.sum(y * y)

    if fails:
        with pytest.raises(KeyError, match="the user's own"):
            minigrad.grad(loss, p)
    else:
        minigrad.grad(loss, p)
    assert [array.flags.writeable for array in (p, c, i)] == [writable] * 3
    np.testing.assert_array_equal(p, X)
    np.testing.assert_array_equal(c, [1, 2, 3])
    np.testing.assert_array_equal(i, [0, 2, 1])


# --- the fingerprint

SIZES = [1, 7, 511, 512, 513, 4097, 40_000, 150_001]
LAYOUTS = {
    "contiguous": lambda a: a,
    "Fortran": lambda a: np.asfortranarray(a.reshape(-1, 3 if a.size % 3 == 0 else 1)),
    "strided": lambda a: np.repeat(a, 2)[::2],
    "reversed": lambda a: a[::-1],
}


@pytest.mark.parametrize("arrange", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("size", SIZES)
def test_any_changed_byte_shows(size, arrange):
    rng = np.random.default_rng(size)
    array = arrange(rng.integers(0, 256, size, dtype=np.uint8))
    before = fingerprint(array)
    assert fingerprint(array.copy(order="K")) == before
    places = {0, size - 1, *rng.integers(0, size, 60).tolist()}
    for place in places:
        index = np.unravel_index(place, array.shape)
        kept = array[index]
        array[index] ^= np.uint8(1 << rng.integers(8))
        assert fingerprint(array) != before, place
        array[index] = kept
    assert fingerprint(array) == before


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("size", [5, 700, 40_003])
def test_any_two_swapped_elements_show(size, dtype):
    rng = np.random.default_rng(size)
    array = (rng.normal(size=size) * 50).astype(np.int64).astype(dtype) if dtype is not bool else rng.random(size) < 0.5
    before = fingerprint(array)
    tried = 0
    while tried < 100:
        # Elements 8 bytes apart times anything lie at the same place of their words: there the top bits are alone.
        step = max(1, 8 // array.itemsize) if size > 100 and tried % 2 else 1
        i, j = rng.integers(0, size // step, 2) * step + step - 1
        if array[i] == array[j]:
            continue
        tried += 1
        array[[i, j]] = array[[j, i]]
        assert fingerprint(array) != before, (i, j)
        array[[i, j]] = array[[j, i]]


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64, np.complex128])
def test_changed_signs_show(dtype):
    """Their bits are the highest of the words, which arithmetic modulo 2**64 nearly ignores."""
    rng = np.random.default_rng(0)
    for array in (rng.normal(size=40_000), rng.choice([-1.0, 1.0], 40_000), np.ones(40_000)):
        array = (array * 50).astype(dtype)
        before = fingerprint(array)
        assert fingerprint(-array) != before
        for count in (2, 4, 1000):
            changed = array.copy()
            changed[rng.choice(array.size, count, replace=False)] *= -1
            assert fingerprint(changed) != before


def test_blocks_that_trade_places_show():
    array = np.random.default_rng(1).normal(size=1 << 16)
    swapped = array.reshape(2, -1)[::-1].reshape(-1)
    assert fingerprint(swapped) != fingerprint(array)


def test_objects_are_compared_by_identity():
    array = np.array([1, "a", None], dtype=object)
    before = fingerprint(array)
    array[1] = "b"
    assert fingerprint(array) != before


# --- an array that many ops used


def test_each_use_is_checked_although_the_array_is_read_once():
    """The backward pass reads an array once for all ops that used it; each compares with its own fingerprint."""
    w = np.linspace(1, 2, 1000)

    def loss(x, scale):
        y = x * w
        w[:] *= scale
        return np.sum(y * w)

    assert minigrad.grad(lambda x: loss(x, 1.0), np.ones(1000))[0] == 1
    for scale in (2.0, -1.0):
        with overwritten("y"):
            minigrad.grad(lambda x, s=scale: loss(x, s), np.ones(1000))
        w[:] = np.linspace(1, 2, 1000)


def test_an_adjoint_that_writes_into_an_array():
    w = np.linspace(1, 2, 3)

    def adjoint(g, x):
        w[1] = 7.0
        return g

    writes = minigrad.custom_adjoint(lambda x: x * 1, adjoint)
    with overwritten("y"):
        minigrad.grad(lambda x: np.sum(writes(x * w) * w), np.ones(3))
