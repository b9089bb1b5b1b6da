"""Cross-entropy of logits and integer targets."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Index, Results, Tensor, int_of, op, require_dtype, require_index, require_shape
from ..dtype import DType, float32, float64
from ..errors import AutogradError, InfiniTrainError, ShapeError
from .base import NoOpForward, as_index

REDUCTIONS = ("mean", "sum")


def check_options(label_smoothing: Any, reduction: str = "mean") -> None:
    """Raise InfiniTrainError unless label_smoothing is in 0..1 and reduction one of mean, sum."""
    if isinstance(label_smoothing, bool) or not isinstance(label_smoothing, int | float):
        raise InfiniTrainError(f"label_smoothing={label_smoothing!r}: a number in 0..1")
    if not 0 <= label_smoothing <= 1:
        raise InfiniTrainError(f"label_smoothing={label_smoothing!r} is not in 0..1")
    if reduction not in REDUCTIONS:
        raise InfiniTrainError(f"reduction={reduction!r}: one of {', '.join(REDUCTIONS)}")


def statistics(dtype: DType) -> DType:
    """Return the dtype of loss and lse: float64 for float64 logits, else float32."""
    return float64 if dtype is float64 else float32


def _check(logits: Any, target: Any, label_smoothing: float, reduction: str) -> DType:
    if len(logits.shape) < 1 or not logits.shape[-1]:
        raise ShapeError(f"logits {logits.shape} need a last axis of classes")
    require_shape("target", target.shape, logits.shape[:-1])
    require_index("target", target)
    check_options(label_smoothing, reduction)
    return statistics(logits.dtype)


def _check_backward(
    grad: Any, logits: Any, target: Any, lse: Any, label_smoothing: float, reduction: str
) -> None:
    wide = _check(logits, target, label_smoothing, reduction)
    require_shape("grad", grad.shape, ())
    require_shape("lse", lse.shape, target.shape)
    require_dtype("lse", lse.dtype, wide)


@op(profile="training", results="loss lse", autocast="float32", gradient="CrossEntropyBackward")
def CrossEntropyForward(
    logits: Tensor,
    target: Index,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Results:
    """loss (0-d) = mean or sum, over the targets other than ignore_index, of lse - (1 - s) logits[target] - s
    mean(logits), s = label_smoothing; lse (...) = log sum exp(logits). A class whose logit is -inf is not there: the
    mean leaves it out; as a target it gives inf. The mean over no targets is NaN.
    """
    wide = _check(logits, target, label_smoothing, reduction)
    return [((), wide), (logits.shape[:-1], wide)]


@op(profile="training", results="dlogits")
def CrossEntropyBackward(
    grad: Tensor,
    logits: Tensor,
    target: Index,
    lse: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Results:
    """dlogits = grad / count (exp(logits - lse) - (1 - s) onehot(target) - s / classes), s = label_smoothing, classes
    those of the row with a logit above -inf (s / classes is 0 for the others); count is 1 for reduction sum; zero where
    the target is ignore_index.
    """
    _check_backward(grad, logits, target, lse, label_smoothing, reduction)
    return [(logits.shape, logits.dtype)]


@op(profile="training", results="", writes="logits")
def CrossEntropyBackwardInPlace(
    grad: Tensor,
    logits: Tensor,
    target: Index,
    lse: Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Results:
    """logits become what CrossEntropyBackward returns, in their own memory."""
    _check_backward(grad, logits, target, lse, label_smoothing, reduction)
    return []


class CrossEntropy(Function, op=CrossEntropyForward):
    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, *options: Any) -> Any:
        loss, lse = CrossEntropyForward(logits, target, *options)
        ctx.save(logits, target, lse)
        ctx.options = options
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return CrossEntropyBackward(grad, *ctx.saved, *ctx.options), None, None, None, None


class CrossEntropyInPlace(Function):
    """As CrossEntropy, but the gradient takes the logits' memory. No row's policy: a cast by autocast would be the very
    copy that this spares; the kernels compute in float32 as they are.
    """

    forward = CrossEntropy.forward

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        logits, target, lse = ctx.saved
        count = (target.numel,)  # by rows, so that a kernel can go from block to block
        views = (
            NoOpForward(logits, (*count, logits.shape[-1])),
            NoOpForward(target, count),
            NoOpForward(lse, count),
        )
        CrossEntropyBackwardInPlace(grad, *views, *ctx.options)
        return logits.detach(), None, None, None, None


def cross_entropy(
    logits: Any,
    target: Any,
    ignore_index: int = -100,
    *,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    in_place: bool = False,
) -> Any:
    """Return the mean of -log softmax(logits)[target] over targets other than ``ignore_index``: a 0-d tensor, in nats.

    logits (..., V) floating, target (...) integer in 0..V-1. With nothing to average the result is NaN, the gradient 0.
    ``label_smoothing`` s in 0..1 takes (1 - s) of that and s times the mean over classes of -log softmax; classes whose
    logit is -inf (a padded vocabulary) are left out. ``reduction="sum"`` adds instead of averaging.

    ``in_place`` spares the second tensor of the logits' size that the gradient is: after backward the logits hold it,
    and whoever else saved them for backward gets an AutogradError [contract 4.10]. Raises AutogradError when the logits
    are a leaf that requires grad or a view of one, IndexError for a target out of range.
    """
    check_options(label_smoothing, reduction)
    ignored = int_of(ignore_index, "cross_entropy: ignore_index")
    options = (ignored, float(label_smoothing), reduction)
    index = as_index("cross_entropy: target", target)
    if not in_place:
        return CrossEntropy.apply(logits, index, *options)
    if logits.requires_grad and _shares_a_leaf(logits):
        raise AutogradError(
            f"cross_entropy(in_place=True): the logits {list(logits.shape)} are the memory of a leaf that requires "
            "grad, which backward would overwrite; leave in_place out, or make the logits by an op that copies"
        )
    return CrossEntropyInPlace.apply(logits, index, *options)


def _shares_a_leaf(x: Any) -> bool:
    """Tell whether x is a leaf, or a view of one through recorded views: those share its version."""
    node = x._node
    if node is None:
        return True
    if x._version is None:  # nobody has a view of it
        return False
    while True:
        edge = node._edges[0] if node._edges else None
        if edge is None:
            return False
        target, index = edge
        if index < 0:
            return target._version is x._version
        node = target
