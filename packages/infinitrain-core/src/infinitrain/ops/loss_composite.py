"""LinearCrossEntropy from other ops of the table, some rows at a time: what a backend without a kernel for it runs
[contract 4.3].
"""

from __future__ import annotations

import math
from typing import Any

from ..backend.dispatch import composite
from ..dtype import HALF, float32
from .base import Cast, NoOpForward
from .compare import NotEqualsScalarForward
from .elementwise import AddForward, DivForward
from .finite import IsFiniteForward
from .indexing import WhereForward
from .join import ConcatForward, SplitForward
from .linear import LinearBackwardInput, LinearBackwardWeight, LinearForward
from .loss import CrossEntropyBackward, CrossEntropyForward
from .reduction import SumForward

BLOCK = 1 << 22
"""Logits held at a time, if one row is not more."""


def _cut(x: Any, classes: int) -> tuple[Any, ...]:
    """Return x (N, ...) in pieces of rows, so that a piece of logits has at most BLOCK elements."""
    rows, step = x.shape[0], max(1, BLOCK // classes)
    if rows <= step:
        return (x,)
    sizes = (step,) * (rows // step) + ((rows % step,) if rows % step else ())
    pieces: tuple[Any, ...] = SplitForward(x, sizes, 0)
    return pieces


def _join(pieces: list[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else ConcatForward(tuple(pieces), 0)


def _wide(x: Any) -> Any:
    return Cast(x, float32) if x.dtype in HALF else x


def _flat(x: Any, target: Any) -> tuple[Any, Any]:
    """Return x (..., C) as (N, C), in float32 or wider, and target as (N,)."""
    count = target.numel
    return NoOpForward(_wide(x), (count, x.shape[-1])), NoOpForward(target, (count,))


def _mean(total: Any, target: Any, ignore_index: int) -> Any:
    """Return total divided by the number of targets that count."""
    counts = Cast(NotEqualsScalarForward(target, ignore_index), total.dtype)
    return DivForward(total, SumForward(counts, (0,), False))


@composite(
    "CrossEntropyForward SplitForward ConcatForward AddForward DivForward NotEqualsScalarForward "
    "LinearForward SumForward"
)
def LinearCrossEntropyForward(
    x: Any, weight: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> Any:
    shape, classes = target.shape, weight.shape[0]
    (x, target), weight = _flat(x, target), _wide(weight)
    total, lses, found = None, [], []
    for part, ids in zip(_cut(x, classes), _cut(target, classes), strict=True):
        logits = LinearForward(part, weight, None)
        loss, lse = CrossEntropyForward(logits, ids, ignore_index, label_smoothing, "sum")
        total = loss if total is None else AddForward(total, loss)
        lses.append(lse)
        if label_smoothing:
            there = Cast(NotEqualsScalarForward(logits, -math.inf), lse.dtype)
            found.append(SumForward(there, (1,), False))
    lse = NoOpForward(_join(lses), shape)
    present = NoOpForward(_join(found), shape) if found else lse.new_full(shape, float(classes))
    loss = _mean(total, target, ignore_index) if reduction == "mean" else total
    return loss, lse, present


@composite(
    "CrossEntropyBackward SplitForward ConcatForward DivForward NotEqualsScalarForward IsFiniteForward "
    "LinearForward LinearBackwardInput LinearBackwardWeight WhereForward SumForward"
)
def LinearCrossEntropyBackward(
    grad: Any, x: Any, weight: Any, target: Any, lse: Any, present: Any,
    ignore_index: int, label_smoothing: float, reduction: str,
) -> Any:  # fmt: skip
    shape, dtype, classes = x.shape, x.dtype, weight.shape[0]
    (x, target), weight = _flat(x, target), _wide(weight)
    # An infinite weight is of a class that is not there, and 0 times it NaN; or the row is NaN anyway.
    finite = WhereForward(IsFiniteForward(weight), weight, weight.new_full((), 0.0))
    grad = Cast(grad, x.dtype)
    if reduction == "mean":
        grad = _mean(grad, target, ignore_index)
    dxs, dweight = [], None
    pieces = (_cut(a, classes) for a in (x, target, NoOpForward(lse, target.shape)))
    for part, ids, of in zip(*pieces, strict=True):
        logits = LinearForward(part, weight, None)
        d = CrossEntropyBackward(grad, logits, ids, of, ignore_index, label_smoothing, "sum")
        dxs.append(LinearBackwardInput(finite, d))
        if dweight is None:
            dweight = LinearBackwardWeight(part, d)
        else:
            LinearBackwardWeight(part, d, out=dweight, accumulate=True)
    return Cast(NoOpForward(_join(dxs), shape), dtype), Cast(dweight, dtype)
