"""The program that trains with infinitrain, by its public API alone."""

from __future__ import annotations

from typing import Any

from _bare import take_kernels_away
from _data import BETAS, DECAY, EPS, LR, NORM_EPS, weights
from _llama import Llama
from _shapes import Shape
from _training import Training

import infinitrain as it
from infinitrain import nn, ops, optim


class Program(Training):
    """``flat`` and ``in_place`` are the options of AdamW and of cross_entropy; ``bare`` leaves the kernels out."""

    def __init__(self, threads: int, flat: bool = True, in_place: bool = True, bare: bool = False) -> None:
        self.flat, self.in_place, self.bare = flat, in_place, bare
        it.set_num_threads(threads)

    def build(self, shape: Shape) -> None:
        with nn.init.deferred():
            self.model = Llama(shape) if shape.family == "llama" else _gpt2(shape)
        named = dict(self.model.named_parameters())
        for name, value in weights(shape):
            named.pop(name).detach().copy_(value)
        assert not named, f"no first values for {list(named)}"
        groups = optim.decay_groups(self.model.named_parameters(), DECAY)
        self.optimizer = optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS, flat=self.flat)
        if self.bare:
            take_kernels_away()

    def step(self, tokens: Any, targets: Any) -> float:
        self.optimizer.zero_grad()
        logits = self.model(it.from_numpy(tokens))
        loss = ops.cross_entropy(logits, it.from_numpy(targets), in_place=self.in_place)
        del logits  # or it would outlive what backward makes of it
        loss.backward()
        self.optimizer.step()
        return float(loss.item())


def _gpt2(shape: Shape) -> nn.Module:
    config = nn.TransformerConfig(
        block_size=shape.time,
        vocab_size=shape.vocab,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_embd=shape.width,
        norm_eps=NORM_EPS,
    )
    return nn.TransformerModel(config)
