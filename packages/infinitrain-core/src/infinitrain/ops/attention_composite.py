"""Attention from other ops of the table: what a backend without an attention kernel runs [contract 4.3]."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend.dispatch import composite
from ..backend.registration import on_change
from ..creation import from_numpy
from ..device import Device
from ..dtype import HALF, float32
from .base import Cast, NoOpForward
from .elementwise import AddForward, DivForward, MulForward, MulScalarForward, SubForward
from .indexing import MaskForward
from .linear import MatmulForward
from .reduction import MaxForward, SumForward
from .shape import ConcatForward, PermuteForward, RepeatInterleaveForward, SplitForward, TransposeForward
from .unary import ExpForward, LogForward


@lru_cache(maxsize=16)
def _later(t: int, device: Device) -> Any:
    """Return which keys are later than the query, bool (t, t), on ``device``."""
    return from_numpy(np.triu(np.ones((t, t), np.bool_), 1), device)


on_change.append(_later.cache_clear)


def _heads(packed: Any, n: int) -> Any:
    """Return (B, T, n d) as (B, n, T, d)."""
    b, t, width = packed.shape
    return PermuteForward(NoOpForward(packed, (b, t, n, width // n)), (0, 2, 1, 3))


def _pack(heads: Any) -> Any:
    """Return (B, n, T, d) as (B, T, n d)."""
    b, n, t, d = heads.shape
    return NoOpForward(PermuteForward(heads, (0, 2, 1, 3)), (b, t, n * d))


def _unpack(qkv: Any, n_head: int, n_kv_head: int) -> tuple[Any, Any, Any]:
    """Return q, k, v as (B, n_head, T, d), keys and values repeated for the query heads that they serve."""
    d = qkv.shape[2] // (n_head + 2 * n_kv_head)
    q, k, v = SplitForward(qkv, (n_head * d, n_kv_head * d, n_kv_head * d), 2)
    q, k, v = _heads(q, n_head), _heads(k, n_kv_head), _heads(v, n_kv_head)
    if n_head != n_kv_head:
        k, v = (RepeatInterleaveForward(x, n_head // n_kv_head, 1) for x in (k, v))
    return q, k, v


def _scores(q: Any, k: Any, causal: bool) -> Any:
    scores = MulScalarForward(MatmulForward(q, TransposeForward(k, 2, 3)), 1.0 / math.sqrt(q.shape[-1]))
    return MaskForward(scores, _later(q.shape[2], q.device), -math.inf) if causal else scores


@composite
def AttentionForward(qkv: Any, n_head: int, n_kv_head: int, causal: bool) -> Any:
    dtype = qkv.dtype
    q, k, v = _unpack(Cast(qkv, float32) if dtype in HALF else qkv, n_head, n_kv_head)
    scores = _scores(q, k, causal)
    peak = MaxForward(scores, (3,), True)
    weights = ExpForward(SubForward(scores, peak))
    total = SumForward(weights, (3,), True)
    y = _pack(MatmulForward(DivForward(weights, total), v))
    lse = NoOpForward(AddForward(peak, LogForward(total)), q.shape[:3])
    return Cast(y, dtype) if dtype in HALF else y, lse


@composite
def AttentionBackward(
    qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool
) -> Any:
    dtype = qkv.dtype
    if dtype in HALF:
        qkv, y, grad = (Cast(x, float32) for x in (qkv, y, grad))
    q, k, v = _unpack(qkv, n_head, n_kv_head)
    b, _, t, d = q.shape
    dy = _heads(grad, n_head)
    p = ExpForward(SubForward(_scores(q, k, causal), NoOpForward(lse, (*lse.shape, 1))))
    delta = SumForward(MulForward(dy, _heads(y, n_head)), (3,), True)
    inner = SubForward(MatmulForward(dy, TransposeForward(v, 2, 3)), delta)
    ds = MulScalarForward(MulForward(p, inner), 1.0 / math.sqrt(d))
    dq = MatmulForward(ds, k)
    dk, dv = MatmulForward(TransposeForward(ds, 2, 3), q), MatmulForward(TransposeForward(p, 2, 3), dy)
    if n_head != n_kv_head:
        group = (b, n_kv_head, n_head // n_kv_head, t, d)
        dk, dv = (SumForward(NoOpForward(x, group), (2,), False) for x in (dk, dv))
    dqkv = ConcatForward((_pack(dq), _pack(dk), _pack(dv)), 2)
    return Cast(dqkv, dtype) if dtype in HALF else dqkv
