"""Cross-entropy whose classes are spread over ranks: what each rank computes of its own.

A rank holds the logits of classes first .. first + n - 1; those from ``vocab_size_original`` on are padding.
With M the largest of all ranks' ``peak``: lse = M + log sum over ranks of total exp(peak - M), and, of a target that
counts, loss = lse - (1 - s) sum of picked - s / vocab_size_original sum of sums, s being label_smoothing. The local
part of softmax is exp(logits - lse). The collectives are the caller's.
"""

from __future__ import annotations

from ..backend.optable import (
    BoolMask,
    Index,
    Results,
    Tensor,
    op,
    require_dtype,
    require_index,
    require_shape,
)
from ..dtype import bool_
from ..errors import DtypeError, ShapeError
from .loss import check_options, statistics


@op(profile="parallel", results="peak total picked sums", autocast="float32")
def VocabParallelCrossEntropyForward(
    logits: Tensor, target: Index, first: int, vocab_size_original: int, ignore_index: int = -100
) -> Results:
    """Of each row of logits (..., n), the classes first .. first + n - 1 below vocab_size_original: peak = max, total =
    sum exp(logits - peak), picked = logits[target] where the target is among them, else 0, sums = sum; each (...).
    Without any such class they are -inf, 0, 0, 0. target (...) names classes of the whole vocabulary, or ignore_index.
    """
    if len(logits.shape) < 1 or not logits.shape[-1]:
        raise ShapeError(f"logits {logits.shape} need a last axis of classes")
    if first < 0 or vocab_size_original < 1:
        raise ShapeError(f"first={first}, vocab_size_original={vocab_size_original}: at least 0 and 1")
    require_shape("target", target.shape, logits.shape[:-1])
    require_index("target", target)
    return [(target.shape, statistics(logits.dtype))] * 4


@op(profile="parallel", results="dlogits")
def VocabParallelCrossEntropyBackward(
    grad: Tensor,
    softmax_local: Tensor,
    target_mask: BoolMask,
    masked_target: Index,
    valid_mask_local: BoolMask,
    vocab_size_local: int,
    vocab_size_original: int,
    label_smoothing: float,
) -> Results:
    """dlogits = g (softmax_local - (1 - s) onehot(masked_target) where not target_mask - s / vocab_size_original) where
    valid_mask_local, 0 elsewhere; s = label_smoothing. grad 0-d or (...); softmax_local (..., vocab_size_local);
    target_mask (...): the target is another rank's; masked_target (...) counts from this rank's first class;
    valid_mask_local (vocab_size_local,) or (1, vocab_size_local): which classes are no padding.
    """
    rows = softmax_local.shape[:-1]
    require_shape("softmax_local", softmax_local.shape, (*rows, vocab_size_local))
    if not softmax_local.dtype.is_floating:
        raise DtypeError(f"softmax_local has dtype {softmax_local.dtype}, expected a floating one")
    if grad.shape != ():
        require_shape("grad", grad.shape, rows)
    for name, mask in (("target_mask", target_mask), ("valid_mask_local", valid_mask_local)):
        require_dtype(name, mask.dtype, bool_)
    require_shape("target_mask", target_mask.shape, rows)
    require_shape("masked_target", masked_target.shape, rows)
    require_index("masked_target", masked_target)
    if valid_mask_local.shape != (1, vocab_size_local):
        require_shape("valid_mask_local", valid_mask_local.shape, (vocab_size_local,))
    if vocab_size_original < 1:
        raise ShapeError(f"vocab_size_original={vocab_size_original}: at least 1")
    check_options(label_smoothing)
    return [(softmax_local.shape, softmax_local.dtype)]
