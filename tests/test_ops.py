"""Every op against NumPy and against numerical derivatives: the rows of tests/cases, multiplied by the modes below.

Each mode is a test function that runs all cases of a row. Directions and cotangents are random; a failure names the
case, and `cases.cases(row)` draws its arrays again.
"""

from collections import Counter

import numpy as np
import pytest

import minigrad
from cases import cases, collect, outputs
from minigrad.op import COMPOSITES, OPS, Op, public_name
from numeric import central_difference
from samples import direction, generator

ROWS = collect()


def rows(fact=None):
    """Parametrize a test over the rows of which a fact is true."""
    chosen = [r for r in ROWS if fact is None or getattr(r, fact)]
    return pytest.mark.parametrize("row", chosen, ids=[r.name for r in chosen])


def pairing(left, right):
    """Return Re(sum(l * r)) over two tuples of arrays."""
    return sum(float(np.sum(np.real(l * r))) for l, r in zip(left, right, strict=True))


def agree(got, wanted, tolerance, case, scale=None):
    """Raise unless two numbers agree, relative to the larger of 1e-2, the wanted and the scale."""
    size = max(abs(wanted), 1e-2, *([] if scale is None else [scale]))
    assert abs(got - wanted) <= tolerance * size, f"{case}: got {got}, wanted {wanted}"


def seeded(case, *more):
    """Return random directions for the arrays of a case and random cotangents for its results."""
    rng = generator(f"{case} directions")
    tangents = tuple(direction(x, rng) for x in case.primals)
    return tangents, tuple(direction(y, rng) for y in case(*case.primals))


def pulled(case, primals=None, cotangents=None):
    """Return the gradients of a case."""
    primals = case.primals if primals is None else primals
    _, pull = minigrad.vjp(case, *primals)
    return pull(seeded(case)[1] if cotangents is None else cotangents)


def check_gradient(case, tolerance=1e-6):
    """Compare <g, J t> by differences of the forward function with <J' g, t>."""
    tangents, cotangents = seeded(case)
    wanted = central_difference(lambda *x: pairing(cotangents, case(*x)), case.primals, tangents)
    got = pulled(case, cotangents=cotangents)
    for g, x in zip(got, case.primals, strict=True):
        assert np.shape(g) == np.shape(x) and g.dtype == x.dtype, f"{case}: {g.dtype} {np.shape(g)}"
    scale = max((float(np.max(np.abs(g), initial=0)) for g in got), default=0)
    agree(pairing(got, tangents), wanted, tolerance, case, scale)


@rows()
def test_value_is_numpys(row):
    for case in cases(row):
        wanted = outputs(case.result(*case.primals))
        got, _ = minigrad.vjp(lambda *x, case=case: tuple(outputs(case.result(*x))), *case.primals)
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert np.shape(a) == np.shape(b), f"{case}"
            assert np.asarray(a).dtype == np.asarray(b).dtype, f"{case}"
            np.testing.assert_allclose(
                a, b, rtol=0 if row.exact else 1e-13, atol=0 if row.exact else 1e-14, err_msg=str(case)
            )


@rows()
def test_gradient_against_differences(row):
    for case in cases(row):
        check_gradient(case)


@rows("analytic")
def test_gradient_against_the_complex_step(row):
    for case in cases(row):
        tangents, cotangents = seeded(case)
        moved = [x + 1e-30j * t for x, t in zip(case.primals, tangents, strict=True)]
        wanted = (
            sum(float(np.sum(np.imag(g * y))) for g, y in zip(cotangents, case(*moved), strict=True)) / 1e-30
        )
        got = pulled(case, cotangents=cotangents)
        scale = max((float(np.max(np.abs(g), initial=0)) for g in got), default=0)
        agree(pairing(got, tangents), wanted, 1e-12, case, scale)


@rows("second")
def test_second_derivative(row):
    for case in cases(row):
        tangents, cotangents = seeded(case)
        rng = generator(f"{case} second")
        v = tuple(direction(x, rng) for x in case.primals)

        def gradient(*x, case=case, cotangents=cotangents):
            return pulled(case, x, cotangents)

        wanted = central_difference(lambda *x: pairing(v, gradient(*x)), case.primals, tangents)  # noqa: B023
        _, pull = minigrad.vjp(gradient, *case.primals)
        scale = max((float(np.max(np.abs(g), initial=0)) for g in gradient(*case.primals)), default=0)
        agree(pairing(pull(v), tangents), wanted, 1e-6, case, scale)


@rows()
def test_jvp_is_the_transpose_of_vjp(row):
    for case in cases(row):
        tangents, cotangents = seeded(case)
        value, pushed = minigrad.jvp(case, case.primals, tangents)
        for a, b in zip(value, case(*case.primals), strict=True):
            assert np.shape(a) == np.shape(b), f"{case}"
        got = pulled(case, cotangents=cotangents)
        scale = max((float(np.max(np.abs(g), initial=0)) for g in got), default=0)
        agree(pairing(cotangents, pushed), pairing(got, tangents), 1e-12, case, scale)


@rows("float32")
def test_float32_stays_float32(row):
    for case in cases(row):
        _, cotangents = seeded(case)
        wanted = pulled(case, cotangents=cotangents)
        small = tuple(x.astype(np.float32) for x in case.primals)
        values, pull = minigrad.vjp(case, *small)
        for a, b in zip(values, case(*small), strict=True):
            assert a.dtype == b.dtype, f"{case}"
        got = pull(tuple(g.astype(v.dtype) for g, v in zip(cotangents, values, strict=True)))
        for g, w in zip(got, wanted, strict=True):
            assert g.dtype == np.float32, f"{case}"
            scale = max(1e-2, float(np.max(np.abs(w), initial=0)))
            np.testing.assert_allclose(g, w, rtol=0, atol=row.float32 * scale, err_msg=str(case))


CUTS = {
    "first axis empty": lambda x: x[:0],
    "last axis empty": lambda x: x[..., :0],
    "first axis of length 1": lambda x: x[:1],
    "last axis of length 1": lambda x: x[..., :1],
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@rows()
def test_empty_and_length_one_axes(row, cut):
    """The gradient is right, or NumPy itself refuses; then the call with Tensors raises as well."""
    for whole in cases(row):
        if any(np.ndim(x) == 0 for x in whole.primals):
            continue
        case = whole.at(*(np.ascontiguousarray(cut(x)) for x in whole.primals))
        try:
            values = case(*case.primals)
        except Exception:
            with pytest.raises(Exception):  # noqa: B017, PT011  # whatever it is that NumPy raises
                minigrad.vjp(case, *case.primals)
        else:
            if all(np.all(np.isfinite(v)) for v in values):
                check_gradient(case)


LAYOUTS = {
    "Fortran": lambda x: x.copy(order="F"),
    "reversed": lambda x: np.flip(np.flip(x).copy()),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
}


@pytest.mark.parametrize("arrange", LAYOUTS.values(), ids=LAYOUTS)
@rows()
def test_memory_layout_does_not_matter(row, arrange):
    for case in cases(row):
        _, cotangents = seeded(case)
        wanted = pulled(case, cotangents=cotangents)
        got = pulled(case, tuple(arrange(x) for x in case.primals), cotangents)
        for g, w in zip(got, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12, err_msg=str(case))


@rows("complex")
def test_complex_gradient(row):
    """dL = Re(sum(g * dz)): for a complex cotangent g and a complex direction."""
    checked = 0
    for case in cases(row):
        rng = generator(f"{case} imaginary parts")
        parts = (rng.uniform(0.2, 1, x.shape) for x in case.primals)
        case = case.at(*(x + 1j * part.round(2) for x, part in zip(case.primals, parts, strict=True)))
        try:
            case(*case.primals)
        except (TypeError, np.exceptions.ComplexWarning):
            continue  # NumPy takes no complex numbers here
        check_gradient(case)
        checked += 1
    assert checked


def test_every_function_has_one_row():
    functions = [r.function for r in ROWS]
    assert not {public_name(f) for f in {*OPS, *COMPOSITES} - set(functions)}
    assert not {public_name(f) for f, n in Counter(functions).items() if n > 1}


# --- the modes are no use unless they catch a wrong rule


def tanh_with(adjoint):
    """Return np.tanh as an op with another adjoint."""
    return Op(np.tanh, "x", (adjoint,), "np.tanh", kind="elementwise")


def product_with(left):
    """Return np.multiply as an op with another adjoint for its first input."""
    return Op(np.multiply, "x y", (left, lambda g, x: g * x), "np.multiply", kind="elementwise")


WRONG = {
    "a factor": (tanh_with(lambda g, out: g * (1 - out * out) * 1.0005), test_gradient_against_differences),
    "a small factor": (
        tanh_with(lambda g, out: g * (1 - out * out) * (1 + 1e-10)),
        test_gradient_against_the_complex_step,
    ),
    "the sign": (tanh_with(lambda g, out: g * (out * out - 1)), test_gradient_against_differences),
    "all zeros": (tanh_with(lambda g, out: g * 0), test_gradient_against_differences),
    "constant at second order": (
        tanh_with(lambda g, out: g * (1 - minigrad.stop_gradient(out) ** 2)),
        test_second_derivative,
    ),
    "not linear in g": (tanh_with(lambda g, out: g * g * (1 - out * out)), test_jvp_is_the_transpose_of_vjp),
    "unconjugated": (tanh_with(lambda g, out: g * (1 - out * np.conj(out))), test_complex_gradient),
    "other memory": (
        tanh_with(lambda g, x, out: g * (1 - out * out) * (1 + (np.ndim(x) == 2 and not x.flags.c_contiguous))),
        lambda row: test_memory_layout_does_not_matter(row, LAYOUTS["Fortran"]),
    ),
    "length 1": (
        tanh_with(lambda g, x_shape, out: g * (1 - out * out) * (2 if 1 in x_shape else 1)),
        lambda row: test_empty_and_length_one_axes(row, CUTS["last axis of length 1"]),
    ),
    "when broadcast": (
        product_with(lambda g, x_shape, y: g * y * (1 if np.shape(g) == x_shape else 2)),
        test_gradient_against_differences,
    ),
    "in float32": (
        product_with(lambda g, y: g * y * (1.001 if g.dtype == np.float32 else 1)),
        test_float32_stays_float32,
    ),
}


@pytest.mark.parametrize(("op", "mode"), WRONG.values(), ids=WRONG)
def test_the_modes_catch_a_wrong_rule(monkeypatch, op, mode):
    function = op.function
    row = next(r for r in ROWS if r.function is function)
    mode(row)
    monkeypatch.setitem(OPS, function, op)
    with pytest.raises(AssertionError, match=function.__name__):
        mode(row)


def test_a_wrong_value_is_caught(monkeypatch):
    row = next(r for r in ROWS if r.function is np.tanh)
    op = Op(lambda x: np.tanh(x) * (1 + 2**-52), "x", OPS[np.tanh].adjoints, "np.tanh", kind="elementwise")
    monkeypatch.setitem(OPS, np.tanh, op)
    with pytest.raises(AssertionError, match="tanh"):
        test_value_is_numpys(row)
