"""Random arguments for the functions with the most ways to be called, against NumPy's value and the complex step."""

import numpy as np
import pytest

import minigrad
from numeric import complex_step


def check(f, *args, rng):
    """Compare the value with NumPy's, the gradient with the complex step, the second order with differences."""
    wanted = f(*args)
    g = rng.normal(size=np.shape(wanted))
    value, pull = minigrad.vjp(f, *args)
    np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-12)
    tangents = tuple(rng.normal(size=x.shape) for x in args)

    def along(gradients):
        return sum(np.sum(d * t) for d, t in zip(gradients, tangents, strict=True))

    slope = np.sum(g * complex_step(f, args, tangents))
    assert along(pull(g)) == pytest.approx(slope, rel=1e-10, abs=1e-10)

    weights = tuple(rng.normal(size=x.shape) for x in args)

    def gradient(*xs):
        return minigrad.vjp(f, *xs)[1](g)

    def weighted(step):
        moved = (x + step * t for x, t in zip(args, tangents, strict=True))
        return sum(np.sum(w * d) for w, d in zip(weights, gradient(*moved), strict=True))

    _, pull = minigrad.vjp(gradient, *args)
    curvature = (weighted(1e-5) - weighted(-1e-5)) / 2e-5
    assert along(pull(weights)) == pytest.approx(curvature, rel=1e-5, abs=1e-5)


def random_einsum(rng):
    """Return subscripts and arrays: repeated and missing letters, ellipses that broadcast, implicit outputs."""
    sizes = dict(zip("abcd", rng.integers(1, 4, 4).tolist(), strict=True))
    dots = rng.integers(1, 3, 2).tolist()
    terms, shapes = [], []
    for _ in range(rng.integers(1, 4)):
        letters = "".join(rng.choice(list(sizes), size=rng.integers(0, 4)))
        shape = [sizes[c] for c in letters]
        if rng.integers(3) == 0:
            place, n = int(rng.integers(0, len(letters) + 1)), int(rng.integers(0, 3))
            shape[place:place] = [int(rng.choice([1, k])) for k in dots[2 - n :]]
            letters = letters[:place] + "..." + letters[place:]
        terms.append(letters)
        shapes.append(shape)
    subscripts = ",".join(terms)
    if rng.integers(2):
        used = sorted(set(subscripts) - set(",."))
        output = "".join(rng.permutation([c for c in used if rng.integers(2)]).tolist())
        subscripts += "->" + ("..." if "..." in subscripts else "") + output
    return subscripts, [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("seed", range(120))
def test_einsum(seed):
    rng = np.random.default_rng(seed)
    subscripts, arrays = random_einsum(rng)
    check(lambda *xs: np.einsum(subscripts, *xs), *arrays, rng=rng)


def random_index(shape, rng):
    """Return an index of any kind for an array of this shape."""
    index = []
    for n in shape:
        steps = slice(None, None, int(rng.choice([-2, -1, 1, 2])))
        part = slice(*sorted(rng.integers(0, n + 1, 2).tolist()))
        many, column = rng.integers(-n, n, 3), rng.integers(-n, n, (2, 1))
        index.append(
            [int(rng.integers(-n, n)), part, steps, slice(None), many, column, rng.random(n) < 0.5][
                rng.integers(7)
            ]
        )
        if rng.integers(8) == 0:
            index.append(None)
    if rng.integers(4) == 0:
        place = int(rng.integers(0, len(index) + 1))
        index[place : place + int(rng.integers(0, 2))] = [...]
    return tuple(index[: rng.integers(1, len(index) + 1)] if rng.integers(3) == 0 else index)


@pytest.mark.parametrize("seed", range(150))
def test_index(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rng.integers(1, 4, rng.integers(1, 4)))
    index = random_index(x.shape, rng)
    try:
        shape = x[index].shape
    except IndexError:
        return  # arrays or masks that do not fit each other
    value = rng.normal(size=shape[rng.integers(0, len(shape) + 1) :])

    def assign(x, value):
        y = x * x
        y[index] = value * value
        return y

    def augment(x, value):
        y = x * x
        view = y.T
        y[index] += value * value
        return view * y.T

    def add_at(x, value):
        y = x * x
        np.add.at(y, index, value * value)
        return y

    check(lambda x: x[index] ** 2, x, rng=rng)
    check(assign, x, value, rng=rng)
    check(augment, x, value, rng=rng)
    if value.shape == shape:  # np.add.at wants no fewer dimensions where a mask takes nothing
        check(add_at, x, value, rng=rng)


@pytest.mark.parametrize("seed", range(60))
def test_pad(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rng.integers(2, 5, rng.integers(1, 4)))
    sides = (x.ndim, 2)
    mode, options = [
        ("constant", {"constant_values": rng.normal(size=sides).tolist()}),
        ("edge", {}),
        ("wrap", {}),
        ("reflect", {"reflect_type": str(rng.choice(["even", "odd"]))}),
        ("symmetric", {"reflect_type": str(rng.choice(["even", "odd"]))}),
        ("mean", {"stat_length": rng.integers(1, 4, sides).tolist()}),
        ("linear_ramp", {"end_values": rng.normal(size=sides).tolist()}),
    ][rng.integers(7)]
    widths = rng.integers(0, 6, sides).tolist()
    check(lambda x: np.pad(x, widths, mode, **options), x, rng=rng)


@pytest.mark.parametrize("seed", range(60))
def test_matmul_and_dot(seed):
    rng = np.random.default_rng(seed)
    batch = rng.integers(1, 4, rng.integers(0, 3)).tolist()
    i, j, k = rng.integers(1, 4, 3).tolist()

    def part():
        return [int(rng.choice([1, n])) for n in batch][rng.integers(0, len(batch) + 1) :]

    left = rng.normal(size=[*part(), i, j] if rng.integers(5) else [j])
    right = rng.normal(size=[*part(), j, k] if rng.integers(5) else [j])
    check(np.matmul, left, right, rng=rng)
    check(np.dot, left, right, rng=rng)


@pytest.mark.parametrize("seed", range(60))
def test_reductions(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rng.integers(1, 4, rng.integers(1, 4)))
    axes = tuple(int(i) - x.ndim * int(rng.integers(2)) for i in range(x.ndim) if rng.integers(2))
    options = {"axis": None if rng.integers(4) == 0 else axes, "keepdims": bool(rng.integers(2))}
    masked = options | {"where": rng.random(x.shape) < 0.7}
    for function in (np.sum, np.prod):
        check(lambda x, f=function: f(x, **options) ** 2, x, rng=rng)
        check(lambda x, f=function: f(x, **masked, initial=1.5) ** 2, x, rng=rng)
    check(lambda x: np.mean(x, **options) ** 2, x, rng=rng)
