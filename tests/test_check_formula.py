"""The generated formula in a report: nothing in it is without an explanation."""

import ast
import re

import numpy as np

import minigrad
from minigrad.check.formula import formula_of
from minigrad.check.generated import Generated
from minigrad.check.subject import Subject

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
