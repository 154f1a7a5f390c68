"""The convention of complex gradients: dL = Re(sum(g * dz)), as docs/conventions.md has it."""

import numpy as np
import pytest

import minigrad
from minigrad.errors import DtypeError


def test_the_gradient_of_a_real_loss_with_respect_to_a_complex_array():
    """dL/dx - i dL/dy: at 1 + 2i, that of |z|**2 is 2 - 4i."""
    z = np.array([1 + 2j])
    np.testing.assert_allclose(minigrad.grad(lambda z: np.sum(np.abs(z) ** 2), z), [2 - 4j])

    def loss(z):
        return np.sum(np.real(np.exp(z) * (2 - 3j)) + np.imag(z) ** 3 * np.abs(z))

    z, step = np.array([0.3 - 0.7j, -1.1 + 0.4j]), 1e-6
    g = minigrad.grad(loss, z)
    for i, unit in enumerate(np.eye(2)):
        dx = (loss(z + step * unit) - loss(z - step * unit)) / (2 * step)
        dy = (loss(z + 1j * step * unit) - loss(z - 1j * step * unit)) / (2 * step)
        np.testing.assert_allclose(g[i], dx - 1j * dy, rtol=1e-8)
    assert loss(z - 1e-3 * np.conj(g)) < loss(z) - 0.9e-3 * np.sum(np.abs(g) ** 2)  # descent is along the conjugate


def test_a_holomorphic_adjoint_conjugates_nothing():
    z, g = np.array([0.3 - 0.7j]), np.array([1.5 + 0.5j])
    _, pull = minigrad.vjp(lambda z: np.exp(2j * z), z)
    np.testing.assert_allclose(pull(g)[0], g * 2j * np.exp(2j * z))


def test_a_real_array_gets_a_real_gradient_through_complex_numbers():
    x = np.array([0.3, -0.7])
    g = minigrad.grad(lambda x: np.sum(np.abs(np.exp(1j * x) + x) ** 2), x)
    assert g.dtype == np.float64
    np.testing.assert_allclose(g, 2 * (x + np.cos(x) - x * np.sin(x)), rtol=1e-13)  # of 1 + x**2 + 2 x cos(x)
    with pytest.raises(DtypeError, match="the loss should be real, got complex128"):
        minigrad.grad(lambda x: np.sum(np.exp(1j * x)), x)
