"""Small training steps that use every fast kernel as training does: what `infinitrain warmup` runs.

Kernels are compiled for the types and layouts that ops hand them, so that ops are run, not kernels listed: forward,
backward into fresh and existing gradients, clipping, optimizers, mixed precision and generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .. import nn, ops, optim
from ..autograd import autocast, no_grad
from ..cpu import threads
from ..creation import from_numpy
from ..dtype import float16, float32
from ..random import step_scope
from ..tensor import Tensor


class Llama(nn.Module):
    """RMSNorm, rotary positions, grouped attention and SwiGLU; sums and norms in one op, and no logits held."""

    def __init__(self, vocabulary: int, width: int, length: int, eps: float = 1e-5) -> None:
        self.embed = nn.Embedding(vocabulary, width)
        self.norm1, self.norm2, self.norm3 = (nn.RMSNorm(width, eps) for _ in range(3))
        self.qkv = nn.Linear(width, 2 * width, bias=False)  # 4 heads, 2 of keys, 2 of values
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.cos, self.sin = ops.rope_table(width // 4, length)

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        x = self.embed(tokens)
        for interleaved in (True, False):
            qkv = ops.rope(self.qkv(self.norm1(x)), self.cos, self.sin, 8, 6, interleaved=interleaved)
            x, y = ops.add_rms_norm(self.out(ops.attention(qkv, 4, 2)), x, self.norm2.weight)
            x = x + self.down(ops.swiglu(self.gate_up(y)))
        return ops.linear_cross_entropy(self.norm3(x), self.head.weight, target)


class Plain(nn.Module):
    """What GPT-2 and LLaMA have in fused ops, one by one; other activations, dropout, half precision by hand."""

    def __init__(self, vocabulary: int, width: int) -> None:
        self.embed = nn.Embedding(vocabulary, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        x = self.embed(tokens)
        h = self.up(self.norm(x))
        h = ops.gelu(h) * ops.sigmoid(h) + ops.silu(ops.relu(ops.tanh(h)))
        h = ops.softmax(ops.cast(ops.cast(h, float16), float32)) + ops.log_softmax(h)
        x = x + self.drop(self.down(h))
        return ops.cross_entropy(self.head(x), target)


def steps() -> Iterator[None]:
    """Train a little, on shapes below and above what is split over threads; yield after each step."""
    before = threads.get_num_threads()
    try:
        for number, batch, length, width in ((1, 1, 16, 32), (1, 4, 64, 256), (2, 4, 64, 256)):
            threads.set_num_threads(number)  # code for one part and for several may differ
            yield from _steps(batch, length, width)
    finally:
        threads.set_num_threads(before)


def _steps(batch: int, length: int, width: int) -> Iterator[None]:
    config = nn.TransformerConfig(length, 256, 1, 4, width)
    gpt2 = nn.TransformerModel(config)
    rng = np.random.default_rng(0)
    tokens = from_numpy(rng.integers(0, 256, (batch, length)))
    target = from_numpy(rng.integers(0, 256, (batch, length)))

    def gpt2_loss(tokens: Tensor, target: Tensor, gpt2: nn.TransformerModel = gpt2) -> Tensor:
        return ops.cross_entropy(gpt2(tokens), target, in_place=True)

    named = list(gpt2.named_parameters())
    sgd: list[optim.Optimizer] = [optim.SGD(named, lr=1e-3), optim.SGD(named, lr=1e-3, momentum=0.9)]
    yield from _train(gpt2, gpt2_loss, tokens, target, sgd)
    for model in (Llama(256, width, length), Plain(256, width)):
        nn.init_weights(model, seed=1)
        yield from _train(model, model, tokens, target)
    gpt2.eval()
    with no_grad():
        for size in (1, length):  # one more token, and a validation batch
            gpt2_loss(tokens[:, :size], target[:, :size]).item()
    yield
    _products(length, width)
    yield


def _products(length: int, width: int) -> None:
    """A Linear whose input is data, stacks of products, and products added to what is there."""
    x = from_numpy(np.ones((4, length, width), np.float32))
    layer = nn.Linear(width, 2 * width)
    nn.init_weights(layer, seed=1)
    layer(x).sum().backward()
    y = layer(x)
    ops.matmul(y, y.transpose(1, 2)).sum().backward()
    with no_grad():
        ops.Gemm(x, x, from_numpy(np.zeros((4, width, width), np.float32)), 0.5, 1.0, True, False)


def _train(
    model: nn.Module,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    tokens: Tensor,
    target: Tensor,
    more: Sequence[optim.Optimizer] = (),
) -> Iterator[None]:
    for step, optimizer in enumerate((optim.AdamW(model.named_parameters(), weight_decay=0.1), *more)):
        optimizer.zero_grad()
        with step_scope(seed=1, step=step):
            loss_of(tokens, target).backward()
            with autocast("cpu", "bfloat16", enabled=not step):
                (loss_of(tokens, target) / 2).backward()
        scaler = optim.GradScaler()  # for its check of the gradients; they were not scaled up
        scaler.unscale_(optimizer)
        optim.clip_grad_norm(model.parameters(), 1e-9)
        scaler.step(optimizer)
        yield
