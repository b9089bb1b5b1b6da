"""Variance and standard deviation, from other ops: the mean first, then the squares around it."""

from __future__ import annotations

from math import prod
from typing import Any

from ..dtype import HALF, float32
from .base import cast, flag, rank, real
from .reduction import Axes, axes_of, mean, sum
from .unary import sqrt


def var(x: Any, axis: Axes = None, keepdims: bool = False, *, correction: float = 0) -> Any:
    """Return the sum of (x - mean)² over ``axis`` (one, several, or None for all), divided by n - ``correction``.

    ``correction`` 0 is NumPy's default, 1 PyTorch's. Where n - correction is not above 0 the result is NaN or inf.
    Half precision is computed in float32; integers and bools give float32.
    """
    return _like(x, _wide_variance("var", x, axis, keepdims, correction))


def std(x: Any, axis: Axes = None, keepdims: bool = False, *, correction: float = 0) -> Any:
    """Return the square root of ``var``; its gradient is not finite where that is 0."""
    return _like(x, sqrt(_wide_variance("std", x, axis, keepdims, correction)))


def _wide_variance(name: str, x: Any, axis: Axes, keepdims: bool, correction: float) -> Any:
    axes = axes_of(axis, rank(f"{name}: x", x), f"{name}: axis")
    keepdims, correction = flag(f"{name}: keepdims", keepdims), real(f"{name}: correction", correction)
    wide = x if x.dtype.is_floating and x.dtype not in HALF else cast(x, float32)
    apart = wide - mean(wide, axes, True)
    return sum(apart * apart, axes, keepdims) / max(prod(x.shape[a] for a in axes) - correction, 0.0)


def _like(x: Any, y: Any) -> Any:
    return cast(y, x.dtype) if x.dtype in HALF else y
