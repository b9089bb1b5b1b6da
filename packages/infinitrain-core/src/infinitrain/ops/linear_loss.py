"""Cross-entropy of a linear layer's logits that are never all there."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Index, Results, Tensor, int_of, op, require_dtype, require_index, require_shape
from ..dtype import DType
from ..errors import DtypeError, ShapeError
from .base import as_index
from .loss import check_options, statistics


def _check(x: Any, weight: Any, target: Any, label_smoothing: float, reduction: str) -> DType:
    if len(x.shape) < 1 or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(f"x {x.shape} needs a last axis equal to weight's {weight.shape} second")
    if not weight.shape[0]:
        raise ShapeError(f"weight {weight.shape} has no classes")
    if weight.dtype is not x.dtype:
        raise DtypeError(f"x is {x.dtype} and weight {weight.dtype}; cast one, or use autocast")
    require_shape("target", target.shape, x.shape[:-1])
    require_index("target", target)
    check_options(label_smoothing, reduction)
    return statistics(x.dtype)


@op(profile="fused", results="loss lse present", autocast="lower", gradient="LinearCrossEntropyBackward")
def LinearCrossEntropyForward(
    x: Tensor,
    weight: Tensor,
    target: Index,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Results:
    """CrossEntropyForward of the logits x weightᵀ, of which only some rows are held at a time, in float32 or wider; x
    (..., C), weight (V, C), target (...), loss 0-d, lse (...). present (...) counts a row's logits above -inf, over
    which smoothing spreads; it is V without smoothing.
    """
    wide = _check(x, weight, target, label_smoothing, reduction)
    return [((), wide), (target.shape, wide), (target.shape, wide)]


@op(profile="fused", results="dx dweight", accumulates="dweight")
def LinearCrossEntropyBackward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    target: Index,
    lse: Tensor,
    present: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Results:
    """dx = d weight, dweight = dᵀ x, where d is what CrossEntropyBackward makes of the logits x weightᵀ, computed anew
    some classes or rows at a time. In dx infinite weights of classes that are not there count as 0.
    """
    wide = _check(x, weight, target, label_smoothing, reduction)
    require_shape("grad", grad.shape, ())
    for name, t in (("lse", lse), ("present", present)):
        require_shape(name, t.shape, target.shape)
        require_dtype(name, t.dtype, wide)
    return [(x.shape, x.dtype), (weight.shape, weight.dtype)]


class LinearCrossEntropy(Function, op=LinearCrossEntropyForward):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, target: Any, *options: Any) -> Any:
        loss, lse, present = LinearCrossEntropyForward(x, weight, target, *options)
        ctx.save(x, weight, target, lse, present)
        ctx.options = options
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        found = ctx.into_all((0, 1), LinearCrossEntropyBackward, grad, *ctx.saved, *ctx.options)
        return (*found, None, None, None, None)


def linear_cross_entropy(
    x: Any,
    weight: Any,
    target: Any,
    ignore_index: int = -100,
    *,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Any:
    """Return ``cross_entropy(linear(x, weight), target)`` without ever holding all logits, nor their gradient.

    x (..., C), weight (V, C) of the same dtype, target (...) integer in 0..V-1; the options are those of
    ``cross_entropy``, and as there classes whose logit is -inf (by weights of -inf) are left out. Half-precision logits
    are not rounded: the loss is that of float32 logits. Backward computes the logits once more, a third more arithmetic
    in all. Raises IndexError for a target out of range.
    """
    check_options(label_smoothing, reduction)
    ignored = int_of(ignore_index, "linear_cross_entropy: ignore_index")
    options = (ignored, float(label_smoothing), reduction)
    return LinearCrossEntropy.apply(x, weight, as_index("linear_cross_entropy: target", target), *options)
