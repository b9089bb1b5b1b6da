"""Array kernels of reductions. Half floats arrive as float32, so that long sums keep their digits."""

from __future__ import annotations

import math
from typing import Any

from .elementwise import floating
from .registry import array_kernel

Axes = tuple[int, ...]


@array_kernel()
def SumForward(xp: Any, x: Any, axes: Axes, keepdims: bool) -> Any:
    if not xp.isdtype(x.dtype, "real floating"):
        x = xp.astype(x, xp.int64)
    return xp.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


@array_kernel()
def SumBackward(xp: Any, grad: Any, shape: Axes, axes: Axes, keepdims: bool) -> Any:
    return xp.broadcast_to(opened(xp, grad, axes, keepdims), shape)


@array_kernel()
def MeanForward(xp: Any, x: Any, axes: Axes, keepdims: bool) -> Any:
    x = floating(xp, x)
    n = math.prod(x.shape[axis] for axis in axes)
    total = xp.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)
    return total / n if n else total * math.nan


@array_kernel()
def MeanBackward(xp: Any, grad: Any, shape: Axes, axes: Axes, keepdims: bool) -> Any:
    n = math.prod(shape[axis] for axis in axes)
    return xp.broadcast_to(opened(xp, grad, axes, keepdims) / n, shape)


@array_kernel()
def MaxForward(xp: Any, x: Any, axes: Axes, keepdims: bool) -> Any:
    return xp.max(x, axis=axes, keepdims=keepdims) if axes else xp.asarray(x, copy=True)


@array_kernel()
def MinForward(xp: Any, x: Any, axes: Axes, keepdims: bool) -> Any:
    return xp.min(x, axis=axes, keepdims=keepdims) if axes else xp.asarray(x, copy=True)


@array_kernel()
def MaxBackward(xp: Any, grad: Any, x: Any, y: Any, axes: Axes, keepdims: bool) -> Any:
    y = opened(xp, y, axes, keepdims)
    tied = xp.astype((x == y) | ((x != x) & (y != y)), grad.dtype)  # a NaN is the extreme, and equals nothing
    count = xp.sum(tied, axis=axes, keepdims=True) if axes else tied
    return opened(xp, grad, axes, keepdims) / count * tied


@array_kernel()
def MinBackward(xp: Any, grad: Any, x: Any, y: Any, axes: Axes, keepdims: bool) -> Any:
    return MaxBackward(xp, grad, x, y, axes, keepdims)


@array_kernel()
def ArgMax(xp: Any, x: Any, axis: int, keepdims: bool) -> Any:
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@array_kernel()
def ArgMin(xp: Any, x: Any, axis: int, keepdims: bool) -> Any:
    return xp.argmin(x, axis=axis, keepdims=keepdims)


@array_kernel()
def NormForward(xp: Any, x: Any, axes: Axes, keepdims: bool) -> Any:
    if not axes:
        return xp.abs(x)
    if 0 in x.shape:  # which has no largest element
        return xp.sum(x, axis=axes, keepdims=keepdims)
    peak = xp.max(xp.abs(x), axis=axes, keepdims=True)
    scale = xp.where(xp.isfinite(peak) & (peak > 0), peak, xp.ones_like(peak))
    x = x / scale  # so that no square overflows, and the largest is 1
    total = xp.sqrt(xp.sum(x * x, axis=axes, keepdims=True)) * scale
    return total if keepdims else xp.squeeze(total, axis=axes)


@array_kernel()
def NormBackward(xp: Any, grad: Any, x: Any, y: Any, axes: Axes, keepdims: bool) -> Any:
    y = opened(xp, y, axes, keepdims)
    unit = x / xp.where(y == 0, xp.ones_like(y), y)  # where y is 0 so is x
    return opened(xp, grad, axes, keepdims) * unit


@array_kernel()
def CumSumForward(xp: Any, x: Any, axis: int) -> Any:
    if not xp.isdtype(x.dtype, "real floating"):
        x = xp.astype(x, xp.int64)
    return xp.cumulative_sum(x, axis=axis)


@array_kernel()
def CumSumBackward(xp: Any, grad: Any, axis: int) -> Any:
    return xp.flip(xp.cumulative_sum(xp.flip(grad, axis=axis), axis=axis), axis=axis)


def opened(xp: Any, y: Any, axes: Axes, keepdims: bool) -> Any:
    """Return a reduced array with its reduced axes back, as size 1."""
    if keepdims:
        return y
    for axis in axes:
        y = xp.expand_dims(y, axis=axis)
    return y
