"""Random functions that write into arrays: their emitted forward and adjoint compute what NumPy and the tape do."""

import random

import numpy as np
import pytest

import minigrad
from emitting import assert_same, on_the_tape, run
from minigrad.emit import emit_adjoint, emit_forward

EXPRESSIONS = [
    "np.sin({a})", "{a} * {b}", "{a} - 0.5 * {b}", "{a} @ {b}", "{a}.T + {b}", "{a}[::-1] * 1.0", "np.zeros_like({a})",
    "np.exp({a} - np.max({a}, axis=1, keepdims=True))", "{a} / np.sum(np.exp({b}), axis=-1, keepdims=True)",
    "np.where({a} > 0, {a}, {b}) * 1.0", "np.cumsum({a}, axis=0)", "np.stack([{a}[0], {b}[:, 1], {a}[2]])",
    "{a} - np.mean({a}, axis=0)",
]  # fmt: skip
INDICES = ["0", "-1", "1:", "::2", "..., 1", ":, 0", "0, 1", "1:, :2", "::-1", "[2, 0, 2]", "x > 0", "..., ::2"]


def written(seed):
    """Return the source of a function that makes arrays and writes into them, through views of them too."""
    choose = random.Random(seed)
    lines, made = [], []
    for _ in range(choose.randint(3, 9)):
        a, b = (choose.choice(["x", "y", *made]) for _ in range(2))
        if not made or choose.random() < 0.45:
            made.append(choose.choice("abcd"))
            lines.append(f"{made[-1]} = {choose.choice(EXPRESSIONS).format(a=a, b=b)}")
        else:
            target, index = choose.choice(made), choose.choice(INDICES)
            value = choose.choice(["0.5", f"np.sum({a})", f"{a}[{index}]"])
            view = choose.choice(["", "", ".T", "[...]"])
            value = value if view != ".T" else "2.0"
            lines.append(f"{target}{view}[{index}] {choose.choice(['=', '+=', '*=', '-='])} {value}")
    lines.append(f"return {choose.choice([' + ', ', ']).join(sorted(set(made)))}")
    return "def f(x, y):\n    " + "\n    ".join(lines)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_function(seed):
    source = written(seed)
    scope = {"np": np}
    exec(source, scope)
    f, rng = scope["f"], np.random.default_rng(seed)
    args = [rng.normal(size=(3, 3)).round(2) for _ in range(2)]
    wanted = minigrad.tree.leaves(f(*args))
    g, gradients = on_the_tape(f, args, {})
    for tidy in (False, True):
        adjoint, forward = emit_adjoint(f, *args, tidy=tidy), emit_forward(f, *args, tidy=tidy)
        assert_same(run(adjoint.function(), g, args, {}), gradients, 1e-12 * tidy, source)
        for a, b in zip(minigrad.tree.leaves(forward.function()(*args)), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14, err_msg=source)
