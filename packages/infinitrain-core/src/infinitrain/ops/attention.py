"""Scaled dot-product attention on packed queries, keys and values: one op, no transposes outside."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, int_of, op, require_dtype, require_shape
from ..errors import ShapeError
from .base import flag
from .norm import statistics_dtype


def head_size(qkv: tuple[int, ...], n_head: int, n_kv_head: int) -> int:
    """Return the size of one head of packed qkv (B, T, (n_head + 2 n_kv_head) d). Raises ShapeError."""
    heads = n_head + 2 * n_kv_head
    if n_head <= 0 or n_kv_head <= 0 or n_head % n_kv_head:
        raise ShapeError(f"n_head={n_head} must be a positive multiple of n_kv_head={n_kv_head}")
    if len(qkv) != 3 or qkv[2] % heads or not qkv[2]:
        raise ShapeError(
            f"qkv {qkv} is not (B, T, (n_head + 2 n_kv_head) d) for {n_head} + 2 x {n_kv_head} heads"
        )
    return qkv[2] // heads


@op(profile="fused", results="y lse", autocast="lower", gradient="AttentionBackward")
def AttentionForward(qkv: Tensor, n_head: int, n_kv_head: int, causal: bool = True) -> Results:
    """y (B, T, n_head d) = softmax(q kᵀ / sqrt(d)) v; lse (B, n_head, T) = log sum exp of the scores.

    qkv is packed [q heads | k heads | v heads]; key and value head h serve query heads h r .. h r + r - 1 with
    r = n_head / n_kv_head. ``causal`` hides keys later than the query, and their values, NaN and infinite ones too.
    """
    d = head_size(qkv.shape, n_head, n_kv_head)
    b, t, _ = qkv.shape
    return [((b, t, n_head * d), qkv.dtype), ((b, n_head, t), statistics_dtype(qkv.dtype))]


@op(profile="fused", results="dqkv")
def AttentionBackward(
    qkv: Tensor, y: Tensor, lse: Tensor, grad: Tensor, n_head: int, n_kv_head: int, causal: bool = True
) -> Results:
    """dqkv from y's gradient; the probabilities are recomputed as exp(q kᵀ / sqrt(d) - lse)."""
    d = head_size(qkv.shape, n_head, n_kv_head)
    b, t, _ = qkv.shape
    require_shape("y", y.shape, (b, t, n_head * d))
    require_shape("grad", grad.shape, y.shape)
    require_shape("lse", lse.shape, (b, n_head, t))
    require_dtype("y", y.dtype, qkv.dtype)
    require_dtype("grad", grad.dtype, qkv.dtype)
    require_dtype("lse", lse.dtype, statistics_dtype(qkv.dtype))
    return [(qkv.shape, qkv.dtype)]


class Attention(Function, op=AttentionForward):
    @staticmethod
    def forward(ctx: Any, qkv: Any, n_head: int, n_kv_head: int, causal: bool) -> Any:
        y, lse = AttentionForward(qkv, n_head, n_kv_head, causal)
        ctx.save(qkv, y, lse)
        ctx.heads = n_head, n_kv_head, causal
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return AttentionBackward(*ctx.saved, grad, *ctx.heads), None, None, None


def attention(qkv: Any, n_head: int, n_kv_head: int | None = None, *, causal: bool = True) -> Any:
    """Return multi-head attention (B, T, n_head d) of packed qkv (B, T, (n_head + 2 n_kv_head) d).

    Key and value head h serve the query heads h r .. h r + r - 1 with r = n_head / n_kv_head; ``causal`` hides later
    positions; scores are scaled by 1/sqrt(d).
    """
    heads = int_of(n_head, "attention: n_head")
    kv_heads = heads if n_kv_head is None else int_of(n_kv_head, "attention: n_kv_head")
    return Attention.apply(qkv, heads, kv_heads, flag("attention: causal", causal))
