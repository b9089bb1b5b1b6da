"""CPU kernels of attention: BLAS on strided views of the packed tensor, in tiles of scores that stay in cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..kernels.tiles import TILE, query_tiles

_TILE_BYTES = 1 << 21  # scores of one tile; measured flat from 1 to 4 MiB at 2 MiB of L2


@lru_cache(maxsize=16)
def _later(n: int) -> np.ndarray:
    """Return which of n keys are later than which of n queries, (queries, keys)."""
    mask = np.triu(np.ones((n, n), np.bool_), 1)
    mask.flags.writeable = False
    return mask


def _heads(packed: np.ndarray, start: int, n: int, d: int, group: int) -> np.ndarray:
    """Return a view (B, n / group, group, T, d) of n heads from column ``start`` of packed (B, T, width)."""
    b, t, _ = packed.shape
    part = packed[:, :, start : start + n * d].reshape(b, t, n // group, group, d)
    return part.transpose(0, 2, 3, 1, 4)


def _views(qkv: np.ndarray, n_head: int, n_kv_head: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    d, group = qkv.shape[2] // (n_head + 2 * n_kv_head), n_head // n_kv_head
    k = n_head * d
    return (
        _heads(qkv, 0, n_head, d, group),
        _heads(qkv, k, n_kv_head, d, 1),
        _heads(qkv, k + n_kv_head * d, n_kv_head, d, 1),
    )


def _tiles(q: np.ndarray) -> Iterator[tuple[slice, slice]]:
    """Yield slices of the first two axes (batch, key/value head) whose scores for a block of queries fit a tile."""
    b, g, r, t, _ = q.shape
    per_head = max(1, r * min(t, TILE) * t * q.itemsize)
    heads = max(1, min(g, _TILE_BYTES // per_head))
    batches = max(1, _TILE_BYTES // (per_head * heads)) if heads == g else 1
    for i in range(0, b, batches):
        for j in range(0, g, heads):
            yield slice(i, i + batches), slice(j, j + heads)


def _scores(q: np.ndarray, k: np.ndarray, causal: bool) -> np.ndarray:
    """Return q kᵀ / sqrt(d), the queries being the last of the keys' positions; -inf at keys that are later.

    Written, not added: a NaN or infinite score of a later key must not reach an earlier query.
    """
    scores: np.ndarray = np.matmul(q, k.swapaxes(-1, -2))
    scores *= 1.0 / math.sqrt(q.shape[-1])
    if causal:
        n = q.shape[-2]
        np.copyto(scores[..., -n:], -np.inf, where=_later(n))
    return scores


def _product(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return p v of causal probabilities, where 0 times an infinite or NaN value of a later key is 0."""
    n = p.shape[-2]
    own = v[..., -n:, :]
    finite, known = np.isfinite(own), v.copy()
    known[..., -n:, :] = np.where(finite, own, 0)
    seen: np.ndarray = np.matmul(p, known) + np.cumsum(np.where(finite, 0, own), -2)
    return seen


def AttentionForward(qkv: Any, n_head: int, n_kv_head: int, causal: bool, *, out: Any) -> None:
    q, k, v = _views(qkv.array, n_head, n_kv_head)
    b, g, r, t, d = q.shape
    y = _heads(out[0].array, 0, n_head, d, r)
    lse = out[1].array.reshape(b, g, r, t)
    product = _product if causal and not np.isfinite(v).all() else np.matmul
    for i, j in _tiles(q):
        for start, stop, seen in query_tiles(t, t, causal):
            mine, keys = (i, j, slice(None), slice(start, stop)), (i, j, slice(None), slice(seen))
            p = _scores(q[mine], k[keys], causal)
            peak = p.max(-1, keepdims=True)
            p -= peak
            np.exp(p, out=p)
            total = np.add.reduce(p, -1, keepdims=True)
            p /= total
            y[mine] = product(p, v[keys])
            lse[mine] = (peak + np.log(total))[..., 0]


def AttentionBackward(
    qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool, *, out: Any
) -> None:
    q, k, v = _views(qkv.array, n_head, n_kv_head)
    finite = np.isfinite(v)
    if not finite.all():  # 0 times them is NaN for earlier queries too; those that see them have it from y
        v = np.where(finite, v, 0)
    dq, dk, dv = _views(out.array, n_head, n_kv_head)
    b, g, r, t, d = q.shape
    o, do = _heads(y.array, 0, n_head, d, r), _heads(grad.array, 0, n_head, d, r)
    log_total = lse.array.reshape(b, g, r, t, 1)
    scale = 1.0 / math.sqrt(d)
    for i, j in _tiles(q):
        for start, stop, seen in query_tiles(t, t, causal):
            mine, keys = (i, j, slice(None), slice(start, stop)), (i, j, slice(None), slice(seen))
            dy = do[mine]
            p = _scores(q[mine], k[keys], causal)
            p -= log_total[mine]
            np.exp(p, out=p)
            ds = np.matmul(dy, v[keys].swapaxes(-1, -2))
            ds -= np.einsum("bgrtd,bgrtd->bgrt", dy, o[mine])[..., None]
            ds *= p
            ds *= scale
            dq[mine] = np.matmul(ds, k[keys])
            for total, a, c in ((dv, p, dy), (dk, ds, q[mine])):
                part = np.add.reduce(np.matmul(a.swapaxes(-1, -2), c), 2, keepdims=True)
                if stop == t:  # the first block: it sees every key
                    total[keys] = part
                else:
                    total[keys] += part
