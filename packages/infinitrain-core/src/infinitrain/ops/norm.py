"""Layer normalisation, over the last axis of any rank."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, op, require_shape
from ..dtype import float32, float64
from ..errors import ShapeError


def _statistics_dtype(x: Any) -> Any:
    return float64 if x.dtype is float64 else float32


@op(profile="training", results="y mean rstd", gradient="LayerNormBackward")
def LayerNormForward(x: Tensor, weight: Tensor, bias: Tensor | None, eps: Scalar) -> Results:
    """y = (x - mean) rstd weight + bias, rstd = 1/sqrt(var + eps) with the biased variance, over the last axis;
    mean, rstd (...).
    """
    if not x.shape:
        raise ShapeError("x has no last axis")
    require_shape("weight", weight.shape, x.shape[-1:])
    if bias is not None:
        require_shape("bias", bias.shape, x.shape[-1:])
    statistics = (x.shape[:-1], _statistics_dtype(x))
    return [(x.shape, x.dtype), statistics, statistics]


@op(profile="training", results="dx dweight dbias", accumulates="dweight dbias")
def LayerNormBackward(x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, grad: Tensor) -> Results:
    """With h = (x - mean) rstd, g = grad weight: dx = rstd (g - mean(g) - h mean(g h)); dweight = sum of grad h;
    dbias = sum of grad.
    """
    require_shape("grad", grad.shape, x.shape)
    require_shape("weight", weight.shape, x.shape[-1:])
    require_shape("mean", mean.shape, x.shape[:-1])
    require_shape("rstd", rstd.shape, x.shape[:-1])
    return [(x.shape, x.dtype), (weight.shape, weight.dtype), (weight.shape, weight.dtype)]


class LayerNorm(Function, op=LayerNormForward):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        y, mean, rstd = LayerNormForward(x, weight, bias, eps)
        ctx.save(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight, mean, rstd = ctx.saved
        return (*ctx.into_all((0, 1, 2), LayerNormBackward, x, weight, mean, rstd, grad), None)


def layer_norm(x: Any, weight: Any, bias: Any = None, eps: float = 1e-5) -> Any:
    """Return x (..., C) normalised over its last axis, times weight (C,), plus bias (C,)."""
    return LayerNorm.apply(x, weight, bias, float(eps))
