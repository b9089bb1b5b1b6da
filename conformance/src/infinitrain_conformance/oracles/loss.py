"""Softmax and cross-entropy."""

from __future__ import annotations

import numpy as np

from .want import Array, Want


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
