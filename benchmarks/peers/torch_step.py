"""The training step in PyTorch: scaled_dot_product_attention, rms_norm, fused AdamW.

Weights are stored (out, in), as torch.nn.Linear stores them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.work import B1, B2, DECAY, EPS, RATE, Params, Run, Work
from minigrad import tree
from minigrad_nn.model import Config
from minigrad_nn.rope import rope_table

__all__ = ["compiled", "eager"]

Tensor = torch.Tensor
Rope = tuple[Tensor, Tensor]


def eager(**sizes: int) -> Run:
    """Run PyTorch as it comes."""
    return _run(Work(**sizes), lambda f: f)


def compiled(**sizes: int) -> Run:
    """Run the loss, and so its backward pass, through torch.compile; the optimiser is one fused kernel already."""
    return _run(Work(**sizes), lambda f: torch.compile(f, fullgraph=True, dynamic=False))


def _run(work: Work, transform: Callable[[Any], Any]) -> Run:
    params = _params(work)
    leaves = tree.leaves(params)
    groups = [
        {"params": [p for p in leaves if p.ndim >= 2], "weight_decay": DECAY},
        {"params": [p for p in leaves if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=(B1, B2), eps=EPS, fused=True)
    batches = [(torch.from_numpy(ids), torch.from_numpy(targets)) for ids, targets in work.batches]
    loss_of = transform(_loss(work))

    def run(i: int) -> float:
        loss = loss_of(params, *batches[i % len(batches)])
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.item()  # type: ignore[no-any-return]

    return run


def _params(work: Work) -> Params:
    params = tree.map(torch.from_numpy, work.params())
    turned = tree.map(lambda t: t.T.contiguous() if t.ndim == 2 else t, params)
    turned["embedding"] = params["embedding"]  # (V, C) in both
    return tree.map(lambda t: t.requires_grad_(), turned)


def _loss(work: Work) -> Callable[[Params, Tensor, Tensor], Tensor]:
    c = work.config
    rope = tuple(torch.from_numpy(t) for t in rope_table(c.context, c.head_dim, c.theta))

    def loss(params: Params, ids: Tensor, targets: Tensor) -> Tensor:
        x = F.embedding(ids, params["embedding"])
        for block in params["blocks"]:
            x = x + _attention(_norm(x, block["attention_norm"], c), block["attention"], rope, c)
            h, mlp = _norm(x, block["mlp_norm"], c), block["mlp"]
            x = x + F.linear(F.silu(F.linear(h, mlp["gate"])) * F.linear(h, mlp["up"]), mlp["down"])
        logits = F.linear(_norm(x, params["norm"], c), params["embedding"])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return loss


def _norm(x: Tensor, weight: Tensor, c: Config) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, c.norm_eps)


def _attention(x: Tensor, p: dict[str, Tensor], rope: Rope, c: Config) -> Tensor:
    def heads(weight: Tensor) -> Tensor:
        return F.linear(x, weight).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)  # (B, H, T, D)

    q = _rotate(_norm(heads(p["q"]), p["q_norm"], c), *rope)
    k = _rotate(_norm(heads(p["k"]), p["k_norm"], c), *rope)
    out = F.scaled_dot_product_attention(q, k, heads(p["v"]), is_causal=True, enable_gqa=True)
    return F.linear(out.transpose(1, 2).flatten(2), p["o"])


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, -1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1)
