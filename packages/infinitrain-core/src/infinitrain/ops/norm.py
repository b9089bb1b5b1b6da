"""Layer normalisation, over the last axis of any rank; what every normalisation checks."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, op, require_dtype, require_shape
from ..dtype import DType, float32, float64
from ..errors import DtypeError, ShapeError
from .base import epsilon


def statistics_dtype(dtype: DType) -> DType:
    """Return the dtype in which statistics of ``dtype`` are kept."""
    return float64 if dtype is float64 else float32


def require_rows(x: Any) -> None:
    """Raise ShapeError unless x has a last axis with something to average."""
    if not x.shape:
        raise ShapeError("x has no last axis")
    if not x.shape[-1]:
        raise ShapeError(f"x has shape {x.shape}, and nothing along its last axis to normalise")


def require_scale(x: Any, weight: Any, bias: Any = None) -> None:
    """Raise unless weight, of any floating dtype, fits x's last axis, and bias, of weight's dtype, as well
    [contract 5.1].
    """
    require_shape("weight", weight.shape, x.shape[-1:])
    if not weight.dtype.is_floating:
        raise DtypeError(f"weight has dtype {weight.dtype}, expected a floating one")
    if bias is not None:
        require_shape("bias", bias.shape, x.shape[-1:])
        require_dtype("bias", bias.dtype, weight.dtype)


def require_statistics(x: Any, **statistics: Any) -> None:
    """Raise unless each has one number per row of x, in the dtype of statistics."""
    for name, value in statistics.items():
        require_shape(name, value.shape, x.shape[:-1])
        require_dtype(name, value.dtype, statistics_dtype(x.dtype))


def require_gradient(name: str, grad: Any, y: Any) -> None:
    """Raise unless ``grad`` has y's shape and dtype."""
    require_shape(name, grad.shape, y.shape)
    require_dtype(name, grad.dtype, y.dtype)


@op(profile="training", results="y mean rstd", gradient="LayerNormBackward")
def LayerNormForward(x: Tensor, weight: Tensor, bias: Tensor | None, eps: Scalar) -> Results:
    """y = (x - mean) rstd weight + bias, rstd = 1/sqrt(var + eps) with the biased variance, over the last axis;
    mean, rstd (...). weight and bias may have another floating dtype than x; y has x's.
    """
    require_rows(x)
    require_scale(x, weight, bias)
    statistics = (x.shape[:-1], statistics_dtype(x.dtype))
    return [(x.shape, x.dtype), statistics, statistics]


@op(profile="training", results="dx dweight dbias", accumulates="dweight dbias")
def LayerNormBackward(x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor, grad: Tensor) -> Results:
    """With h = (x - mean) rstd, g = grad weight: dx = rstd (g - mean(g) - h mean(g h)); dweight = sum of grad h;
    dbias = sum of grad, both in weight's dtype.
    """
    require_rows(x)
    require_scale(x, weight)
    require_statistics(x, mean=mean, rstd=rstd)
    require_gradient("grad", grad, x)
    return [(x.shape, x.dtype), (weight.shape, weight.dtype), (weight.shape, weight.dtype)]


class LayerNorm(Function, op=LayerNormForward):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        y, mean, rstd = LayerNormForward(x, weight, bias, eps)
        ctx.save(x, weight, mean, rstd, bias)
        ctx.eps = eps
        return y

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        return LayerNormForward(ctx.saved_at(0), ctx.saved_at(1), ctx.saved_at(4), ctx.eps)[0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight, mean, rstd = (ctx.saved_at(i) for i in range(4))  # the bias may have changed
        return (*ctx.into_all((0, 1, 2), LayerNormBackward, x, weight, mean, rstd, grad), None)


def layer_norm(x: Any, weight: Any, bias: Any = None, eps: float = 1e-5) -> Any:
    """Return x (..., C) normalised over its last axis, times weight (C,), plus bias (C,), in x's dtype.

    (x - mean) / sqrt(var + eps) weight + bias, with the biased variance. Weight and bias have one floating dtype, which
    need not be x's; their gradients have it too. Raises ShapeError, DtypeError.
    """
    return LayerNorm.apply(x, weight, bias, epsilon("layer_norm", eps))
