"""CPU kernels of attention: BLAS on strided views of the packed tensor, in tiles of scores that stay in cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

_TILE_BYTES = 1 << 21  # scores of one tile; measured flat from 1 to 4 MiB at 2 MiB of L2


@lru_cache(maxsize=16)
def _hidden(t: int, dtype: str) -> np.ndarray:
    """Return what is added to scores (t, t): -inf where the key is later than the query."""
    mask = np.zeros((t, t), dtype)
    mask[np.triu_indices(t, 1)] = -np.inf
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
    """Yield slices of the first two axes (batch, key/value head) whose scores fit a tile."""
    b, g, r, t, _ = q.shape
    per_head = max(1, r * t * t * q.itemsize)
    heads = max(1, min(g, _TILE_BYTES // per_head))
    batches = max(1, _TILE_BYTES // (per_head * heads)) if heads == g else 1
    for i in range(0, b, batches):
        for j in range(0, g, heads):
            yield slice(i, i + batches), slice(j, j + heads)


def _scores(q: np.ndarray, k: np.ndarray, causal: bool) -> np.ndarray:
    scores = np.matmul(q, k.swapaxes(-1, -2))
    scores *= 1.0 / math.sqrt(q.shape[-1])
    if causal:
        scores += _hidden(q.shape[-2], q.dtype.char)
    return scores


def AttentionForward(qkv: Any, n_head: int, n_kv_head: int, causal: bool, *, out: Any) -> None:
    q, k, v = _views(qkv.array, n_head, n_kv_head)
    b, g, r, t, d = q.shape
    y = _heads(out[0].array, 0, n_head, d, r)
    lse = out[1].array.reshape(b, g, r, t)
    for i, j in _tiles(q):
        p = _scores(q[i, j], k[i, j], causal)
        peak = p.max(-1, keepdims=True)
        p -= peak
        np.exp(p, out=p)
        total = p.sum(-1, keepdims=True)
        p /= total
        y[i, j] = np.matmul(p, v[i, j])
        lse[i, j] = (peak + np.log(total))[..., 0]


def AttentionBackward(
    qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool, *, out: Any
) -> None:
    q, k, v = _views(qkv.array, n_head, n_kv_head)
    dq, dk, dv = _views(out.array, n_head, n_kv_head)
    b, g, r, t, d = q.shape
    o, do = _heads(y.array, 0, n_head, d, r), _heads(grad.array, 0, n_head, d, r)
    log_total = lse.array.reshape(b, g, r, t, 1)
    scale = 1.0 / math.sqrt(d)
    for i, j in _tiles(q):
        dy = do[i, j]
        p = _scores(q[i, j], k[i, j], causal)
        p -= log_total[i, j]
        np.exp(p, out=p)
        dv[i, j] = np.matmul(p.swapaxes(-1, -2), dy).sum(2, keepdims=True)
        ds = np.matmul(dy, v[i, j].swapaxes(-1, -2))
        ds -= np.einsum("bgrtd,bgrtd->bgrt", dy, o[i, j])[..., None]
        ds *= p
        ds *= scale
        dq[i, j] = np.matmul(ds, k[i, j])
        dk[i, j] = np.matmul(ds.swapaxes(-1, -2), q[i, j]).sum(2, keepdims=True)
