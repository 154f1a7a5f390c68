"""Plain NumPy just works: views, masks, assignment, loops, branches, in code that knows of no gradients."""

import numpy as np

import minigrad


def tangle(x, weight):
    """Nothing in particular, written the way NumPy code is written."""
    out = np.empty_like(x)
    out[:, ::2] = np.sin(x[:, ::2])                     # assignment into a part
    out[:, 1::2] = x[:, 1::2] ** 2
    out = np.where(out > 0.9, 0.5 * out, out)           # a comparison gives a plain array of booleans
    mixed = np.einsum("ij,kj->ik", out, weight)
    picked = mixed[[0, 2, 2], :2]                       # a repeated index: its gradients add up
    total = np.linalg.norm(picked, axis=-1).max()
    for row in mixed.reshape(-1, 2):                    # Python's own control flow, on values
        if row.sum() > 0:
            total += np.log1p(np.dot(row, row))
    return total


rng = np.random.default_rng(2)
x, weight = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
value, (dx, dweight) = minigrad.value_and_grad(lambda both: tangle(*both), (x, weight))
print(f"value {value:.6f}, the same without minigrad {tangle(x, weight):.6f}")
print("gradient with respect to x:", dx.round(3), sep="\n")

# Evidence that knows nothing of minigrad's rules: central differences in a random direction.
towards_x, towards_weight, step = rng.normal(size=x.shape), rng.normal(size=weight.shape), 1e-6
ahead = tangle(x + step * towards_x, weight + step * towards_weight)
behind = tangle(x - step * towards_x, weight - step * towards_weight)
slope = np.sum(dx * towards_x) + np.sum(dweight * towards_weight)
print(f"slope in a random direction {slope:.8f}, by central differences {(ahead - behind) / (2 * step):.8f}")
assert np.isclose(slope, (ahead - behind) / (2 * step), rtol=1e-7)

# What would lose the gradient without a word is refused, with the line and the way out.
try:
    minigrad.grad(lambda x: float(x[0, 0]) * np.sum(x), x)
except minigrad.errors.CutGraphError as error:
    print(error)
else:
    raise AssertionError("float(x) should have been refused: its gradient would have been lost")
