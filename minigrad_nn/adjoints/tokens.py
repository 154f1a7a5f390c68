"""Adjoints of what stands at the ends of a model: the embedding, the loss, and dropout.

V vocabulary   C channels   (...) any leading axes
"""

import numpy as np

from minigrad_nn.adjoints.activations import softmax


def embedding_adjoint(g: np.ndarray, weight: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Adjoint of `layers.embedding`.   g (..., C), weight (V, C), ids (...) -> dweight (V, C)

    Row v of the weight is copied to every place where ids == v, so it gets the sum of g over these places.
    """
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, g)                                      # += would lose repeated ids
    return dweight


def cross_entropy_adjoint(
    g: np.ndarray, logits: np.ndarray, targets: np.ndarray, ignore_index: int = -100
) -> np.ndarray:
    """Adjoint of `layers.cross_entropy`.   g (), logits (..., V), targets (...) -> dlogits (..., V)

    A kept row costs logsumexp(z) - z[target], whose gradient is softmax(z) - onehot(target); the loss is
    the mean over the kept rows, so each is worth g / kept. An ignored row gets zero.
    """
    rows = logits.reshape(-1, logits.shape[-1])
    flat = np.reshape(targets, -1)
    kept = np.flatnonzero(flat != ignore_index)
    drows = np.zeros_like(rows)
    drows[kept] = softmax(rows[kept])
    drows[kept, flat[kept]] -= 1
    return (drows * (g / max(kept.size, 1))).reshape(logits.shape)


def dropout_adjoint(g: np.ndarray, x: np.ndarray, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Adjoint of `layers.dropout`, with an rng in the state the forward found.   g (...), x (...) -> dx (...)

    The output is x times a mask of zeros and 1 / (1 - rate), drawn without looking at x: dx is g times it.
    """
    if rate == 0:
        return g.copy()
    if rate == 1:
        return np.zeros_like(g)
    kept = rng.random(x.shape) >= rate
    return np.where(kept, g / (1 - rate), 0)
