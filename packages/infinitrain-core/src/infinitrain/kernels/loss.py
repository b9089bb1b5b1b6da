"""Array kernels of cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .linear import rows
from .registry import array_kernel

BLOCK = 1 << 22
"""Logits held at once by kernels that go from block to block."""


def check_targets(xp: Any, op: str, target: Any, classes: int, ignore_index: int) -> Any:
    """Return which of target (N,) count. Raises IndexError naming the first class out of range [contract 4.7]."""
    valid = target != ignore_index
    wrong = valid & ((target < 0) | (target >= classes))
    if bool(xp.any(wrong)):
        at = int(xp.argmax(xp.astype(wrong, xp.int64)))
        raise IndexError(
            f"{op}: target {int(target[at])} at position {at} is not in 0..{classes - 1} [contract 4.7]"
        )
    return valid


def block_slices(total: int, width: int) -> Iterator[slice]:
    """Yield slices of ``total`` rows of ``width``, at most BLOCK elements and at least one row in each."""
    step = max(1, BLOCK // max(1, width))
    for start in range(0, total, step):
        yield slice(start, min(total, start + step))


def onehot(xp: Any, target: Any, first: int, classes: int) -> Any:
    """Return which of the classes first, first + 1, ... is the target (N,), bool (N, classes)."""
    names = xp.arange(first, first + classes, dtype=target.dtype, **xp.on(target))
    return xp.expand_dims(target, axis=-1) == names


def row_losses(xp: Any, logits: Any, target: Any, smoothing: float) -> tuple[Any, Any, Any]:
    """Return the loss of each row of logits (N, V), its log sum exp, how many classes it has: V without smoothing."""
    peak = xp.max(logits, axis=-1, keepdims=True)
    lse = xp.squeeze(peak, axis=-1) + xp.log(xp.sum(xp.exp(logits - peak), axis=-1))
    none = xp.zeros_like(logits)
    picked = xp.sum(xp.where(onehot(xp, target, 0, logits.shape[-1]), logits, none), axis=-1)
    if not smoothing:
        return lse - picked, lse, logits.shape[-1]
    there = logits != -math.inf
    classes = xp.sum(xp.astype(there, lse.dtype), axis=-1)
    mean = xp.sum(xp.where(there, logits, none), axis=-1) / classes
    # -inf stays -inf, even times zero
    part = xp.where(picked == -math.inf, picked, (1.0 - smoothing) * picked)
    return lse - part - smoothing * mean, lse, classes


def reduced(xp: Any, each: Any, valid: Any, reduction: str) -> Any:
    """Return the mean or sum of the losses of the valid rows; NaN is the mean of none."""
    total = xp.sum(xp.where(valid, each, xp.zeros_like(each)))
    return total if reduction == "sum" else total / xp.sum(xp.astype(valid, each.dtype))


def row_scale(xp: Any, grad: Any, valid: Any, dtype: Any, reduction: str) -> Any:
    """Return what the gradient of each row that counts is multiplied by, 0-d."""
    scale = xp.astype(grad, dtype)
    return scale if reduction == "sum" else scale / xp.sum(xp.astype(valid, dtype))


def row_gradients(
    xp: Any, logits: Any, target: Any, lse: Any, valid: Any, scale: Any, smoothing: float
) -> Any:
    """Return the gradient of logits (N, V): zero where the row does not count, whatever its logits are."""
    d = xp.exp(logits - xp.expand_dims(lse, axis=-1))
    d = d - xp.astype(onehot(xp, target, 0, logits.shape[-1]), d.dtype) * (1.0 - smoothing)
    if smoothing:
        there = logits != -math.inf
        share = smoothing / xp.sum(xp.astype(there, d.dtype), axis=-1, keepdims=True)
        d = d - xp.where(there, share, xp.zeros_like(d))
    return xp.where(xp.expand_dims(valid, axis=-1), d * scale, xp.zeros_like(d))


def flat_index(xp: Any, target: Any) -> Any:
    """Return target (...) as int64 (N,)."""
    return xp.astype(xp.reshape(target, (-1,)), xp.int64)


@array_kernel()
def CrossEntropyForward(
    xp: Any, logits: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    shape, logits, target = target.shape, rows(xp, logits), flat_index(xp, target)
    valid = check_targets(xp, "CrossEntropyForward", target, logits.shape[-1], ignore_index)
    each, lse, _ = row_losses(xp, logits, target, label_smoothing)
    return reduced(xp, each, valid, reduction), xp.reshape(lse, shape)


@array_kernel()
def CrossEntropyBackward(
    xp: Any, grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:  # fmt: skip
    shape, logits, target = logits.shape, rows(xp, logits), flat_index(xp, target)
    valid = check_targets(xp, "CrossEntropyBackward", target, logits.shape[-1], ignore_index)
    scale = row_scale(xp, grad, valid, logits.dtype, reduction)
    d = row_gradients(xp, logits, target, xp.reshape(lse, (-1,)), valid, scale, label_smoothing)
    return xp.reshape(d, shape)


@array_kernel()
def CrossEntropyBackwardInPlace(
    xp: Any, grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> None:  # fmt: skip
    valid = check_targets(
        xp, "CrossEntropyBackwardInPlace", flat_index(xp, target), logits.shape[-1], ignore_index
    )
    scale = row_scale(xp, grad, valid, lse.dtype, reduction)

    def gradient(logits: Any, target: Any, lse: Any) -> Any:
        wide, flat = rows(xp, xp.astype(logits, lse.dtype, copy=False)), flat_index(xp, target)
        counts = flat != ignore_index
        d = row_gradients(xp, wide, flat, xp.reshape(lse, (-1,)), counts, scale, label_smoothing)
        return xp.astype(xp.reshape(d, logits.shape), logits.dtype)

    if logits.ndim == 1:
        logits[...] = gradient(logits, target, lse)
        return
    for i in block_slices(logits.shape[0], math.prod(logits.shape[1:])):
        logits[i, ...] = gradient(logits[i, ...], target[i, ...], lse[i, ...])
