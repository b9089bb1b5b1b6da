"""Attention from other ops of the table, a block of queries at a time: what a backend without an attention kernel runs
[contract 4.3].
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend.dispatch import composite
from ..backend.registration import on_change
from ..creation import from_numpy
from ..device import Device
from ..kernels.tiles import query_tiles
from .base import AccumulateGrad, NoOpForward
from .compare import GtForward
from .elementwise import AddForward, DivForward, MulForward, MulScalarForward, SubForward
from .finite import IsFiniteForward
from .indexing import MaskForward, WhereForward
from .join import ConcatForward, SplitForward
from .linear import MatmulForward
from .norm_composite import narrow, wide
from .reduction import CumSumForward, MaxForward, SumForward
from .shape import PermuteForward, SliceBackward, SliceForward, TransposeForward
from .unary import ExpForward, LogForward


@lru_cache(maxsize=16)
def _positions(keys: int, device: Device) -> Any:
    """Return 0 .. keys - 1 on ``device``."""
    return from_numpy(np.arange(keys), device)


on_change.append(_positions.cache_clear)


def _heads(packed: Any, groups: int, shared: int) -> Any:
    """Return (B, T, groups shared d) as (B, groups, shared, T, d)."""
    b, t, width = packed.shape
    split = NoOpForward(packed, (b, t, groups, shared, width // (groups * shared)))
    return PermuteForward(split, (0, 2, 3, 1, 4))


def _pack(heads: Any) -> Any:
    """Return (B, groups, shared, T, d) as (B, T, groups shared d)."""
    b, g, r, t, d = heads.shape
    return NoOpForward(PermuteForward(heads, (0, 3, 1, 2, 4)), (b, t, g * r * d))


def _unpack(qkv: Any, n_head: int, n_kv_head: int) -> tuple[Any, Any, Any]:
    """Return q (B, G, r, T, d), k and v (B, G, 1, T, d): G key/value heads serving r query heads each."""
    d = qkv.shape[2] // (n_head + 2 * n_kv_head)
    q, k, v = SplitForward(qkv, (n_head * d, n_kv_head * d, n_kv_head * d), 2)
    return _heads(q, n_kv_head, n_head // n_kv_head), _heads(k, n_kv_head, 1), _heads(v, n_kv_head, 1)


def _range(x: Any, start: int, stop: int) -> tuple[tuple[int, ...], ...]:
    """Return the starts, ends and steps of rows start .. stop - 1 of x, counted along the last axis but one."""
    return (
        (0,) * (len(x.shape) - 2) + (start, 0),
        (*x.shape[:-2], stop, x.shape[-1]),
        (1,) * len(x.shape),
    )


def _rows(x: Any, start: int, stop: int) -> Any:
    """Return rows start .. stop - 1 of x (..., T, d)."""
    return x if stop - start == x.shape[-2] else SliceForward(x, *_range(x, start, stop))


def _add_rows(total: Any, part: Any) -> Any:
    """Return total + part, whose rows are total's first ones, or all where there is no total yet."""
    if total is None:
        return part
    stop = part.shape[-2]
    AccumulateGrad(SliceBackward(part, total.shape, *_range(total, 0, stop)), 1.0, total)
    return total


def _scores(q: Any, k: Any, causal: bool) -> Any:
    """Return q kᵀ / sqrt(d), the queries being the last of the keys' positions; -inf at keys that are later."""
    scores = MulScalarForward(MatmulForward(q, TransposeForward(k, 3, 4)), 1.0 / math.sqrt(q.shape[-1]))
    if not causal:
        return scores
    queries, keys = q.shape[3], k.shape[3]
    columns = NoOpForward(_positions(keys, q.device), (1, keys))
    own = _rows(NoOpForward(columns, (keys, 1)), keys - queries, keys)
    return MaskForward(scores, GtForward(columns, own), -math.inf)


def _finite(x: Any) -> Any:
    return WhereForward(IsFiniteForward(x), x, x.new_full((), 0.0))


def _product(p: Any, v: Any, causal: bool) -> Any:
    """Return p v, where 0 times an infinite or NaN value of a later key is 0."""
    if not causal:
        return MatmulForward(p, v)
    first = v.shape[3] - p.shape[3]
    own = _rows(v, first, v.shape[3])
    known = _finite(own) if not first else ConcatForward((_rows(v, 0, first), _finite(own)), 3)
    odd = WhereForward(IsFiniteForward(own), own.new_full((), 0.0), own)
    return AddForward(MatmulForward(p, known), CumSumForward(odd, 3))


@composite(
    "TransposeForward PermuteForward SliceForward SplitForward ConcatForward ExpForward LogForward "
    "AddForward SubForward DivForward MulScalarForward GtForward IsFiniteForward MatmulForward "
    "MaskForward WhereForward SumForward MaxForward CumSumForward"
)
def AttentionForward(qkv: Any, n_head: int, n_kv_head: int, causal: bool) -> Any:
    q, k, v = _unpack(wide(qkv), n_head, n_kv_head)
    b, g, r, t, _ = q.shape
    blocks: list[Any] = []
    for start, stop, seen in query_tiles(t, t, causal):
        scores = _scores(_rows(q, start, stop), _rows(k, 0, seen), causal)
        peak = MaxForward(scores, (4,), True)
        weights = ExpForward(SubForward(scores, peak))
        total = SumForward(weights, (4,), True)
        y = _product(DivForward(weights, total), _rows(v, 0, seen), causal)
        blocks.insert(0, (y, AddForward(peak, LogForward(total))))
    y, lse = (_joined(parts) for parts in zip(*blocks, strict=True))
    return narrow(_pack(y), qkv.dtype), NoOpForward(lse, (b, g * r, t))


@composite(
    "AccumulateGrad TransposeForward PermuteForward SliceForward SliceBackward SplitForward "
    "ConcatForward ExpForward SubForward MulForward MulScalarForward GtForward IsFiniteForward "
    "MatmulForward MaskForward WhereForward SumForward"
)
def AttentionBackward(
    qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool
) -> Any:
    q, k, v = _unpack(wide(qkv), n_head, n_kv_head)
    b, g, r, t, d = q.shape
    v = _finite(v)  # 0 times the others is NaN for earlier queries too; those that see them have it from y
    dy, saved = (_heads(wide(x), g, r) for x in (grad, y))
    delta = SumForward(MulForward(dy, saved), (4,), True)
    log_total = NoOpForward(lse, (b, g, r, t, 1))
    blocks: list[Any] = []
    dk = dv = None
    for start, stop, seen in query_tiles(t, t, causal):
        mine, theirs = _rows(q, start, stop), _rows(k, 0, seen)
        dyi = _rows(dy, start, stop)
        p = ExpForward(SubForward(_scores(mine, theirs, causal), _rows(log_total, start, stop)))
        dp = MatmulForward(dyi, TransposeForward(_rows(v, 0, seen), 3, 4))
        ds = MulForward(p, SubForward(dp, _rows(delta, start, stop)))
        ds = MulScalarForward(ds, 1.0 / math.sqrt(d))
        blocks.insert(0, MatmulForward(ds, theirs))
        dk, dv = _add_rows(dk, _summed(ds, mine)), _add_rows(dv, _summed(p, dyi))
    dqkv = ConcatForward((_pack(_joined(blocks)), _pack(dk), _pack(dv)), 2)
    return narrow(dqkv, qkv.dtype)


def _joined(blocks: Any) -> Any:
    return blocks[0] if len(blocks) == 1 else ConcatForward(tuple(blocks), 3)


def _summed(a: Any, b: Any) -> Any:
    """Return aᵀ b, summed over the query heads that share a key/value head."""
    product = MatmulForward(TransposeForward(a, 3, 4), b)
    return product if product.shape[2] == 1 else SumForward(product, (2,), True)
