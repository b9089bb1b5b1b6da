"""Softmax and its logarithm along one axis; computed in float32 or wider, rounded once."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, axis_of, op, require_axis, require_dtype, require_shape
from .base import rank


def _same(x: Any, axis: int, y: Any = None) -> Results:
    require_axis("axis", axis, len(x.shape))
    if y is not None:
        require_shape("y", y.shape, x.shape)
        require_dtype("y", y.dtype, x.dtype)
    return [(x.shape, x.dtype)]


@op(profile="training", gradient="SoftmaxBackward")
def SoftmaxForward(x: Tensor, axis: int) -> Results:
    """y = exp(x - max) / sum exp(x - max) along axis."""
    return _same(x, axis)


@op(profile="training", results="dx")
def SoftmaxBackward(grad: Tensor, y: Tensor, axis: int) -> Results:
    """dx = y (grad - sum(grad y)), y being the result."""
    return _same(grad, axis, y)


@op(profile="training", gradient="LogSoftmaxBackward")
def LogSoftmaxForward(x: Tensor, axis: int) -> Results:
    """y = x - max - log sum exp(x - max) along axis."""
    return _same(x, axis)


@op(profile="training", results="dx")
def LogSoftmaxBackward(grad: Tensor, y: Tensor, axis: int) -> Results:
    """dx = grad - exp(y) sum(grad), y being the result."""
    return _same(grad, axis, y)


class Softmax(Function, op=SoftmaxForward):
    @staticmethod
    def forward(ctx: Any, x: Any, axis: int) -> Any:
        y = SoftmaxForward(x, axis)
        ctx.save(y)
        ctx.axis = axis
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return SoftmaxBackward(grad, *ctx.saved, ctx.axis), None


class LogSoftmax(Function, op=LogSoftmaxForward):
    @staticmethod
    def forward(ctx: Any, x: Any, axis: int) -> Any:
        y = LogSoftmaxForward(x, axis)
        ctx.save(y)
        ctx.axis = axis
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return LogSoftmaxBackward(grad, *ctx.saved, ctx.axis), None


def softmax(x: Any, axis: int = -1) -> Any:
    """Return exp(x) / sum exp(x) along ``axis``."""
    return Softmax.apply(x, axis_of(axis, rank("softmax: x", x), "softmax: axis"))


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return log softmax(x) along ``axis``, without the loss of digits of taking the logarithm afterwards."""
    return LogSoftmax.apply(x, axis_of(axis, rank("log_softmax: x", x), "log_softmax: axis"))
