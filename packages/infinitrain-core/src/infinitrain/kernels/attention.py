"""Array kernels of attention: all scores at once; a backend with a tiled kernel registers it explicitly."""

from __future__ import annotations

import math
from typing import Any

from .registry import array_kernel


def unpack(xp: Any, qkv: Any, n_head: int, n_kv_head: int) -> tuple[Any, Any, Any]:
    """Return q (B, G, r, T, d), k and v (B, G, 1, T, d) of packed qkv, G key/value heads serving r query heads each."""
    b, t, width = qkv.shape
    d, group = width // (n_head + 2 * n_kv_head), n_head // n_kv_head
    cut = n_head * d, (n_head + n_kv_head) * d
    q = xp.reshape(qkv[:, :, : cut[0]], (b, t, n_kv_head, group, d))
    k = xp.reshape(qkv[:, :, cut[0] : cut[1]], (b, t, n_kv_head, 1, d))
    v = xp.reshape(qkv[:, :, cut[1] :], (b, t, n_kv_head, 1, d))
    order = (0, 2, 3, 1, 4)
    return tuple(xp.permute_dims(part, order) for part in (q, k, v))


def pack(xp: Any, part: Any) -> Any:
    """Return (B, G, r, T, d) as (B, T, G r d)."""
    b, g, r, t, d = part.shape
    return xp.reshape(xp.permute_dims(part, (0, 3, 1, 2, 4)), (b, t, g * r * d))


def _scores(xp: Any, q: Any, k: Any, causal: bool) -> Any:
    scores = xp.matmul(q, xp.matrix_transpose(k)) / math.sqrt(q.shape[-1])
    if not causal:
        return scores
    t = q.shape[-2]
    position = xp.arange(t, **xp.on(scores))
    hidden = xp.expand_dims(position, axis=0) > xp.expand_dims(position, axis=1)
    return xp.where(hidden, -math.inf, scores)


@array_kernel()
def AttentionForward(xp: Any, qkv: Any, n_head: int, n_kv_head: int, causal: bool) -> Any:
    q, k, v = unpack(xp, qkv, n_head, n_kv_head)
    scores = _scores(xp, q, k, causal)
    peak = xp.max(scores, axis=-1, keepdims=True)
    weights = xp.exp(scores - peak)
    total = xp.sum(weights, axis=-1, keepdims=True)
    y = xp.matmul(weights / total, v)
    b, g, r, t, _ = q.shape
    return pack(xp, y), xp.reshape(peak + xp.log(total), (b, g * r, t))


@array_kernel()
def AttentionBackward(
    xp: Any, qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool
) -> Any:
    q, k, v = unpack(xp, qkv, n_head, n_kv_head)
    b, g, r, t, d = q.shape

    def heads(packed: Any) -> Any:
        return xp.permute_dims(xp.reshape(packed, (b, t, g, r, d)), (0, 2, 3, 1, 4))

    dy = heads(grad)
    p = xp.exp(_scores(xp, q, k, causal) - xp.reshape(lse, (b, g, r, t, 1)))
    delta = xp.sum(dy * heads(y), axis=-1, keepdims=True)
    ds = p * (xp.matmul(dy, xp.matrix_transpose(v)) - delta) / math.sqrt(d)
    dq = xp.matmul(ds, k)
    dk = xp.sum(xp.matmul(xp.matrix_transpose(ds), q), axis=2, keepdims=True)
    dv = xp.sum(xp.matmul(xp.matrix_transpose(p), dy), axis=2, keepdims=True)
    return xp.concat([pack(xp, dq), pack(xp, dk), pack(xp, dv)], axis=-1)
