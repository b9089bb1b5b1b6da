"""Cross-entropy of logits and integer targets."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Index, Results, Tensor, op, require_dtype, require_index, require_shape
from ..dtype import float32, float64
from ..errors import ShapeError
from .base import as_index


def _check_target(logits: Any, target: Any) -> Any:
    if len(logits.shape) < 1 or not logits.shape[-1]:
        raise ShapeError(f"logits {logits.shape} need a last axis of classes")
    require_shape("target", target.shape, logits.shape[:-1])
    require_index("target", target)
    return float64 if logits.dtype is float64 else float32


@op(profile="training", results="loss lse", autocast="float32", gradient="CrossEntropyBackward")
def CrossEntropyForward(logits: Tensor, target: Index, ignore_index: int = -100) -> Results:
    """loss = mean of lse - logits[target] over the targets other than ignore_index (none left: NaN), 0-d; lse (...) =
    log sum exp(logits).
    """
    wide = _check_target(logits, target)
    return [((), wide), (logits.shape[:-1], wide)]


@op(profile="training", results="dlogits", autocast="float32")
def CrossEntropyBackward(
    grad: Tensor, logits: Tensor, target: Index, lse: Tensor, ignore_index: int = -100
) -> Results:
    """dlogits = grad / count (exp(logits - lse) - onehot(target)), zero where the target is ignore_index."""
    wide = _check_target(logits, target)
    require_shape("grad", grad.shape, ())
    require_shape("lse", lse.shape, target.shape)
    require_dtype("lse", lse.dtype, wide)
    return [(logits.shape, logits.dtype)]


class CrossEntropy(Function, op=CrossEntropyForward):
    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, ignore_index: int) -> Any:
        loss, lse = CrossEntropyForward(logits, target, ignore_index)
        ctx.save(logits, target, lse)
        ctx.ignore_index = ignore_index
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return CrossEntropyBackward(grad, *ctx.saved, ctx.ignore_index), None, None


def cross_entropy(logits: Any, target: Any, ignore_index: int = -100) -> Any:
    """Return the mean of -log softmax(logits)[target] over targets other than ``ignore_index``: a 0-d tensor, in nats.

    logits (..., V) floating, target (...) integer in 0..V-1. With nothing to average the result is NaN. Raises
    IndexError for a target out of range.
    """
    return CrossEntropy.apply(logits, as_index("cross_entropy: target", target), ignore_index)
