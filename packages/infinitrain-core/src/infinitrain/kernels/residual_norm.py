"""Array kernels of residual addition and the normalisation after it."""

from __future__ import annotations

from typing import Any

from . import norm, rms_norm
from .linear import widened
from .registry import array_kernel


def _sum(xp: Any, x: Any, residual: Any) -> tuple[Any, Any]:
    """Return x + residual in their promoted dtype, and the same values in the precision to compute in."""
    total = widened(xp, x) + widened(xp, residual)
    if x.dtype == residual.dtype:
        total = xp.astype(total, x.dtype, copy=False)
    return total, widened(xp, total)


# Exact: what is normalised is the rounded sum, so the arguments' own dtypes matter.


@array_kernel(exact=True)
def AddLayerNormForward(xp: Any, x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> Any:
    total, values = _sum(xp, x, residual)
    bias = None if bias is None else widened(xp, bias)
    return (total, *norm.LayerNormForward(xp, values, widened(xp, weight), bias, eps))


@array_kernel()
def AddLayerNormBackward(
    xp: Any, sum: Any, weight: Any, mean: Any, rstd: Any, grad_sum: Any, grad: Any
) -> Any:
    dx, *others = norm.LayerNormBackward(xp, sum, weight, mean, rstd, grad)
    return (dx if grad_sum is None else dx + grad_sum, *others)


@array_kernel(exact=True)
def AddRmsNormForward(xp: Any, x: Any, residual: Any, weight: Any, eps: float) -> Any:
    total, values = _sum(xp, x, residual)
    return (total, *rms_norm.RmsNormForward(xp, values, widened(xp, weight), eps))


@array_kernel()
def AddRmsNormBackward(xp: Any, sum: Any, weight: Any, rstd: Any, grad_sum: Any, grad: Any) -> Any:
    dx, dweight = rms_norm.RmsNormBackward(xp, sum, weight, rstd, grad)
    return dx if grad_sum is None else dx + grad_sum, dweight
