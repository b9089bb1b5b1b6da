"""Array kernels of root-mean-square normalisation."""

from __future__ import annotations

from typing import Any

from .linear import rows
from .registry import array_kernel


@array_kernel()
def RmsNormForward(xp: Any, x: Any, weight: Any, eps: float) -> Any:
    rstd = 1.0 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + eps)
    return x * rstd * weight, xp.squeeze(rstd, axis=-1)


@array_kernel()
def RmsNormBackward(xp: Any, x: Any, weight: Any, rstd: Any, grad: Any) -> Any:
    rstd = xp.expand_dims(rstd, axis=-1)
    h, g = x * rstd, grad * weight
    dx = rstd * (g - h * xp.mean(g * h, axis=-1, keepdims=True))
    return dx, xp.sum(rows(xp, grad * h), axis=0)
