"""Array kernels of attention, a block of queries at a time; a backend with a fused kernel registers it explicitly."""

from __future__ import annotations

import math
from typing import Any

from .registry import array_kernel
from .tiles import query_tiles


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
    """Return q kᵀ / sqrt(d), the queries being the last of the keys' positions; -inf at keys that are later."""
    scores = xp.matmul(q, xp.matrix_transpose(k)) / math.sqrt(q.shape[-1])
    if not causal:
        return scores
    position = xp.arange(k.shape[-2], **xp.on(scores))
    own = position[k.shape[-2] - q.shape[-2] :]
    hidden = xp.expand_dims(position, axis=0) > xp.expand_dims(own, axis=1)
    return xp.where(hidden, -math.inf, scores)


def _product(xp: Any, p: Any, v: Any, causal: bool) -> Any:
    """Return p v, where 0 times an infinite or NaN value of a later key is 0."""
    if not causal:
        return xp.matmul(p, v)
    first, axis = v.shape[-2] - p.shape[-2], v.ndim - 2
    own = v[..., first:, :]
    finite, none = xp.isfinite(own), xp.zeros_like(own)
    known = xp.concat([v[..., :first, :], xp.where(finite, own, none)], axis=axis)
    return xp.matmul(p, known) + xp.cumulative_sum(xp.where(finite, none, own), axis=axis)


@array_kernel()
def AttentionForward(xp: Any, qkv: Any, n_head: int, n_kv_head: int, causal: bool) -> Any:
    q, k, v = unpack(xp, qkv, n_head, n_kv_head)
    b, g, r, t, d = q.shape
    y = xp.zeros((b, g, r, t, d), dtype=q.dtype, **xp.on(q))
    lse = xp.zeros((b, g, r, t, 1), dtype=q.dtype, **xp.on(q))
    for start, stop, seen in query_tiles(t, t, causal):
        scores = _scores(xp, q[..., start:stop, :], k[..., :seen, :], causal)
        peak = xp.max(scores, axis=-1, keepdims=True)
        weights = xp.exp(scores - peak)
        total = xp.sum(weights, axis=-1, keepdims=True)
        y[..., start:stop, :] = _product(xp, weights / total, v[..., :seen, :], causal)
        lse[..., start:stop, :] = peak + xp.log(total)
    return pack(xp, y), xp.reshape(lse, (b, g * r, t))


@array_kernel()
def AttentionBackward(
    xp: Any, qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool
) -> Any:
    q, k, v = unpack(xp, qkv, n_head, n_kv_head)
    b, g, r, t, d = q.shape

    def heads(packed: Any) -> Any:
        return xp.permute_dims(xp.reshape(packed, (b, t, g, r, d)), (0, 2, 3, 1, 4))

    # 0 times what is not finite is NaN for earlier queries too; those that see it have it from y.
    v = xp.where(xp.isfinite(v), v, xp.zeros_like(v))
    dy, total = heads(grad), xp.reshape(lse, (b, g, r, t, 1))
    delta = xp.sum(dy * heads(y), axis=-1, keepdims=True)
    dq, dk, dv = (xp.zeros(x.shape, dtype=x.dtype, **xp.on(x)) for x in (q, k, v))
    for start, stop, seen in query_tiles(t, t, causal):
        mine, keys = (..., slice(start, stop), slice(None)), (..., slice(0, seen), slice(None))
        p = xp.exp(_scores(xp, q[mine], k[keys], causal) - total[mine])
        ds = p * (xp.matmul(dy[mine], xp.matrix_transpose(v[keys])) - delta[mine]) / math.sqrt(d)
        dq[mine] = xp.matmul(ds, k[keys])
        dk[keys] = dk[keys] + _summed(xp, ds, q[mine])
        dv[keys] = dv[keys] + _summed(xp, p, dy[mine])
    return xp.concat([pack(xp, dq), pack(xp, dk), pack(xp, dv)], axis=-1)


def _summed(xp: Any, a: Any, b: Any) -> Any:
    """Return aᵀ b, summed over the query heads that share a key/value head."""
    return xp.sum(xp.matmul(xp.matrix_transpose(a), b), axis=2, keepdims=True)
