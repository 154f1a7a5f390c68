"""The generated formula in a report: nothing in it is without an explanation."""

import ast
import re

import numpy as np
import pytest

import minigrad
from minigrad.check import check_layer
from minigrad.check.formula import formula_of
from minigrad.check.generated import Generated
from minigrad.check.subject import Subject
from minigrad.errors import AdjointMismatch

RNG = np.random.default_rng(5)


def test_a_formula_is_shown_only_if_it_can_be_understood():
    """What is called dlogits_2 in the generated source stands for nothing in the user's."""

    def forward(x, w, v):
        hidden = np.tanh(x @ w)
        return hidden @ v * np.sum(hidden, axis=-1, keepdims=True), hidden * 3.0

    x, w, v = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2)), RNG.normal(size=(2, 5))
    subject = Subject.of(forward, lambda g, *args: args, [x, w, v])
    generated = Generated(subject)
    generated.gradients(subject.random_cotangents(RNG))
    shown = {t.name: formula_of(subject, t) for t in generated.truths if t.names}
    source = minigrad.adjoint_source(forward, x, w, v)
    assert re.search(r"\w_2\b", source), "the generated source has numbered names"
    assert shown["hidden"], "and still there is something to show"
    names = {"np", "g", "x", "w", "v", "hidden", "dx", "dw", "dv", "dhidden"}
    for text in shown.values():
        made = set()
        for line in text.splitlines():
            nodes = [n for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name)]
            assert {n.id for n in nodes if isinstance(n.ctx, ast.Load)} <= names | made, text
            made |= {n.id for n in nodes if isinstance(n.ctx, ast.Store)}


def test_a_formula_is_in_the_words_of_the_class():
    """`parameters["gamma"]`, `g` and `dratio` are ours; the class says self.gamma, grad_output and x_norm."""

    class Scaled:
        def __init__(self):
            self.gamma = RNG.uniform(0.5, 1.5, 4)

        def forward(self, x):
            self.x, self.size = x, np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
            self.x_norm = x / self.size
            return self.x_norm * self.gamma

        def backward(self, grad_output):
            self.grad_gamma = np.sum(grad_output * self.x_norm, axis=0)
            grad_x_norm = grad_output
            return (grad_x_norm - self.x_norm * np.sum(grad_x_norm * self.x_norm, axis=-1, keepdims=True)) / self.size

    with pytest.raises(AdjointMismatch) as caught:
        check_layer(Scaled(), RNG.normal(size=(3, 4)))
    assert caught.value.report.formula.partition("  ")[0] == "dx_norm = grad_output * self.gamma"
