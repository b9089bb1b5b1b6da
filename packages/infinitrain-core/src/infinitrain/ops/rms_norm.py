"""Root-mean-square normalisation (Zhang and Sennrich, 2019), over the last axis of any rank."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, op
from .base import epsilon
from .norm import require_gradient, require_rows, require_scale, require_statistics, statistics_dtype


@op(profile="fused", results="y rstd", gradient="RmsNormBackward")
def RmsNormForward(x: Tensor, weight: Tensor, eps: Scalar) -> Results:
    """y = x rstd weight, rstd (...) = 1/sqrt(mean(x²) + eps) over the last axis. weight may have another floating
    dtype than x; y has x's.
    """
    require_rows(x)
    require_scale(x, weight)
    return [(x.shape, x.dtype), (x.shape[:-1], statistics_dtype(x.dtype))]


@op(profile="fused", results="dx dweight", accumulates="dweight")
def RmsNormBackward(x: Tensor, weight: Tensor, rstd: Tensor, grad: Tensor) -> Results:
    """With h = x rstd, g = grad weight: dx = rstd (g - h mean(g h)); dweight = sum of grad h, in weight's dtype."""
    require_rows(x)
    require_scale(x, weight)
    require_statistics(x, rstd=rstd)
    require_gradient("grad", grad, x)
    return [(x.shape, x.dtype), (weight.shape, weight.dtype)]


class RmsNorm(Function, op=RmsNormForward):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, eps: float) -> Any:
        y, rstd = RmsNormForward(x, weight, eps)
        ctx.save(x, weight, rstd)
        ctx.eps = eps
        return y

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        return RmsNormForward(ctx.saved_at(0), ctx.saved_at(1), ctx.eps)[0]

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return (*ctx.into_all((0, 1), RmsNormBackward, *ctx.saved, grad), None)


def rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    """Return x / sqrt(mean(x²) + eps) weight over the last axis of x (..., C), weight (C,), in x's dtype.

    The weight may have another floating dtype than x; its gradient has it too. Raises ShapeError, DtypeError.
    """
    return RmsNorm.apply(x, weight, epsilon("rms_norm", eps))
