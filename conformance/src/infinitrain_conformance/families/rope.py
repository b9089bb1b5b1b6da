"""Rotary position embedding: both layouts of pairs, some heads or all, positions beyond 0, odd sizes, one step."""

from __future__ import annotations

import numpy as np

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import rope as oracles

CASES: list[OpCase] = []


def rope(
    d: Data,
    b: int,
    t: int,
    heads: int,
    rotated: int,
    size: int,
    interleaved: bool = True,
    position: int = 0,
    spare: int = 3,
    scale: float = 1.0,
    gradient: bool = False,
) -> Built:
    """The table has ``spare`` rows more than are used. Heads have means of their own, so that mixing them shows."""
    x = d.normal(b, t, heads * size, mean=np.arange(1.0, heads * size + 1) / size, scale=scale)
    angles = np.arange(position + t + spare)[:, None] * 100.0 ** (-2.0 * np.arange(size // 2) / size)
    oracle = oracles.rope_backward if gradient else oracles.rope
    how = (heads, rotated, interleaved, position)
    cos, sin = (Stat(f(angles).astype(np.float32).astype(np.float64)) for f in (np.cos, np.sin))
    return Built((d.like(x) if gradient else x, cos, sin, *how), oracle)


for op, gradient in (("RopeForward", False), ("RopeBackward", True)):
    for name, sizes in (
        ("qkv", (2, 7, 6, 4, 10)),
        ("halves", (2, 7, 6, 4, 10, False)),
        ("cached", (1, 5, 3, 2, 8, True, 11)),
        ("cached_halves", (1, 5, 3, 2, 8, False, 11, 0)),
        ("all_heads", (2, 3, 4, 4, 6)),
        ("one_step", (3, 1, 2, 1, 2, True, 4)),
        ("rows4096", (2, 2048, 3, 2, 4)),
    ):
        case(CASES, op, name, rope, *sizes, gradient=gradient)
    case(CASES, op, "no_heads", rope, 2, 3, 4, 0, 6, gradient=gradient, dtypes=("float32", "bfloat16"))
    case(CASES, op, "huge", rope, 1, 9, 2, 2, 8, scale=1e4, gradient=gradient, dtypes=("float32", "bfloat16"))
    case(CASES, op, "tiny", rope, 1, 9, 2, 2, 8, False, scale=1e-6, gradient=gradient, dtypes=("float32",))
