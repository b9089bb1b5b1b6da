"""Array kernels of cross-entropy."""

from __future__ import annotations

from typing import Any

from .linear import rows
from .registry import array_kernel


def check_targets(xp: Any, target: Any, classes: int, ignore_index: int) -> Any:
    """Return which of target (N,) count. Raises IndexError naming the first class out of range [contract 4.7]."""
    valid = target != ignore_index
    wrong = valid & ((target < 0) | (target >= classes))
    if bool(xp.any(wrong)):
        at = int(xp.argmax(xp.astype(wrong, xp.int64)))
        raise IndexError(
            f"target {int(target[at])} at position {at} is not in 0..{classes - 1} [contract 4.7]"
        )
    return valid


def _onehot(xp: Any, target: Any, classes: int) -> Any:
    return xp.expand_dims(target, axis=-1) == xp.arange(classes, dtype=target.dtype, **xp.on(target))


@array_kernel()
def CrossEntropyForward(xp: Any, logits: Any, target: Any, ignore_index: int) -> Any:
    shape, logits = target.shape, rows(xp, logits)
    target = xp.astype(xp.reshape(target, (-1,)), xp.int64)
    valid = check_targets(xp, target, logits.shape[-1], ignore_index)
    peak = xp.max(logits, axis=-1, keepdims=True)
    lse = xp.squeeze(peak, axis=-1) + xp.log(xp.sum(xp.exp(logits - peak), axis=-1))
    picked = xp.sum(xp.where(_onehot(xp, target, logits.shape[-1]), logits, xp.zeros_like(logits)), axis=-1)
    count = xp.sum(xp.astype(valid, lse.dtype))
    loss = xp.sum(xp.where(valid, lse - picked, xp.zeros_like(lse))) / count
    return loss, xp.reshape(lse, shape)


@array_kernel()
def CrossEntropyBackward(xp: Any, grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int) -> Any:
    shape, logits = logits.shape, rows(xp, logits)
    target = xp.astype(xp.reshape(target, (-1,)), xp.int64)
    valid = check_targets(xp, target, logits.shape[-1], ignore_index)
    p = xp.exp(logits - xp.reshape(lse, (-1, 1)))
    p = p - xp.astype(_onehot(xp, target, logits.shape[-1]), p.dtype)
    count = xp.sum(xp.astype(valid, p.dtype))
    scale = xp.where(valid, xp.astype(grad, p.dtype) / count, xp.zeros_like(p[:, 0]))
    return xp.reshape(p * xp.expand_dims(scale, axis=-1), shape)
