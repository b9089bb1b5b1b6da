"""A residual connection and the normalisation after it, in one pass: the sum goes on, its norm into the next layer.

The norm is that of the sum as it is returned, rounded to its dtype: fusing changes no results.
"""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, op, require_shape
from ..dtype import promote
from ..errors import DtypeError
from .base import epsilon
from .elementwise import in_dtype
from .norm import (
    LayerNormForward,
    require_gradient,
    require_rows,
    require_scale,
    require_statistics,
    statistics_dtype,
)
from .rms_norm import RmsNormForward


def _require_sum(x: Any, residual: Any) -> None:
    require_rows(x)
    require_shape("residual", residual.shape, x.shape)
    if not residual.dtype.is_floating:
        raise DtypeError(f"residual has dtype {residual.dtype}, expected a floating one")


@op(profile="fused", results="sum y mean rstd", gradient="AddLayerNormBackward")
def AddLayerNormForward(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor | None, eps: Scalar
) -> Results:
    """sum = x + residual (equal shapes, dtypes promote); y, mean, rstd = LayerNormForward(sum, weight, bias, eps)."""
    _require_sum(x, residual)
    require_scale(x, weight, bias)
    dtype = promote(x.dtype, residual.dtype)
    statistics = (x.shape[:-1], statistics_dtype(dtype))
    return [(x.shape, dtype), (x.shape, dtype), statistics, statistics]


@op(profile="fused", results="dx dweight dbias", accumulates="dweight dbias")
def AddLayerNormBackward(
    sum: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, grad_sum: Tensor | None, grad: Tensor
) -> Results:
    """dx, the gradient of x and of residual, = grad_sum + dx of LayerNormBackward(sum, weight, mean, rstd, grad);
    dweight and dbias are that one's.
    """
    _require_backward(sum, weight, grad_sum, grad, mean=mean, rstd=rstd)
    return [(sum.shape, sum.dtype), (weight.shape, weight.dtype), (weight.shape, weight.dtype)]


@op(profile="fused", results="sum y rstd", gradient="AddRmsNormBackward")
def AddRmsNormForward(x: Tensor, residual: Tensor, weight: Tensor, eps: Scalar) -> Results:
    """sum = x + residual (equal shapes, dtypes promote); y, rstd = RmsNormForward(sum, weight, eps)."""
    _require_sum(x, residual)
    require_scale(x, weight)
    dtype = promote(x.dtype, residual.dtype)
    return [(x.shape, dtype), (x.shape, dtype), (x.shape[:-1], statistics_dtype(dtype))]


@op(profile="fused", results="dx dweight", accumulates="dweight")
def AddRmsNormBackward(
    sum: Tensor, weight: Tensor, rstd: Tensor, grad_sum: Tensor | None, grad: Tensor
) -> Results:
    """dx, the gradient of x and of residual, = grad_sum + dx of RmsNormBackward(sum, weight, rstd, grad); dweight is
    that one's.
    """
    _require_backward(sum, weight, grad_sum, grad, rstd=rstd)
    return [(sum.shape, sum.dtype), (weight.shape, weight.dtype)]


def _require_backward(x: Any, weight: Any, grad_sum: Any, grad: Any, **statistics: Any) -> None:
    require_rows(x)
    require_scale(x, weight)
    require_statistics(x, **statistics)
    require_gradient("grad", grad, x)
    if grad_sum is not None:
        require_gradient("grad_sum", grad_sum, x)


class AddLayerNorm(Function, op=AddLayerNormForward):
    @staticmethod
    def forward(ctx: Any, x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> Any:
        total, y, mean, rstd = AddLayerNormForward(x, residual, weight, bias, eps)
        ctx.save(total, weight, mean, rstd, bias)
        ctx.dtypes, ctx.eps = (x.dtype, residual.dtype), eps
        return total, y

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        total = ctx.saved_at(0)
        return LayerNormForward(total, ctx.saved_at(1), ctx.saved_at(4), ctx.eps)[0] if index else total

    @staticmethod
    def backward(ctx: Any, grad_sum: Any, grad: Any) -> Any:
        dx, dweight, dbias = grad_sum, None, None
        if grad is not None:
            args = (*[ctx.saved_at(i) for i in range(4)], grad_sum, grad)  # the bias may have changed
            dx, dweight, dbias = ctx.into_all((0, 2, 3), AddLayerNormBackward, *args)
        return *_of_both(ctx, dx), dweight, dbias, None


class AddRmsNorm(Function, op=AddRmsNormForward):
    @staticmethod
    def forward(ctx: Any, x: Any, residual: Any, weight: Any, eps: float) -> Any:
        total, y, rstd = AddRmsNormForward(x, residual, weight, eps)
        ctx.save(total, weight, rstd)
        ctx.dtypes, ctx.eps = (x.dtype, residual.dtype), eps
        return total, y

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        total = ctx.saved_at(0)
        return RmsNormForward(total, ctx.saved_at(1), ctx.eps)[0] if index else total

    @staticmethod
    def backward(ctx: Any, grad_sum: Any, grad: Any) -> Any:
        dx, dweight = grad_sum, None
        if grad is not None:
            dx, dweight = ctx.into_all((0, 2), AddRmsNormBackward, *ctx.saved, grad_sum, grad)
        return *_of_both(ctx, dx), dweight, None


def _of_both(ctx: Any, dx: Any) -> tuple[Any, ...]:
    """Return the sum's gradient as that of x and that of residual; None for the one that wants none."""
    return tuple([in_dtype(dx, dtype) if ctx.needs(i) else None for i, dtype in enumerate(ctx.dtypes)])


def add_layer_norm(
    x: Any, residual: Any, weight: Any, bias: Any = None, eps: float = 1e-5
) -> tuple[Any, Any]:
    """Return (sum, y): sum = x + residual, y = ``layer_norm(sum, weight, bias, eps)``.

    x and residual (..., C) have one shape; their floating dtypes promote. Raises ShapeError, DtypeError.
    """
    total, y = AddLayerNorm.apply(x, residual, weight, bias, epsilon("add_layer_norm", eps))
    return total, y


def add_rms_norm(x: Any, residual: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, Any]:
    """Return (sum, y): sum = x + residual, y = ``rms_norm(sum, weight, eps)``.

    x and residual (..., C) have one shape; their floating dtypes promote. Raises ShapeError, DtypeError.
    """
    total, y = AddRmsNorm.apply(x, residual, weight, epsilon("add_rms_norm", eps))
    return total, y
