"""Train: a small transformer on the language reference. `python -m minigrad_nn train` is this, grown.

The engine is one line of the loop. The rest is arrays, trees of arrays, and functions of them.
"""

import numpy as np

import minigrad
from minigrad_nn.data import language_reference, random_batch, split, windows
from minigrad_nn.init import init
from minigrad_nn.model import Config, loss
from minigrad_nn.optim import adamw, clip_by_global_norm
from minigrad_nn.schedule import warmup_cosine
from minigrad_nn.tokenizer import CharacterTokenizer

STEPS = 200

rng = np.random.default_rng(7)
text = language_reference()[:100_000]
tokenizer = CharacterTokenizer.of(text)
config = Config(tokenizer.vocab_size, n_layer=2, width=32, n_head=2, n_kv_head=1, head_dim=16, context=32)
train, validation = split(tokenizer.encode(text), config.context)

params = init(config, rng)
optimiser = adamw(warmup_cosine(peak=1e-2, warmup=20, total=STEPS))
state = optimiser.init(params)
for step in range(STEPS):
    ids, targets = random_batch(train, 12, config.context, rng)
    value, grads = minigrad.value_and_grad(loss, params, ids, targets, config)
    grads, norm = clip_by_global_norm(grads, 1.0)
    params, state = optimiser.update(grads, state, params)
    if step % 50 == 0:
        print(f"step {step:3}   loss {value:.3f}   |gradient| {norm:.2f}")

# On text it has not seen, it must do better than the best guess that knows the characters' frequencies alone.
ids, targets = next(windows(validation, 64, config.context))
held_out = loss(params, ids, targets, config)
frequency = np.bincount(train, minlength=config.vocab_size) + 1
by_frequency = np.mean(np.log(frequency.sum() / frequency[targets]))
print(f"held out: loss {held_out:.3f}; from the frequencies of characters alone {by_frequency:.3f}")
assert held_out < by_frequency - 0.5
