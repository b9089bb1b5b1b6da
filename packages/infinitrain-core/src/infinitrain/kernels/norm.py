"""Array kernels of layer normalisation. Two-pass variance: one pass loses half the digits once the mean is large."""

from __future__ import annotations

from typing import Any

from .linear import rows
from .registry import array_kernel


@array_kernel()
def LayerNormForward(xp: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
    mean = xp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1.0 / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + eps)
    y = centred * rstd * weight
    if bias is not None:
        y = y + bias
    return y, xp.squeeze(mean, axis=-1), xp.squeeze(rstd, axis=-1)


@array_kernel()
def LayerNormBackward(xp: Any, x: Any, weight: Any, mean: Any, rstd: Any, grad: Any) -> Any:
    rstd = xp.expand_dims(rstd, axis=-1)
    h = (x - xp.expand_dims(mean, axis=-1)) * rstd
    g = grad * weight
    dx = rstd * (g - xp.mean(g, axis=-1, keepdims=True) - h * xp.mean(g * h, axis=-1, keepdims=True))
    return dx, xp.sum(rows(xp, grad * h), axis=0), xp.sum(rows(xp, grad), axis=0)
