"""The program that trains with PyTorch, as one would who knows it well: fused projections, attention and AdamW."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from _data import BETAS, DECAY, EPS, LR, NORM_EPS, THETA, weights
from _shapes import Shape
from _training import Training
from torch import Tensor, nn


class Program(Training):
    """``compile`` and ``bf16`` are torch.compile and autocast to bfloat16."""

    def __init__(self, threads: int, compile: bool = False, bf16: bool = False) -> None:
        torch.set_num_threads(threads)
        self.compile, self.bf16 = compile, bf16

    def build(self, shape: Shape) -> None:
        torch.compiler.reset()
        model = Model(shape)
        state = {name: torch.from_numpy(value).clone() for name, value in weights(shape)}
        model.load_state_dict(state, assign=True)
        model.tie(shape)
        decay = [p for p in model.parameters() if p.ndim >= 2]
        groups = [
            {"params": decay, "weight_decay": DECAY},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, fused=True)
        self.model = torch.compile(model) if self.compile else model

    def step(self, tokens: Any, targets: Any) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16) if self.bf16 else nullcontext():
            loss = self.model(torch.from_numpy(tokens), torch.from_numpy(targets))
        loss.backward()
        self.optimizer.step()
        return float(loss.item())


class Model(nn.Module):
    """Tokens and targets (B, T) -> loss. Parameters have the names of ``Shape.parameters``."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        with torch.device("meta"):  # first values come from elsewhere
            self.transformer = Trunk(shape)
            self.lm_head = nn.Linear(shape.width, shape.vocab, bias=False)
        if shape.family == "gpt2":
            del self.lm_head.weight
        self.transformer.make_tables(shape)

    def tie(self, shape: Shape) -> None:
        """Give the output layer of a GPT-2 its weight, that of the embedding."""
        if shape.family == "gpt2":
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.lm_head(self.transformer(tokens))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Trunk(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.wte = nn.Embedding(shape.vocab, shape.width)
        self.wpe = nn.Embedding(shape.time, shape.width) if shape.family == "gpt2" else None
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = _norm(shape)

    def make_tables(self, shape: Shape) -> None:
        """Make the constants: positions, or the cosines and sines of rotary ones."""
        half = shape.width // shape.heads // 2
        angles = torch.arange(shape.time)[:, None] * THETA ** (
            -torch.arange(half, dtype=torch.float64) / half
        )
        twice = torch.cat((angles, angles), -1)
        self.positions = torch.arange(shape.time)
        self.cos, self.sin = twice.cos().float(), twice.sin().float()

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens)
        if self.wpe is not None:
            x = x + self.wpe(self.positions)
        for block in self.h:
            x = block(x, self.cos, self.sin)
        return self.ln_f(x)


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1, self.attn = _norm(shape), Attention(shape)
        self.ln_2, self.mlp = _norm(shape), MLP(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x), cos, sin)
        return x + self.mlp(self.ln_2(x))


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        bias = shape.family == "gpt2"
        self.rotary = not bias
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.c_attn = nn.Linear(shape.width, shape.packed, bias=bias)
        self.c_proj = nn.Linear(shape.width, shape.width, bias=bias)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, c = x.shape
        heads, kv = self.heads, self.kv_heads
        qkv = self.c_attn(x).view(b, t, heads + 2 * kv, c // heads).transpose(1, 2)
        if self.rotary:
            turned, v = qkv.split([heads + kv, kv], 1)
            q, k = _rotated(turned, cos, sin).split([heads, kv], 1)
        else:
            q, k, v = qkv.split([heads, kv, kv], 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat((-second, first), -1) * sin.to(x.dtype)


class MLP(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gelu = shape.family == "gpt2"
        self.c_fc = nn.Linear(shape.width, shape.hidden * (1 if self.gelu else 2), bias=self.gelu)
        self.c_proj = nn.Linear(shape.hidden, shape.width, bias=self.gelu)

    def forward(self, x: Tensor) -> Tensor:
        h = self.c_fc(x)
        if self.gelu:
            return self.c_proj(F.gelu(h, approximate="tanh"))
        gate, up = h.chunk(2, -1)
        return self.c_proj(F.silu(gate) * up)


def _norm(shape: Shape) -> nn.Module:
    kind = nn.LayerNorm if shape.family == "gpt2" else nn.RMSNorm
    return kind(shape.width, NORM_EPS)


warnings.filterwarnings("ignore", module="torch")  # of what torch.compile does not do on a CPU
