"""Cross-entropy of x weightᵀ, and of a vocabulary cut into parts."""

from __future__ import annotations

import numpy as np

from .loss import cross_entropy, cross_entropy_backward
from .want import Array, Want, rows


def linear_cross_entropy(
    x: Array, weight: Array, target: Array, ignore_index: int, smoothing: float, reduction: str
) -> dict[str, Want]:
    logits, size = x @ weight.T, np.abs(x) @ np.abs(finite(weight)).T
    there = (logits != -np.inf).sum(-1) if smoothing else np.full(target.shape, len(weight))
    found = cross_entropy(logits, target, ignore_index, smoothing, reduction)
    kept, largest = target != ignore_index, size.max(-1)
    count = 1 if reduction == "sum" else max(1, int(kept.sum()))
    loss, lse = found["loss"], found["lse"]
    terms = max(loss.terms, x.shape[-1])
    return {
        "loss": Want(loss.value, loss.magnitude + largest[kept].sum() / count, terms),
        "lse": Want(lse.value, lse.magnitude + largest, x.shape[-1]),
        "present": Want(np.asarray(there, np.float64), np.zeros(target.shape)),
    }


def finite(weight: Array) -> Array:
    """Return 0 for infinite weights: they stand for classes that are not there."""
    return np.where(np.isinf(weight), 0.0, weight)


def linear_cross_entropy_backward(
    grad: Array,
    x: Array,
    weight: Array,
    target: Array,
    lse: Array,
    present: Array,
    ignore_index: int,
    smoothing: float,
    reduction: str,
) -> dict[str, Want]:
    x2, logits = rows(x), rows(x) @ weight.T
    ids, of, have = target.reshape(-1), lse.reshape(-1), present.reshape(-1)
    d = cross_entropy_backward(grad, logits, ids, of, ignore_index, smoothing, reduction, have)["dlogits"]
    # The logits are sums themselves; exp makes their error a relative one.
    known = finite(weight)
    size = d.magnitude + np.abs(d.value) * (np.abs(x2) @ np.abs(known).T)
    return {
        "dx": Want((d.value @ known).reshape(x.shape), (size @ np.abs(known)).reshape(x.shape), len(weight)),
        "dweight": Want(d.value.T @ x2, size.T @ np.abs(x2), len(x2)),
    }


def vocab_part(
    logits: Array, target: Array, first: int, vocabulary: int, ignore_index: int
) -> dict[str, Want]:
    names = np.arange(first, first + logits.shape[-1])
    there = np.broadcast_to(names < vocabulary, logits.shape)
    peak = np.where(there, logits, -np.inf).max(-1)
    shift = np.where(np.isneginf(peak), 0.0, peak)[..., None]
    powers = np.where(there, np.exp(np.where(there, logits - shift, 0.0)), 0.0)
    noise = powers * (1.0 + np.where(there, np.abs(logits - shift), 0.0))
    own = np.where(there, logits, 0.0)
    picked = np.where(names == target[..., None], logits, 0.0).sum(-1)
    n = logits.shape[-1]
    return {
        "peak": Want(peak, np.abs(shift[..., 0])),
        "total": Want(powers.sum(-1), noise.sum(-1), n),
        "picked": Want(picked, np.abs(picked)),
        "sums": Want(own.sum(-1), np.abs(own).sum(-1), n),
    }


def vocab_part_backward(
    grad: Array,
    softmax: Array,
    elsewhere: Array,
    target: Array,
    valid: Array,
    size_local: int,
    size_original: int,
    smoothing: float,
) -> dict[str, Want]:
    g = np.broadcast_to(grad, softmax.shape[:-1])[..., None]
    onehot = (np.arange(size_local) == target[..., None]) & ~elsewhere[..., None]
    goal = (1.0 - smoothing) * onehot + smoothing / size_original
    valid = valid.reshape(size_local)
    value = np.where(valid, g * (softmax - goal), 0.0)
    return {"dlogits": Want(value, np.where(valid, np.abs(g) * (softmax + goal), 0.0))}
