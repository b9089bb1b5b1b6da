"""Attention on packed queries, keys and values."""

from __future__ import annotations

import math

import numpy as np

from .loss import log_sum_exp
from .want import Array, Want


def attention(qkv: Array, n_head: int, n_kv_head: int, causal: bool) -> dict[str, Want]:
    q, k, v = _split_heads(qkv, n_head, n_kv_head)
    scores, noise = _scores(q, k, causal)
    p = np.exp(scores - log_sum_exp(scores)[..., None])
    y = np.einsum("bhts,bhsd->bhtd", p, v)
    if not np.isfinite(v).all():  # a sum over what a query sees, as 0 times infinity is no number
        seen = scores != -np.inf
        y = np.where(seen[..., None], p[..., None] * v[:, :, None], 0.0).sum(3)
    size = np.einsum("bhts,bhsd->bhtd", p * (1.0 + noise), np.abs(v))
    lse = log_sum_exp(scores)
    return {
        "y": Want(_merge(y), _merge(size), qkv.shape[1]),
        "lse": Want(lse, 1.0 + np.abs(lse) + np.where(np.isfinite(scores), noise, 0.0).max(-1), qkv.shape[1]),
    }


def attention_backward(
    qkv: Array, y: Array, lse: Array, grad: Array, n_head: int, n_kv_head: int, causal: bool
) -> dict[str, Want]:
    """The gradient, with the probabilities from the saved lse and the row term from the saved y.

    A hidden pair of query and key adds 0, or where one of them is no number NaN: 0 times it, in kernels that do not
    leave the pair out.
    """
    q, k, v = _split_heads(qkv, n_head, n_kv_head)
    b, t, _ = qkv.shape
    d = q.shape[-1]
    scores, noise = _scores(q, k, causal)
    p = np.exp(scores - lse[..., None])
    dy = grad.reshape(b, t, n_head, d).transpose(0, 2, 1, 3)
    out = y.reshape(b, t, n_head, d).transpose(0, 2, 1, 3)
    dp = np.einsum("bhtd,bhsd->bhts", dy, v)
    dp_size = np.einsum("bhtd,bhsd->bhts", np.abs(dy), np.abs(v))
    row, row_size = (dy * out).sum(-1, keepdims=True), (np.abs(dy * out)).sum(-1, keepdims=True)
    rounded = p * (1.0 + noise)
    ds, ds_size = p * (dp - row) / math.sqrt(d), rounded * (dp_size + row_size) / math.sqrt(d)
    parts = [
        (np.einsum("bhts,bhsd->bhtd", ds, k), np.einsum("bhts,bhsd->bhtd", ds_size, np.abs(k)), n_head),
        (np.einsum("bhts,bhtd->bhsd", ds, q), np.einsum("bhts,bhtd->bhsd", ds_size, np.abs(q)), n_kv_head),
        (np.einsum("bhts,bhtd->bhsd", p, dy), np.einsum("bhts,bhtd->bhsd", rounded, np.abs(dy)), n_kv_head),
    ]
    value = np.concatenate([_merge(_group(v, heads)) for v, _, heads in parts], -1)
    size = np.concatenate([_merge(_group(s, heads)) for _, s, heads in parts], -1)
    if not np.isnan(value).any():
        return {"dqkv": Want(value, size, t)}
    pairs = np.isfinite(scores) | np.isnan(scores)  # those that are not hidden
    ds, p = (np.where(pairs, x, 0.0)[..., None] for x in (ds, p))
    seen = pairs[..., None]
    alone = [
        (np.where(seen, ds * k[:, :, None], 0.0).sum(3), n_head),
        (np.where(seen, ds * q[:, :, :, None], 0.0).sum(2), n_kv_head),
        (np.where(seen, p * dy[:, :, :, None], 0.0).sum(2), n_kv_head),
    ]
    known = np.concatenate([_merge(_group(v, heads)) for v, heads in alone], -1)
    return {"dqkv": Want(known, size, t, np.isnan(value))}


def _split_heads(qkv: Array, n_head: int, n_kv_head: int) -> tuple[Array, Array, Array]:
    """Return q, k, v as (B, n_head, T, d): key and value heads repeated for the query heads they serve."""
    b, t, width = qkv.shape
    d = width // (n_head + 2 * n_kv_head)
    heads = qkv.reshape(b, t, n_head + 2 * n_kv_head, d).transpose(0, 2, 1, 3)
    serves = np.arange(n_head) // (n_head // n_kv_head)
    return (
        heads[:, :n_head],
        heads[:, n_head : n_head + n_kv_head][:, serves],
        heads[:, n_head + n_kv_head :][:, serves],
    )


def _group(x: Array, heads: int) -> Array:
    """Return (B, n_head, T, d) summed over the query heads that share a key head: (B, heads, T, d)."""
    b, n, t, d = x.shape
    summed: Array = x.reshape(b, heads, n // heads, t, d).sum(2)
    return summed


def _merge(x: Array) -> Array:
    b, n, t, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, t, n * d)


def _scores(q: Array, k: Array, causal: bool) -> tuple[Array, Array]:
    """Return q kᵀ / sqrt(d), -inf where hidden, and how much rounding each may carry."""
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = np.einsum("bhtd,bhsd->bhts", q, k) * scale
    noise = np.einsum("bhtd,bhsd->bhts", np.abs(q), np.abs(k)) * scale
    if causal:
        t = scores.shape[-1]
        scores = np.where(np.arange(t)[None, :] > np.arange(t)[:, None], -np.inf, scores)
    return scores, noise
