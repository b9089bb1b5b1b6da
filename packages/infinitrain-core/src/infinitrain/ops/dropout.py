"""Dropout whose masks depend on seed, step, path and sample only, not on how a batch is split [contract 8.3]."""

from __future__ import annotations

from typing import Any

from .. import random
from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, op
from ..errors import DtypeError
from ..tensor import Tensor as UserTensor
from .base import view


@op(profile="training", gradient="DropoutBackward")
def DropoutForward(x: Tensor, p: float, key: Scalar, step: Scalar, first_sample: Scalar) -> Results:
    """y = x / (1 - p) where x is kept, else 0. Axis 0 counts samples, from first_sample on. Element j of sample s is
    kept when h >= round(p 2³²), h being half j mod 2 (0 is the lower one) of the sample's word j div 2; word i is
    number i mod 4 of the four that Philox4x64-10 makes of key (key, 0) and counter (i div 4 + 1, s, step, 0). A 0-d x
    is one sample of one element; key, step and first_sample are in 0..2⁶⁴-1 [contract 8.3].
    """
    check_p("DropoutForward", p)
    return [(x.shape, x.dtype)]


@op(profile="training", results="dx")
def DropoutBackward(grad: Tensor, p: float, key: Scalar, step: Scalar, first_sample: Scalar) -> Results:
    """dx = grad / (1 - p) where DropoutForward with these arguments keeps, else 0."""
    check_p("DropoutBackward", p)
    return [(grad.shape, grad.dtype)]


def check_p(what: str, p: Any) -> None:
    """Raise ValueError unless ``p`` is a probability."""
    if not isinstance(p, int | float) or isinstance(p, bool) or not 0 <= p <= 1:
        raise ValueError(f"{what}: p, the share of elements to drop, is a number in 0..1, got {p!r}")


class Dropout(Function, op=DropoutForward):
    @staticmethod
    def forward(ctx: Any, x: Any, p: float, key: int, step: int, first_sample: int) -> Any:
        ctx.how = p, key, step, first_sample
        return DropoutForward(x, p, key, step, first_sample)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return DropoutBackward(grad, *ctx.how), None, None, None, None


def dropout(x: Any, p: float = 0.5, path: str = "") -> Any:
    """Return floating x with a share ``p`` of its elements set to 0, at random, and the others divided by 1 - p.

    Inside ``random.step_scope`` an element's fate depends on the scope's seed and step, on ``path`` (and on how often
    this path was met before in the scope), on the sample's global number and on the place inside the sample: never on
    how the batch is split [contract 8.3]. Axis 0 counts the scope's samples, or k rows of each in turn where the scope
    has ``samples``. Outside a scope it depends on the next word of the device's default generator. p = 0 returns x
    itself and draws nothing. Raises ValueError for a p that is not in 0..1, DtypeError for integers, ShapeError
    for an axis 0 that does not go with ``samples``.
    """
    check_p("dropout", p)
    if not isinstance(x, UserTensor):
        raise TypeError(f"dropout: x is a Tensor, got {type(x).__name__}")
    if not isinstance(path, str):
        raise TypeError(f"dropout: path is a str, got {type(path).__name__} {path!r:.60}")
    if not x.dtype.is_floating:  # before anything is drawn
        raise DtypeError(f"dropout: x has dtype {x.dtype}, expected a floating one")
    if p == 0:
        return x
    scope = random.current_step()
    if scope is not None:
        samples = scope.rows_of(x.shape)  # before the draw is counted
        if samples is not None:
            apart = view(x, (samples, x.numel // samples))
            return view(Dropout.apply(apart, p, scope.key(path), scope.step, scope.first_sample), x.shape)
        return Dropout.apply(x, p, scope.key(path), scope.step, scope.first_sample)
    return Dropout.apply(x, p, int(random.default_generator(x.device).random_raw(1)[0]), 0, 0)
