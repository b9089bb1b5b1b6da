"""Elementwise ops."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, broadcast_shapes, op
from ..dtype import promote


@op(profile="training", dtypes="all", autocast="widest", gradient="AddBackward")
def AddForward(a: Tensor, b: Tensor) -> Results:
    """a + b; shapes broadcast, dtypes promote."""
    return [(broadcast_shapes(a.shape, b.shape), promote(a.dtype, b.dtype))]


class Add(Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.shapes = a.shape, b.shape
        return AddForward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, grad


def add(a: Any, b: Any) -> Any:
    """Return a + b; shapes broadcast, dtypes promote, numbers are allowed."""
    return Add.apply(a, b)
