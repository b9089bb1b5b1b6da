"""Rotary position embedding: transformers' function for halves of a head, Meta's complex numbers for neighbours."""

from __future__ import annotations

from typing import Any

import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from infinitrain import ops

from .case import Case, normal

THETA = 1000.0


def _tables(size: int, length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cos and sin (length, size / 2), rounded as ours are."""
    angles = torch.outer(
        torch.arange(length).double(), THETA ** (-2 * torch.arange(size // 2).double() / size)
    )
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return angles.cos().to(wide), angles.sin().to(wide)


def _theirs(x: torch.Tensor, heads: int, rotated: int, interleaved: bool, position: int) -> torch.Tensor:
    b, t, width = x.shape
    size = width // heads
    cos, sin = (table[position:] for table in _tables(size, position + t, x.dtype))
    split = x.view(b, t, heads, size)
    turning, rest = split[:, :, :rotated], split[:, :, rotated:]
    if interleaved:
        pairs = torch.view_as_complex(turning.to(cos.dtype).reshape(b, t, rotated, size // 2, 2))
        turned = torch.view_as_real(pairs * torch.complex(cos, sin)[:, None]).flatten(3)
    else:
        double = [torch.cat((table, table), -1)[None] for table in (cos, sin)]
        q = turning.to(cos.dtype).transpose(1, 2)
        turned = apply_rotary_pos_emb(q, q, *double)[0].transpose(1, 2)
    return torch.cat((turned.to(x.dtype), rest), 2).reshape(b, t, width)


def _ours(f: Any, x: Any, heads: int, rotated: int, interleaved: bool, position: int) -> Any:
    dtype = "float64" if x.dtype.name == "float64" else "float32"
    cos, sin = ops.rope_table(x.shape[2] // heads, position + x.shape[1] + 2, THETA, dtype=dtype)
    return f(x, cos, sin, heads, rotated, interleaved=interleaved, position=position)


def _case(b: int, t: int, heads: int, rotated: int, size: int, interleaved: bool, position: int = 0) -> Case:
    layout = "neighbours" if interleaved else "halves"
    how = (heads, rotated, interleaved, position)
    return Case(
        *("rope", f"{b}x{t} {rotated} of {heads} heads of {size}, {layout}, from {position}"),
        lambda f, x: _ours(f, x, *how),
        lambda x: _theirs(x, *how),
        (normal(b, t, heads * size),),
    )


CASES = [
    _case(*sizes, interleaved, position)
    for interleaved in (True, False)
    for sizes, position in (
        ((2, 9, 6, 4, 8), 0),
        ((1, 1, 3, 2, 4), 17),
        ((2, 33, 4, 4, 16), 3),
        ((1, 5, 2, 1, 2), 0),
    )
]
