"""What each op means, in float64 NumPy, written from its definition and apart from every kernel.

Arguments are float64 arrays of exactly the values that the device got; results are ``Want``: the value, and
the magnitude of the terms it was summed from, by which the tolerance is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Want:
    """A result in float64, the sum of the absolute values of its terms, and their number."""

    value: Array
    magnitude: Array
    terms: int = 1


def plain(value: Array) -> Want:
    """Return a Want whose only term is itself."""
    return Want(value, np.abs(value))


# Linear and matmul
# --------------------------------------------------------------------------------------------------


def linear(x: Array, weight: Array, bias: Array | None) -> dict[str, Want]:
    y, size = np.einsum("...i,oi->...o", x, weight), np.einsum("...i,oi->...o", np.abs(x), np.abs(weight))
    if bias is not None:
        y, size = y + bias, size + np.abs(bias)
    return {"y": Want(y, size, x.shape[-1] + 1)}


def linear_dx(weight: Array, grad: Array) -> dict[str, Want]:
    size = np.einsum("...o,oi->...i", np.abs(grad), np.abs(weight))
    return {"dx": Want(np.einsum("...o,oi->...i", grad, weight), size, weight.shape[0])}


def linear_dweight(x: Array, grad: Array) -> dict[str, Want]:
    rows, outs = _rows(x), _rows(grad)
    size = np.einsum("ni,no->oi", np.abs(rows), np.abs(outs))
    return {"dweight": Want(np.einsum("ni,no->oi", rows, outs), size, rows.shape[0])}


def linear_dbias(grad: Array) -> dict[str, Want]:
    outs = _rows(grad)
    return {"dbias": Want(outs.sum(0), np.abs(outs).sum(0), outs.shape[0])}


def matmul(a: Array, b: Array) -> dict[str, Want]:
    return {"y": Want(np.matmul(a, b), np.matmul(np.abs(a), np.abs(b)), a.shape[-1])}


def _rows(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Return x summed over the axes along which ``shape`` was broadcast to x's."""
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    summed: Array = x.sum(axis=axes, keepdims=True)
    return summed


def matmul_da(b: Array, grad: Array, shape: tuple[int, ...]) -> dict[str, Want]:
    full, size = (
        np.matmul(grad, np.swapaxes(b, -1, -2)),
        np.matmul(np.abs(grad), np.swapaxes(np.abs(b), -1, -2)),
    )
    return {
        "da": Want(
            sum_to(full, shape), sum_to(size, shape), max(1, grad.size // max(1, math.prod(shape[:-1])))
        )
    }


def matmul_db(a: Array, grad: Array, shape: tuple[int, ...]) -> dict[str, Want]:
    full, size = (
        np.matmul(np.swapaxes(a, -1, -2), grad),
        np.matmul(np.swapaxes(np.abs(a), -1, -2), np.abs(grad)),
    )
    terms = a.size // max(1, a.shape[-1])
    return {"db": Want(sum_to(full, shape), sum_to(size, shape), terms)}


# Normalisation
# ------------------------------------------------------------------------------------------------------


def layer_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> dict[str, Want]:
    mean = x.mean(-1, keepdims=True)
    rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    h = (x - mean) * rstd
    spread = np.abs(x).mean(-1, keepdims=True)
    y, size = h * weight, (np.abs(x) + spread) * rstd * np.abs(weight)
    if bias is not None:
        y, size = y + bias, size + np.abs(bias)
    # A mean that is off by d shifts the variance by d squared only; what remains is the rounding of x - mean.
    d = spread * rstd * 2.0**-23
    rstd_size = rstd * (1.0 + spread * rstd * d)
    return {
        "y": Want(y, size),
        "mean": Want(mean[..., 0], spread[..., 0]),
        "rstd": Want(rstd[..., 0], np.broadcast_to(rstd_size, rstd.shape)[..., 0]),
    }


def layer_norm_backward(x: Array, weight: Array, mean: Array, rstd: Array, grad: Array) -> dict[str, Want]:
    r = rstd[..., None]
    h = (x - mean[..., None]) * r
    h_size = np.abs(h) + np.abs(mean[..., None]) * r * 2.0**-2  # x - mean is exact to a unit of mean, at most
    g = grad * weight
    dx = r * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))
    size = r * (
        np.abs(g) + np.abs(g).mean(-1, keepdims=True) + h_size * (np.abs(g) * h_size).mean(-1, keepdims=True)
    )
    n = math.prod(x.shape[:-1])
    return {
        "dx": Want(dx, size),
        "dweight": Want(_rows(grad * h).sum(0), _rows(np.abs(grad) * h_size).sum(0), n),
        "dbias": Want(_rows(grad).sum(0), np.abs(_rows(grad)).sum(0), n),
    }


# Activation, softmax, loss
# ------------------------------------------------------------------------------------------


def gelu(x: Array, approximate: str) -> dict[str, Want]:
    cdf, _ = _gelu_parts(x, approximate)
    return {"y": Want(x * cdf, np.abs(x))}


def gelu_backward(x: Array, grad: Array, approximate: str) -> dict[str, Want]:
    cdf, density = _gelu_parts(x, approximate)
    return {
        "dx": Want(grad * (cdf + x * density), np.abs(grad) * (1.0 + np.abs(x * density)) * (1.0 + np.abs(x)))
    }


def _gelu_parts(x: Array, approximate: str) -> tuple[Array, Array]:
    """Return Phi(x) and its derivative."""
    if approximate == "tanh":
        c = math.sqrt(2.0 / math.pi)
        t = np.tanh(c * (x + 0.044715 * x**3))
        return 0.5 * (1.0 + t), 0.5 * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * x * x)
    erf = np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)) if x.size else x
    return 0.5 * (1.0 + erf), np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def softmax(x: Array, axis: int) -> dict[str, Want]:
    shifted = x - x.max(axis, keepdims=True)
    e = np.exp(shifted)
    y = e / e.sum(axis, keepdims=True)
    # x - max is rounded to a unit of itself; exp turns that into a relative error, of every term of the sum too.
    noise = np.abs(shifted) + (y * np.abs(shifted)).sum(axis, keepdims=True)
    return {"y": Want(y, y * (1.0 + noise), x.shape[axis])}


def softmax_backward(grad: Array, y: Array, axis: int) -> dict[str, Want]:
    inner = (grad * y).sum(axis, keepdims=True)
    size = np.abs(y) * (np.abs(grad) + np.abs(grad * y).sum(axis, keepdims=True))
    return {"dx": Want(y * (grad - inner), size, y.shape[axis])}


def log_softmax(x: Array, axis: int) -> dict[str, Want]:
    top = x.max(axis, keepdims=True)
    y = x - top - np.log(np.exp(x - top).sum(axis, keepdims=True))
    return {"y": Want(y, np.abs(y) + np.abs(x) + np.abs(top) + 1.0, 1)}


def log_softmax_backward(grad: Array, y: Array, axis: int) -> dict[str, Want]:
    total, size = grad.sum(axis, keepdims=True), np.abs(grad).sum(axis, keepdims=True)
    return {
        "dx": Want(
            grad - np.exp(y) * total, np.abs(grad) + np.exp(y) * (1.0 + np.abs(y)) * size, y.shape[axis]
        )
    }


def log_sum_exp(x: Array) -> Array:
    """Return log sum exp over the last axis."""
    top = x.max(-1)
    result: Array = top + np.log(np.exp(x - top[..., None]).sum(-1))
    return result


def cross_entropy(logits: Array, target: Array, ignore_index: int) -> dict[str, Want]:
    lse, kept = log_sum_exp(logits), target != ignore_index
    picked = np.take_along_axis(logits, np.where(kept, target, 0)[..., None], -1)[..., 0]
    size = np.abs(lse) + np.abs(picked) + np.abs(logits).max(-1)
    count = int(kept.sum())
    if count == 0:
        loss, loss_size = np.float64(np.nan), np.float64(0.0)
    else:
        loss, loss_size = (lse - picked)[kept].sum() / count, size[kept].sum() / count
    rounding = np.abs(lse) + np.abs(logits).max(-1) + 1.0
    return {
        "loss": Want(np.asarray(loss), np.asarray(loss_size), max(1, count)),
        "lse": Want(lse, rounding, 1),
    }


def cross_entropy_backward(
    grad: Array, logits: Array, target: Array, lse: Array, ignore_index: int
) -> dict[str, Want]:
    kept = target != ignore_index
    p = np.exp(logits - lse[..., None])
    onehot = np.arange(logits.shape[-1]) == np.where(kept, target, -1)[..., None]
    scale = np.where(kept, float(grad) / max(1, int(kept.sum())), 0.0)[..., None]
    size = np.abs(scale) * (p * (1.0 + np.abs(logits) + np.abs(lse)[..., None]) + onehot)
    return {"dlogits": Want(scale * (p - onehot), size)}


# Attention
# ----------------------------------------------------------------------------------------------------------


def attention(qkv: Array, n_head: int, n_kv_head: int, causal: bool) -> dict[str, Want]:
    q, k, v = _split_heads(qkv, n_head, n_kv_head)
    scores, noise = _scores(q, k, causal)
    p = np.exp(scores - log_sum_exp(scores)[..., None])
    size = np.einsum("bhts,bhsd->bhtd", p * (1.0 + noise), np.abs(v))
    lse = log_sum_exp(scores)
    return {
        "y": Want(_merge(np.einsum("bhts,bhsd->bhtd", p, v)), _merge(size), qkv.shape[1]),
        "lse": Want(lse, 1.0 + np.abs(lse) + np.where(np.isfinite(scores), noise, 0.0).max(-1), qkv.shape[1]),
    }


def attention_backward(
    qkv: Array, y: Array, lse: Array, grad: Array, n_head: int, n_kv_head: int, causal: bool
) -> dict[str, Want]:
    """The gradient, with the probabilities from the saved lse and the row term from the saved y."""
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
    return {"dqkv": Want(value, size, t)}


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


# Indexing, optimizer
# ------------------------------------------------------------------------------------------------


def embedding(index: Array, weight: Array) -> dict[str, Want]:
    return {"y": plain(weight[index])}


def embedding_backward(index: Array, grad: Array, rows: int) -> dict[str, Want]:
    ids, flat = index.reshape(-1), grad.reshape(-1, grad.shape[-1])
    value, size = np.zeros((rows, flat.shape[-1])), np.zeros((rows, flat.shape[-1]))
    np.add.at(value, ids, flat)
    np.add.at(size, ids, np.abs(flat))
    most = int(np.bincount(ids, minlength=1).max()) if ids.size else 1
    return {"dweight": Want(value, size, most)}


def adamw(p: Array, g: Array, m: Array, v: Array, h: dict[str, Any]) -> tuple[Want, Want, Want]:
    """Return the new p, m, v."""
    b1, b2, t = h["beta1"], h["beta2"], h["step"]
    new_m, new_v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    size_m, size_v = b1 * np.abs(m) + (1 - b1) * np.abs(g), new_v
    root = np.sqrt(new_v / (1 - b2**t)) + h["eps"]
    new_p = p * (1 - h["lr"] * h["weight_decay"]) - h["lr"] * (new_m / (1 - b1**t)) / root
    # 1 - beta^t is known to a unit of 1, which a small t magnifies.
    unsure = 1.0 + 1.0 / (1 - b1**t) + 1.0 / (1 - b2**t) if t < 1000 else 3.0
    size_p = np.abs(p) + h["lr"] * (size_m / (1 - b1**t)) / root * unsure
    return Want(new_p, size_p), Want(new_m, size_m), Want(new_v, size_v)


def sgd(p: Array, g: Array, b: Array | None, h: dict[str, Any]) -> tuple[Want, Want | None]:
    """Return the new p and momentum."""
    step, size = g + h["weight_decay"] * p, np.abs(g) + h["weight_decay"] * np.abs(p)
    new_b: Want | None = None
    if b is not None:
        if not h["first"]:
            damp = 1 - h["dampening"]
            b_value, b_size = h["momentum"] * b + damp * step, h["momentum"] * np.abs(b) + damp * size
        else:
            b_value, b_size = step, size
        new_b = Want(b_value, b_size)
        if h["nesterov"]:
            step, size = step + h["momentum"] * b_value, size + h["momentum"] * b_size
        else:
            step, size = b_value, b_size
    return Want(p - h["lr"] * step, np.abs(p) + h["lr"] * size), new_b
