"""Attention on packed queries, keys and values: grouped heads, odd lengths, one position, large scores, and lengths
that take several blocks of queries, the last one not full.
"""

from __future__ import annotations

import numpy as np

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import attention as oracles

CASES: list[OpCase] = []


def forward(
    d: Data, b: int, t: int, heads: int, kv: int, size: int, causal: bool = True, scale: float = 1.0
) -> Built:
    return Built((_qkv(d, b, t, heads, kv, size, scale), heads, kv, causal), oracles.attention)


def backward(
    d: Data, b: int, t: int, heads: int, kv: int, size: int, causal: bool = True, scale: float = 1.0
) -> Built:
    qkv = _qkv(d, b, t, heads, kv, size, scale)
    saved = oracles.attention(qkv, heads, kv, causal)
    y = d.round(saved["y"].value)
    return Built((qkv, y, Stat(saved["lse"].value), d.like(y), heads, kv, causal), oracles.attention_backward)


def _qkv(d: Data, b: int, t: int, heads: int, kv: int, size: int, scale: float) -> np.ndarray:
    # Values with a mean of their own: probabilities that do not add up to 1 then show.
    qkv = d.normal(b, t, (heads + 2 * kv) * size, scale=scale)
    qkv[..., (heads + kv) * size :] += 1.5
    return d.round(qkv)


for name, sizes in (
    ("gpt2", (2, 33, 4, 4, 16)),
    ("grouped", (1, 17, 6, 2, 8)),
    ("one_kv", (2, 9, 4, 1, 8)),
    ("one_step", (3, 1, 2, 2, 4)),
    ("blocks", (1, 130, 2, 2, 32)),
    ("grouped_blocks", (1, 301, 4, 2, 4)),
    ("size1", (2, 11, 3, 1, 1)),
):
    case(CASES, "AttentionForward", name, forward, *sizes)
    case(CASES, "AttentionBackward", name, backward, *sizes)
case(CASES, "AttentionForward", "full", forward, 2, 19, 2, 2, 8, causal=False)
case(CASES, "AttentionForward", "large_scores", forward, 1, 40, 2, 2, 16, scale=6.0, dtypes=("float32",))
case(CASES, "AttentionBackward", "full", backward, 2, 19, 2, 2, 8, causal=False)
for op, build in (("AttentionForward", forward), ("AttentionBackward", backward)):
    case(CASES, op, "full_blocks", build, 1, 300, 4, 2, 4, causal=False, dtypes=("float32", "bfloat16"))
    # Scores of 1e4 and more: in float32 their rounding alone moves the probabilities by a thousandth.
    case(CASES, op, "extreme_scores", build, 1, 150, 2, 1, 16, scale=50.0, clause="4.7", dtypes=("float64",))
