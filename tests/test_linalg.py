"""numpy.linalg where it is special: singular matrices, ties, triangles, phases, and what is refused there."""

import numpy as np
import pytest

import minigrad
from minigrad.errors import UnsupportedError
from numeric import central_difference

la = np.linalg
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.normal(size=shape).round(2)


def gradient_and_slope(f, x, second=False):
    """Return <gradient, direction> and the difference quotient of f, or of its derivative in another direction."""
    g = random(*np.shape(f(x)))
    direction, other = random(*x.shape), random(*x.shape)

    def scalar(x):
        return np.sum(g * f(x))

    if second:
        inner, scalar = scalar, lambda x: np.sum(other * minigrad.grad(inner, x))
    return np.sum(minigrad.grad(scalar, x) * direction), central_difference(scalar, (x,), (direction,))


# --- determinants

SINGULAR = {
    "rank 2 of 3": np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]]),
    "rank 1 of 3": np.outer([1.0, -2, 3], [2.0, 1, -1]),
    "rank 0 of 3": np.zeros((3, 3)),
    "rank 2 of 4": np.array([[1.0, 0, 2, 1], [0, 1, 1, -1], [1, 1, 3, 0], [1, -1, 1, 2]]),
    "a regular one with equal singular values": np.eye(3),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("a", SINGULAR.values(), ids=SINGULAR)
def test_det_of_singular_matrices(a, order):
    got, wanted = gradient_and_slope(la.det, a, second=order == 2)
    np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-9)


def test_det_of_rank_n_minus_1_has_the_cofactors_for_gradient():
    np.testing.assert_allclose(minigrad.grad(la.det, np.array([[1.0, 2], [2, 4]])), [[4, -2], [-2, 1]], atol=1e-15)
    np.testing.assert_array_equal(minigrad.grad(la.det, np.zeros((3, 3))), 0)
    np.testing.assert_array_equal(minigrad.grad(la.det, np.zeros((1, 1))), 1)


def test_third_derivative_of_det():
    """det(a + t b) is a cubic in t: its third derivative is 6 det(b)."""
    a, b = random(3, 3) + 3 * np.eye(3), random(3, 3)
    f = minigrad.grad(minigrad.grad(minigrad.grad(lambda t: la.det(a + t * b))))
    np.testing.assert_allclose(f(0.25), 6 * la.det(b), rtol=1e-10)


def test_a_singular_matrix_that_needs_its_inverse_says_where():
    with pytest.raises(la.LinAlgError, match="Singular") as caught:
        minigrad.grad(lambda a: la.slogdet(a)[1], np.zeros((2, 2)))
    (note,) = caught.value.__notes__
    assert note.startswith("in the adjoint of np.linalg.slogdet, called at ")
    assert "test_linalg.py" in note


# --- ties: pairs of equal eigenvalues or singular values contribute 0


def test_eigenvalues_that_are_equal():
    a = np.diag([2.0, 2.0, 5.0])
    weights = np.array([1.0, 1.0, 3.0])  # what depends on the sum of the equal ones only is differentiable
    np.testing.assert_allclose(minigrad.grad(lambda x: np.sum(weights * la.eigvalsh(x)), a), np.diag(weights))
    np.testing.assert_allclose(minigrad.grad(lambda x: np.sum(weights * la.eigh(x)[0]), a), np.diag(weights))


@pytest.mark.parametrize("a", [np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1.0, 2.0]), np.ones((3, 3))])
def test_ties_are_finite_at_first_and_second_order(a):
    g = random(3, 3)
    for f in (
        lambda x: la.eigh(x)[1],
        lambda x: la.svd(x)[0],
        lambda x: la.svd(x)[2],
        lambda x: la.svdvals(x),
        lambda x: np.real(la.eig(x + np.diag([0.0, 0.0, 1.0]))[0]),  # complex from NumPy 2.5 on
    ):
        first = minigrad.grad(lambda x, f=f: np.sum(g * f(x)), a)
        second = minigrad.grad(
            lambda x, f=f: np.sum(g * minigrad.grad(lambda y: np.sum(g * f(y)), x)), a, unused="zero"
        )
        assert np.all(np.isfinite(first))
        assert np.all(np.isfinite(second))


def test_a_tie_but_for_rounding_is_a_tie():
    q = la.qr(random(4, 4))[0]
    a = q @ np.diag([1.0, 1.0, 1.0, 3.0]) @ q.T
    g = minigrad.grad(lambda x: np.sum(la.eigh((x + x.T) / 2)[1] ** 3), a)
    assert np.max(np.abs(g)) < 10


@pytest.mark.parametrize("order", ["fro", "nuc", 2, 1, np.inf])
def test_norms_at_zero_have_gradient_zero(order):
    np.testing.assert_array_equal(minigrad.grad(lambda x: la.norm(x, order), np.zeros((2, 3))), 0)


@pytest.mark.parametrize("order", [-1, -2, 0.5, 1, 2, 3, np.inf])
def test_norms_of_a_vector_with_a_zero(order):
    """A zero contributes as |0| does, nothing; where it makes the whole norm 0, so do the others."""
    x = np.array([2.0, 0.0, -1.0])
    with np.errstate(divide="ignore"):
        g = minigrad.grad(lambda x: la.norm(x, order), x)
    assert g[1] == 0
    assert np.all(np.isfinite(g))
    if order < 0:
        np.testing.assert_array_equal(g, 0)


def test_nuclear_norm_of_a_singular_matrix():
    """The singular value of 0 is at a kink and contributes 0; the gradient is u v^T of the others."""
    u, v = np.array([0.6, 0.8]), np.array([1.0, 0.0])
    np.testing.assert_allclose(
        minigrad.grad(lambda x: la.norm(x, "nuc"), 2 * np.outer(u, v)), np.outer(u, v), atol=1e-15
    )


# --- one triangle: NumPy reads one, and the gradient is on it

SPD = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])


@pytest.mark.parametrize(
    ("f", "mask"),
    [
        (la.cholesky, np.tril),
        (lambda a: la.cholesky(a, upper=True), np.triu),
        (la.eigvalsh, np.tril),
        (lambda a: la.eigvalsh(a, "U"), np.triu),
        (lambda a: la.eigh(a)[0], np.tril),
        (lambda a: la.pinv(a, hermitian=True), np.tril),
    ],
)
def test_the_gradient_is_on_the_triangle_that_numpy_reads(f, mask):
    g = random(*f(SPD).shape)
    gradient = minigrad.grad(lambda a: np.sum(g * f(a)), SPD)
    np.testing.assert_array_equal(gradient, mask(gradient))
    got, wanted = gradient_and_slope(f, SPD)
    np.testing.assert_allclose(got, wanted, rtol=1e-8)


def test_symmetrised_it_is_the_gradient_among_symmetric_matrices():
    w, v = la.eigh(SPD)
    gradient = minigrad.grad(lambda a: la.eigvalsh(a)[-1], SPD)
    np.testing.assert_allclose((gradient + gradient.T) / 2, np.outer(v[:, -1], v[:, -1]), rtol=1e-12)
    logdet = minigrad.grad(lambda a: 2 * np.sum(np.log(np.diagonal(la.cholesky(a)))), SPD)
    np.testing.assert_allclose((logdet + logdet.T) / 2, la.inv(SPD), rtol=1e-12)
    assert w[-1] > w[-2]


# --- what is arbitrary has no gradient

COMPLEX = random(3, 3) + 1j * random(3, 3)
REFUSED = {
    "the phase of eigenvectors": (
        lambda a: np.real((1 + 1j) * la.eigh(a)[1][0, 0]),
        "phases of the complex vectors of np.linalg.eigh",
    ),
    "the phase of unsymmetric eigenvectors": (
        lambda a: np.real((1 + 1j) * la.eig(a)[1][1, 0]),
        "vectors of np.linalg.eig,",
    ),
    "the phase of singular vectors": (lambda a: np.real((1 + 1j) * la.svd(a)[0][0, 0]), "vectors of np.linalg.svd"),
    "columns that complete u": (lambda a: np.abs(la.svd(a[:, :2])[0][0, 2]), "full_matrices=False"),
    "rows that complete vh": (lambda a: np.abs(la.svd(a[:2])[2][2, 0]), "full_matrices=False"),
    "columns that complete q": (lambda a: np.abs(la.qr(a[:, :2], "complete")[0][0, 2]), "mode='reduced'"),
    "raw reflectors": (lambda a: np.abs(la.qr(a, "raw")[0][0, 0]), "mode='reduced'"),
    "a pseudo-inverse that truncates": (lambda a: np.abs(la.pinv(a, 0.9)[0, 0]), "lower the cut-off"),
    "least squares that truncate": (lambda a: np.abs(la.lstsq(a, a[:, 0], 0.9)[0][0]), "lower the cut-off"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_arbitrary_is_refused(case):
    f, message = REFUSED[case]
    with pytest.raises(UnsupportedError, match=message):
        minigrad.grad(f, COMPLEX)


def test_full_svd_is_right_where_only_its_first_vectors_are_used():
    a = random(4, 2)

    def rebuilt(full):
        def f(a):
            u, s, vh = la.svd(a, full_matrices=full)
            return np.sum((u[:, :2] * s**2) @ vh * random_like)

        return f

    random_like = random(4, 2)
    np.testing.assert_allclose(minigrad.grad(rebuilt(True), a), minigrad.grad(rebuilt(False), a), rtol=1e-12)


def test_rank_is_a_plain_number():
    ranks = []
    minigrad.grad(lambda a: ranks.append(la.matrix_rank(a)) or np.sum(a * a), SPD)
    assert ranks == [3]
    assert isinstance(ranks[0], np.integer)


def test_pinv_of_a_matrix_that_keeps_its_rank():
    """a = b c has rank 2 wherever b and c go: then the pseudo-inverse of a singular matrix is differentiable."""
    b, c = random(4, 2), random(2, 3)
    got, wanted = gradient_and_slope(lambda b: la.pinv(b @ c), b)
    np.testing.assert_allclose(got, wanted, rtol=1e-7)
