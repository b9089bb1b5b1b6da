"""transformers' GPT-2 and ours with the same weights, carried over in a safetensors file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from infinitrain import nn

# transformers keeps these as (in, out), for its Conv1D; ours are (out, in), as everywhere else.
_TRANSPOSED = re.compile(r"\.(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$")


@dataclass(frozen=True)
class Sizes:
    """Sizes of one GPT-2."""

    n_layer: int = 2
    n_head: int = 3
    n_embd: int = 30
    vocab_size: int = 131
    block_size: int = 40
    expansion: float = 4.0
    eps: float = 1e-5
    tied: bool = True
    attention: str = "eager"


def theirs(sizes: Sizes, dtype: str, seed: int, spread: float) -> GPT2LMHeadModel:
    """Return transformers' model, without dropout. N(0, spread²) is added to what it starts with, so that no
    bias is 0, no norm's weight 1 and no two parameters can be mistaken for each other."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(
            n_layer=sizes.n_layer,
            n_head=sizes.n_head,
            n_embd=sizes.n_embd,
            n_inner=int(sizes.n_embd * sizes.expansion),
            vocab_size=sizes.vocab_size,
            n_positions=sizes.block_size,
            layer_norm_epsilon=sizes.eps,
            tie_word_embeddings=sizes.tied,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
            attn_implementation=sizes.attention,
        )
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=spread)
    return model.to(getattr(torch, dtype))


def ours(sizes: Sizes, dtype: str, model: GPT2LMHeadModel, folder: Path) -> nn.TransformerModel:
    """Return our model with the weights that transformers saves of ``model`` in ``folder``."""
    config = nn.TransformerConfig(
        block_size=sizes.block_size,
        vocab_size=sizes.vocab_size,
        n_layer=sizes.n_layer,
        n_head=sizes.n_head,
        n_embd=sizes.n_embd,
        ffn_expansion_ratio=sizes.expansion,
        norm_eps=sizes.eps,
        tie_weights=sizes.tied,
    )
    made = nn.TransformerModel(config, seed=1234, dtype=dtype)
    model.save_pretrained(folder)
    file = folder / "model.safetensors"
    made.load_state_dict(exchanged(safetensors.numpy.load_file(file)))
    file.unlink()  # pytest keeps the folders of its last runs
    return made


def exchanged(state: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return weights, or gradients, by name, from their layout to ours or from ours to theirs."""
    return {
        name: np.ascontiguousarray(np.asarray(value).T) if _TRANSPOSED.search(name) else np.asarray(value)
        for name, value in state.items()
    }
