"""Generated against hand-written: one gradient derived twice, and a wrong derivation found out."""

import numpy as np

import minigrad
from minigrad_nn import adjoints, layers


def difference(forward, adjoint, *args):
    """Largest relative difference between the generated gradients and those of a hand-written adjoint."""
    out, pull = minigrad.vjp(forward, *args)
    g = rng.normal(size=out.shape)                      # random: ones would hide what sums to zero
    by_hand = adjoint(g, *args)
    by_hand = by_hand if isinstance(by_hand, tuple) else (by_hand,)
    return max(np.abs(ours - theirs).max() / np.abs(theirs).max()
               for ours, theirs in zip(pull(g), by_hand, strict=True))


def forgetful_rms_norm_adjoint(g, x, weight):
    """Forgets that the mean square depends on x: a mistake that looks right and often trains."""
    rms = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    return g * weight / rms, np.sum(g * x / rms, axis=(0, 1))


rng = np.random.default_rng(4)
x, weight, bias = rng.normal(size=(2, 5, 8)), rng.normal(size=8), rng.normal(size=8)
into, back = rng.normal(size=(2, 8, 12)), rng.normal(size=(12, 8))

found = {
    "rms_norm": difference(layers.rms_norm, adjoints.rms_norm_adjoint, x, weight),
    "layer_norm": difference(layers.layer_norm, adjoints.layer_norm_adjoint, x, weight, bias),
    "softmax": difference(layers.softmax, adjoints.softmax_adjoint, x),
    "swiglu": difference(layers.swiglu, adjoints.swiglu_adjoint, x, into[0], into[1], back),
}
for name, worst in found.items():
    print(f"{name:12} differs by {worst:.1e}")
assert max(found.values()) < 1e-12

wrong = difference(layers.rms_norm, forgetful_rms_norm_adjoint, x, weight)
print(f"{'forgetful':12} differs by {wrong:.1e}")
assert wrong > 1e-2
