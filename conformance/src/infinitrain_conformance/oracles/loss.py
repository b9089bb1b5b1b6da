"""Softmax and cross-entropy."""

from __future__ import annotations

from typing import Any

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
    result: Array = np.asarray(top + np.log(np.exp(x - top[..., None]).sum(-1)))
    return result


def cross_entropy(
    logits: Array, target: Array, ignore_index: int, smoothing: float = 0.0, reduction: str = "mean"
) -> dict[str, Want]:
    """The cross-entropy of softmax against (1 - s) onehot + s uniform over the classes that are there."""
    lse, kept, there = log_sum_exp(logits), target != ignore_index, logits != -np.inf
    safe = np.where(kept, target, 0)[..., None]
    nll = (lse[..., None] - np.take_along_axis(logits, safe, -1))[..., 0]
    surprise = np.where(there, lse[..., None] - np.where(there, logits, 0.0), 0.0)
    classes = there.sum(-1)
    each = smoothing * (surprise / classes[..., None]).sum(-1)
    each = np.where(np.isinf(nll), nll, each + (1.0 - smoothing) * np.where(np.isinf(nll), 0.0, nll))
    largest = np.where(there, np.abs(logits), 0.0).max(-1)
    size = np.abs(lse) + 2.0 * largest
    count = 1 if reduction == "sum" else int(kept.sum())
    if count == 0:
        loss, loss_size = np.float64(np.nan), np.float64(0.0)
    else:
        loss, loss_size = (each[kept] / count).sum(), (size[kept] / count).sum()
    return {
        "loss": Want(np.asarray(loss), np.asarray(loss_size), max(1, int(kept.sum()))),
        "lse": Want(lse, np.abs(lse) + largest + 1.0, 1),
    }


def cross_entropy_backward(
    grad: Array,
    logits: Array,
    target: Array,
    lse: Array,
    ignore_index: int,
    smoothing: float = 0.0,
    reduction: str = "mean",
    present: Array | None = None,
) -> dict[str, Want]:
    """``present`` says how many classes a row has, where forward has counted them."""
    kept, there = target != ignore_index, logits != -np.inf
    finite = np.where(there, logits, 0.0)
    p = np.where(there, np.exp(finite - lse[..., None]), 0.0)
    onehot = np.arange(logits.shape[-1]) == np.where(kept, target, -1)[..., None]
    share = (
        smoothing / np.maximum(1, there.sum(-1) if present is None else present)
        if smoothing
        else np.zeros(())
    )
    goal = (1.0 - smoothing) * onehot + there * share[..., None]
    count = 1 if reduction == "sum" else max(1, int(kept.sum()))
    scale = np.where(kept, float(grad) / count, 0.0)[..., None]
    size = np.abs(scale) * (p * (1.0 + np.abs(finite) + np.abs(lse)[..., None]) + goal)
    return {"dlogits": Want(scale * (p - goal), size)}


def cross_entropy_in_place(grad: Array, logits: Array, *rest: Any) -> dict[str, Want]:
    return {"logits": cross_entropy_backward(grad, logits, *rest)["dlogits"]}
