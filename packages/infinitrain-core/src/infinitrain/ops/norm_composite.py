"""Fused normalisations from other ops of the table: what a backend without these kernels runs [contract 4.3]."""

from __future__ import annotations

from math import prod
from typing import Any

from ..backend.dispatch import composite
from ..dtype import HALF, DType, float32
from .base import Cast, NoOpForward
from .elementwise import AddForward, AddScalarForward, MulForward, SubForward
from .norm import LayerNormBackward, LayerNormForward
from .reduction import MeanForward, SumForward
from .rms_norm import RmsNormBackward as rms_backward
from .rms_norm import RmsNormForward as rms_forward
from .unary import RsqrtForward


def wide(x: Any) -> Any:
    """Return x in the precision to compute in: half as float32."""
    return Cast(x, float32) if x.dtype in HALF else x


def narrow(x: Any, dtype: DType) -> Any:
    """Return a result in the dtype that was inferred."""
    return x if x.dtype is dtype else Cast(x, dtype)


@composite("RsqrtForward MulForward AddScalarForward MeanForward")
def RmsNormForward(x: Any, weight: Any, eps: float) -> Any:
    values, last = wide(x), (len(x.shape) - 1,)
    rstd = RsqrtForward(AddScalarForward(MeanForward(MulForward(values, values), last, True), eps))
    y = MulForward(MulForward(values, rstd), wide(weight))
    return narrow(y, x.dtype), NoOpForward(rstd, x.shape[:-1])


@composite("SubForward MulForward SumForward MeanForward")
def RmsNormBackward(x: Any, weight: Any, rstd: Any, grad: Any) -> Any:
    dy, last = wide(grad), (len(x.shape) - 1,)
    scale = NoOpForward(rstd, (*rstd.shape, 1))
    h, g = MulForward(wide(x), scale), MulForward(dy, wide(weight))
    along = MeanForward(MulForward(g, h), last, True)
    dx = MulForward(SubForward(g, MulForward(h, along)), scale)
    rows = NoOpForward(MulForward(dy, h), (prod(x.shape[:-1]), x.shape[-1]))
    return narrow(dx, x.dtype), narrow(SumForward(rows, (0,), False), weight.dtype)


@composite("LayerNormForward AddForward")
def AddLayerNormForward(x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> Any:
    total = AddForward(x, residual)
    return (total, *LayerNormForward(total, weight, bias, eps))


@composite("LayerNormBackward AddForward")
def AddLayerNormBackward(sum: Any, weight: Any, mean: Any, rstd: Any, grad_sum: Any, grad: Any) -> Any:
    dx, *others = LayerNormBackward(wide(sum), weight, mean, rstd, wide(grad))
    return (_with(dx, grad_sum, sum.dtype), *others)


@composite("AddForward RmsNormForward")
def AddRmsNormForward(x: Any, residual: Any, weight: Any, eps: float) -> Any:
    total = AddForward(x, residual)
    return (total, *rms_forward(total, weight, eps))


@composite("AddForward RmsNormBackward")
def AddRmsNormBackward(sum: Any, weight: Any, rstd: Any, grad_sum: Any, grad: Any) -> Any:
    dx, dweight = rms_backward(wide(sum), weight, rstd, wide(grad))
    return _with(dx, grad_sum, sum.dtype), dweight


def _with(dx: Any, grad_sum: Any, dtype: DType) -> Any:
    """Return dx + grad_sum, rounded once."""
    return narrow(dx if grad_sum is None else AddForward(dx, wide(grad_sum)), dtype)
