"""Array kernels of cross-entropy over a linear layer: rows in blocks forward, classes in blocks backward."""

from __future__ import annotations

import math
from typing import Any

from .linear import rows
from .loss import block_slices, check_targets, flat_index, onehot, reduced, row_losses, row_scale
from .registry import array_kernel


@array_kernel()
def LinearCrossEntropyForward(
    xp: Any, x: Any, weight: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    shape, x, target = target.shape, rows(xp, x), flat_index(xp, target)
    valid = check_targets(xp, "LinearCrossEntropyForward", target, weight.shape[0], ignore_index)
    across = xp.matrix_transpose(weight)
    each, lse, present = (xp.zeros(target.shape, dtype=x.dtype, **xp.on(x)) for _ in range(3))
    for i in block_slices(x.shape[0], weight.shape[0]):
        logits = xp.matmul(x[i, :], across)
        each[i], lse[i], present[i] = row_losses(xp, logits, target[i], label_smoothing)
    return reduced(xp, each, valid, reduction), xp.reshape(lse, shape), xp.reshape(present, shape)


@array_kernel()
def LinearCrossEntropyBackward(
    xp: Any, grad: Any, x: Any, weight: Any, target: Any, lse: Any, present: Any,
    ignore_index: int, label_smoothing: float, reduction: str,
) -> Any:  # fmt: skip
    shape, x, target = x.shape, rows(xp, x), flat_index(xp, target)
    classes = weight.shape[0]
    valid = check_targets(xp, "LinearCrossEntropyBackward", target, classes, ignore_index)
    scale = row_scale(xp, grad, valid, x.dtype, reduction)
    counts, lse = xp.expand_dims(valid, axis=-1), xp.reshape(lse, (-1, 1))
    share = label_smoothing / xp.reshape(present, (-1, 1))
    dx, dweight = xp.zeros_like(x), xp.zeros_like(weight)
    # By classes: each block of dweight is written once, where blocks of rows would add to all of it every time.
    for v in block_slices(classes, x.shape[0]):
        part = weight[v, :]
        logits = xp.matmul(x, xp.matrix_transpose(part))
        d = xp.exp(logits - lse)
        if label_smoothing:
            d = d - xp.where(logits != -math.inf, share, xp.zeros_like(d))
        hit = onehot(xp, target, v.start, v.stop - v.start)
        d = (d - xp.astype(hit, d.dtype) * (1.0 - label_smoothing)) * scale
        d = xp.where(counts, d, xp.zeros_like(d))
        dweight[v, :] = xp.matmul(xp.matrix_transpose(d), x)
        # An infinite weight is of a class that is not there, and 0 times it NaN; or the row is NaN anyway.
        dx = dx + xp.matmul(d, xp.where(xp.isfinite(part), part, xp.zeros_like(part)))
    return xp.reshape(dx, shape), dweight
