"""Array kernels of a rank's part of cross-entropy over a spread vocabulary."""

from __future__ import annotations

import math
from typing import Any

from .linear import rows
from .loss import check_targets, flat_index, onehot
from .registry import array_kernel


@array_kernel()
def VocabParallelCrossEntropyForward(
    xp: Any, logits: Any, target: Any, first: int, vocab_size_original: int, ignore_index: int
) -> Any:
    shape, logits, target = target.shape, rows(xp, logits), flat_index(xp, target)
    check_targets(xp, "VocabParallelCrossEntropyForward", target, vocab_size_original, ignore_index)
    last, none = first + logits.shape[-1], xp.zeros_like(logits)
    there = xp.arange(first, last, **xp.on(logits)) < vocab_size_original
    peak = xp.max(xp.where(there, logits, -math.inf), axis=-1)
    shift = xp.where(peak == -math.inf, xp.zeros_like(peak), peak)
    powers = xp.exp(logits - xp.expand_dims(shift, axis=-1))
    total = xp.sum(xp.where(there, powers, none), axis=-1)
    hit = onehot(xp, target, first, logits.shape[-1])
    picked = xp.sum(xp.where(hit, logits, none), axis=-1)
    sums = xp.sum(xp.where(there, logits, none), axis=-1)
    return tuple(xp.reshape(a, shape) for a in (peak, total, picked, sums))


@array_kernel()
def VocabParallelCrossEntropyBackward(
    xp: Any, grad: Any, softmax_local: Any, target_mask: Any, masked_target: Any, valid_mask_local: Any,
    vocab_size_local: int, vocab_size_original: int, label_smoothing: float,
) -> Any:  # fmt: skip
    shape, p = softmax_local.shape, rows(xp, softmax_local)
    other = xp.reshape(target_mask, (-1,))
    target = flat_index(xp, masked_target)
    check_targets(xp, "VocabParallelCrossEntropyBackward", xp.where(other, 0, target), vocab_size_local, 0)
    target = xp.where(other, -1, target)
    hit = xp.astype(onehot(xp, target, 0, vocab_size_local), p.dtype)
    d = p - hit * (1.0 - label_smoothing) - label_smoothing / vocab_size_original
    g = xp.reshape(xp.astype(grad, p.dtype), (-1, 1))
    valid = xp.reshape(valid_mask_local, (1, vocab_size_local))
    return xp.reshape(xp.where(valid, d * g, xp.zeros_like(d)), shape)
