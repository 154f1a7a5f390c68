"""The reference adjoints: the gradient of every forward function of minigrad_nn, derived and written by hand.

They are evidence. Generated gradients are compared with them, so they share nothing with what they judge:
they import numpy, never minigrad, and not even the forward functions. What an adjoint needs of the forward
pass it computes again from the inputs, with short functions of the forward's name which live beside it.

One form everywhere:  <function>_adjoint(g, <the arguments of the function>)  takes the gradient g of the
output and returns one gradient per differentiable positional argument: the array if there is one, a tuple
if there are several, a dict where the argument was a dict. Each has its argument's shape and dtype.
"""

from minigrad_nn.adjoints.activations import (
    gelu_adjoint,
    gelu_tanh_adjoint,
    log_softmax_adjoint,
    relu_adjoint,
    relu_squared_adjoint,
    sigmoid_adjoint,
    silu_adjoint,
    softmax_adjoint,
)
from minigrad_nn.adjoints.attention import (
    attention_scores_adjoint,
    attention_weights_adjoint,
    attention_with_dropout_adjoint,
    causal_attention_adjoint,
    causal_attention_weights_adjoint,
    masked_softmax_adjoint,
    repeat_kv_adjoint,
    scaled_dot_product_attention_adjoint,
)
from minigrad_nn.adjoints.block import block_adjoint, multi_head_attention_adjoint
from minigrad_nn.adjoints.dense import linear_adjoint, matmul_adjoint, swiglu_adjoint
from minigrad_nn.adjoints.norms import (
    layer_norm_adjoint,
    rms_norm_adjoint,
    rmsnorm_adjoint,
    zero_centred_rms_norm_adjoint,
)
from minigrad_nn.adjoints.rope import rotate_half_split_adjoint, rotate_interleaved_adjoint
from minigrad_nn.adjoints.tokens import cross_entropy_adjoint, dropout_adjoint, embedding_adjoint

__all__ = [
    "attention_scores_adjoint",
    "attention_weights_adjoint",
    "attention_with_dropout_adjoint",
    "block_adjoint",
    "causal_attention_adjoint",
    "causal_attention_weights_adjoint",
    "cross_entropy_adjoint",
    "dropout_adjoint",
    "embedding_adjoint",
    "gelu_adjoint",
    "gelu_tanh_adjoint",
    "layer_norm_adjoint",
    "linear_adjoint",
    "log_softmax_adjoint",
    "masked_softmax_adjoint",
    "matmul_adjoint",
    "multi_head_attention_adjoint",
    "relu_adjoint",
    "relu_squared_adjoint",
    "repeat_kv_adjoint",
    "rms_norm_adjoint",
    "rmsnorm_adjoint",
    "rotate_half_split_adjoint",
    "rotate_interleaved_adjoint",
    "scaled_dot_product_attention_adjoint",
    "sigmoid_adjoint",
    "silu_adjoint",
    "softmax_adjoint",
    "swiglu_adjoint",
    "zero_centred_rms_norm_adjoint",
]
