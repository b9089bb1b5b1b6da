"""A LLaMA of infinitrain's layers and ops: RMSNorm, rotary positions, grouped queries, SwiGLU, an untied head."""

from __future__ import annotations

from _data import NORM_EPS, THETA
from _shapes import Shape

from infinitrain import Tensor, nn, ops


class Attention(nn.Module):
    """Causal attention with rotated queries and keys, fewer heads of keys and values than of queries."""

    def __init__(self, shape: Shape) -> None:
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.c_attn = nn.Linear(shape.width, shape.packed, bias=False)
        self.c_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rotated = self.heads + self.kv_heads
        qkv = ops.rope(self.c_attn(x), cos, sin, rotated + self.kv_heads, rotated, interleaved=False)
        return self.c_proj(ops.attention(qkv, self.heads, self.kv_heads))


class MLP(nn.Module):
    """Gate and what it gates in one Linear, then a Linear back."""

    def __init__(self, shape: Shape) -> None:
        self.c_fc = nn.Linear(shape.width, 2 * shape.hidden, bias=False)
        self.c_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(ops.swiglu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        self.ln_1 = nn.RMSNorm(shape.width, NORM_EPS)
        self.attn = Attention(shape)
        self.ln_2 = nn.RMSNorm(shape.width, NORM_EPS)
        self.mlp = MLP(shape)

    def forward(self, x: Tensor, branch: Tensor | None, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Take the residual stream and what the block before adds to it; return both anew."""
        if branch is None:
            y = self.ln_1(x)
        else:
            x, y = ops.add_rms_norm(branch, x, self.ln_1.weight, self.ln_1.eps)
        x, y = ops.add_rms_norm(self.attn(y, cos, sin), x, self.ln_2.weight, self.ln_2.eps)
        return x, self.mlp(y)


class Trunk(nn.Module):
    def __init__(self, shape: Shape) -> None:
        self.wte = nn.Embedding(shape.vocab, shape.width)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = nn.RMSNorm(shape.width, NORM_EPS)


class Llama(nn.Module):
    """Tokens (B, T) -> logits (B, T, vocab)."""

    def __init__(self, shape: Shape) -> None:
        self.transformer = Trunk(shape)
        self.lm_head = nn.Linear(shape.width, shape.vocab, bias=False)
        self.table = ops.rope_table(shape.width // shape.heads, shape.time, THETA)

    def forward(self, tokens: Tensor) -> Tensor:
        x, branch = self.transformer.wte(tokens), None
        for block in self.transformer.h:
            x, branch = block(x, branch, *self.table)
        last = self.transformer.ln_f
        _, y = ops.add_rms_norm(branch, x, last.weight, last.eps)
        return self.lm_head(y)
