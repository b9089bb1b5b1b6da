"""The GPT-2 transformer (Radford et al., 2019): learned positions, pre-norm blocks, tied output layer."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

from .. import ops
from ..creation import arange
from ..device import CPU, Device
from ..dtype import DType, float32
from ..errors import ShapeError
from ..random import DEFAULT_SEED
from ..tensor import Tensor
from .config import TransformerConfig
from .containers import ModuleList
from .init import ZEROS, Normal, deferred, init_weights
from .layers import Embedding, LayerNorm, Linear, LinearGELU
from .module import Module

_STD = 0.02


class CausalSelfAttention(Module):
    """Attention of each position to itself and those before it, (B, T, C) -> (B, T, C)."""

    def __init__(self, config: TransformerConfig, **options: Any) -> None:
        self.n_head = config.n_head
        self.c_attn = _linear(config.n_embd, 3 * config.n_embd, config, _STD, options)
        self.c_proj = _linear(config.n_embd, config.n_embd, config, _residual_std(config), options)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(ops.attention(self.c_attn(x), self.n_head))


class MLP(Module):
    """Two linear layers with a GELU between them, (B, T, C) -> (B, T, C)."""

    def __init__(self, config: TransformerConfig, **options: Any) -> None:
        self.c_fc = _linear(config.n_embd, config.ffn_hidden, config, _STD, options, LinearGELU)
        self.c_proj = _linear(config.ffn_hidden, config.n_embd, config, _residual_std(config), options)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.c_fc(x))


class Block(Module):
    """One layer of the transformer: attention, then MLP, each of the normalised sum of all before it.

    (x, branch) -> (x, branch), each (B, T, C): a sum, and what the last layer adds to it. The next norm adds it in the
    pass in which it reads the sum; before the first layer there is nothing to add, and branch is None.
    """

    def __init__(self, config: TransformerConfig, **options: Any) -> None:
        self.ln_1 = LayerNorm(config.n_embd, config.norm_eps, **options)
        self.attn = CausalSelfAttention(config, **options)
        self.ln_2 = LayerNorm(config.n_embd, config.norm_eps, **options)
        self.mlp = MLP(config, **options)

    def forward(self, x: Tensor, branch: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, h = (x, self.ln_1(x)) if branch is None else self.ln_1.of_sum(x, branch)
        x, h = self.ln_2.of_sum(x, self.attn(h))
        return x, self.mlp(h)


class Trunk(Module):
    """Embeddings, blocks and the last norm: tokens (B, T) -> (B, T, C)."""

    def __init__(self, config: TransformerConfig, **options: Any) -> None:
        self.block_size = config.block_size
        self.wte = Embedding(config.vocab_size, config.n_embd, **options)
        self.wpe = Embedding(config.block_size, config.n_embd, **options)
        self.wte.declared["weight"] = self.wpe.declared["weight"] = Normal(_STD)
        self.h = ModuleList(Block(config, **options) for _ in range(config.n_layer))
        self.ln_f = LayerNorm(config.n_embd, config.norm_eps, **options)
        self._positions: dict[tuple[int, Device], Tensor] = {}

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.ndim != 2 or not 0 < tokens.shape[1] <= self.block_size:
            raise ShapeError(
                f"tokens are (batch, time), time in 1 .. {self.block_size}; got shape {list(tokens.shape)}"
            )
        x = self.wte(tokens) + self.wpe(self._position_numbers(tokens.shape[1], tokens.device))
        branch = None
        for block in self.h:
            x, branch = block(x, branch)
        return self.ln_f(x) if branch is None else self.ln_f.of_sum(x, branch)[1]

    def _position_numbers(self, length: int, device: Device) -> Tensor:
        found = self._positions.get((length, device))
        if found is None:
            if len(self._positions) > 64:  # sampling asks for every length once
                self._positions.clear()
            found = self._positions[length, device] = arange(length, device=device)
        return found


class TransformerModel(Module):
    """A GPT-2 style language model: tokens (B, T), integers, -> logits (B, T, vocab_size).

    Weights start as N(0, 0.02²), those of the layers that end a residual branch (``c_proj``) with the
    deviation divided by sqrt(2 n_layer), biases as 0, norms as 1 and 0; they depend on ``seed`` alone
    (``init_weights``). Parameters have the names that GPT-2's weights are published under; ``lm_head.weight``
    is ``transformer.wte.weight`` when tied.
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        seed: int = DEFAULT_SEED,
        device: Device | str = CPU,
        dtype: DType | str = float32,
    ) -> None:
        self.config = config
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        with deferred():
            self.transformer = Trunk(config, **options)
            self.lm_head = _linear(
                config.n_embd, config.vocab_size, replace(config, add_bias_linear=False), _STD, options
            )
            if config.tie_weights:
                self.lm_head.weight = self.transformer.wte.weight
        init_weights(self, seed)
        for name, parameter in self.named_parameters():
            parameter.name = name

    def forward(self, tokens: Tensor) -> Tensor:
        return self.lm_head(self.transformer(tokens))

    def num_parameters(self) -> int:
        """Return the number of trained numbers, tied ones once."""
        return sum(parameter.numel for parameter in self.parameters())


def _residual_std(config: TransformerConfig) -> float:
    return _STD / sqrt(2 * config.n_layer)


def _linear(
    inputs: int,
    outputs: int,
    config: TransformerConfig,
    std: float,
    options: dict[str, Any],
    kind: type[Linear] = Linear,
) -> Linear:
    layer = kind(inputs, outputs, config.add_bias_linear, **options)
    layer.declared["weight"] = Normal(std)
    if layer.bias is not None:
        layer.declared["bias"] = ZEROS
    return layer
