"""Causal attention in PyTorch, forward and backward."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.work import Run

__all__ = ["sdpa"]


def sdpa(length: int) -> Run:
    """Run scaled_dot_product_attention on the inputs of `attention.inputs`."""
    from benchmarks.attention import inputs

    g, *leaves = map(torch.from_numpy, inputs(length))
    q, k, v = (leaf.requires_grad_() for leaf in leaves)

    def run(i: int) -> Any:
        q.grad = k.grad = v.grad = None
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(g)
        return [out.detach().numpy(), q.grad.numpy(), k.grad.numpy(), v.grad.numpy()]

    return run
