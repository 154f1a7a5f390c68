"""Attention weights looked at: a head learns to look up a letter, and shows where it looked."""

import numpy as np

import minigrad
from minigrad_nn.attention import attention_weights

LETTERS, LENGTH, ROWS = "abcdefgh", 6, np.arange(64)

# Each position sees those before it and not itself. The first one then sees nothing: its weights are zeros.
before = np.tril(np.ones((LENGTH, LENGTH), dtype=bool), k=-1)


def weights_of(params, letters):
    """Where each position looks: letters (B, T) -> weights (B, T, T)."""
    return attention_weights(params["q"][letters], params["k"][letters], before)


def loss(params, letters, numbers, wanted):
    """The head answers, at the last position, with the numbers beside the letters it looks at."""
    answer = np.sum(weights_of(params, letters)[:, -1] * numbers, axis=-1)
    return np.mean((answer - wanted) ** 2)


rng = np.random.default_rng(6)
letters = np.stack([rng.permutation(len(LETTERS))[:LENGTH] for _ in ROWS])
earlier = rng.integers(LENGTH - 1, size=len(ROWS))
letters[:, -1] = letters[ROWS, earlier]                 # the last letter has occurred before: look there
numbers = rng.normal(size=letters.shape)
params = {"q": rng.normal(size=(len(LETTERS), 8)), "k": rng.normal(size=(len(LETTERS), 8))}

for step in range(301):
    value, grads = minigrad.value_and_grad(loss, params, letters, numbers, numbers[ROWS, earlier])
    params = minigrad.tree.map(lambda w, dw: w - 10 * dw, params, grads)
    if step % 100 == 0:
        print(f"step {step:3}   loss {value:.4f}")

weights = weights_of(params, letters)
print("\nwhere each letter of the first row looked (percent)")
print("     ", *(f"{LETTERS[i]:>4}" for i in letters[0]))
for letter, row in zip(letters[0], weights[0], strict=True):
    print(f"{LETTERS[letter]:>4}  ", *(f"{100 * share:4.0f}" for share in row))

assert np.all(weights[:, ~before] == 0)                 # nobody looks ahead, or at itself
assert np.allclose(weights[:, 1:].sum(-1), 1)
found = weights[ROWS, -1, earlier]
print(f"\nthe last letter gives its earlier self {100 * found.mean():.1f} % of its attention")
assert np.all(np.argmax(weights[:, -1], axis=-1) == earlier)
assert found.mean() > 0.95
