"""Generate: a model that knows a verse by heart recites it, keeping the keys and values of what it read."""

import numpy as np

import minigrad
from minigrad_nn.generate import generate
from minigrad_nn.init import init
from minigrad_nn.model import Config, decode, logits, loss
from minigrad_nn.optim import adamw
from minigrad_nn.tokenizer import CharacterTokenizer

VERSE = "what you wrote forward, I walk backward; where you added, I copy; where you copied, I add."

rng = np.random.default_rng(8)
tokenizer = CharacterTokenizer.of(VERSE)
tokens = tokenizer.encode(VERSE)
config = Config(tokenizer.vocab_size, n_layer=1, width=32, n_head=2, n_kv_head=1, head_dim=16, context=96)

params = init(config, rng, dtype=np.float64)
optimiser = adamw(1e-2)
state = optimiser.init(params)
for _ in range(120):
    value, grads = minigrad.value_and_grad(loss, params, tokens[None, :-1], tokens[None, 1:], config)
    params, state = optimiser.update(grads, state, params)
print(f"loss after 120 steps {value:.4f}")

recited = tokenizer.decode(generate(params, tokens[:8], config, n_tokens=len(tokens) - 8, temperature=0))
print(recited)
assert recited == VERSE

# Token by token with the cache gives what the whole pass gives.
cache, one_by_one = None, []
for token in tokens:
    scores, cache = decode(params, np.array([[token]]), config, cache)
    one_by_one.append(scores[0, 0])
difference = np.abs(np.stack(one_by_one) - logits(params, tokens, config)).max()
print(f"token by token against the whole at once: {difference:.1e}")
assert difference < 1e-12 * np.abs(one_by_one).max()
