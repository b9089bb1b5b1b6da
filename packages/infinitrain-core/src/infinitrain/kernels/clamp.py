"""Array kernels of clamp, and of the larger and the smaller of two tensors."""

from __future__ import annotations

from typing import Any

from .elementwise import common, is_bool
from .linear import sum_to
from .registry import array_kernel


@array_kernel()
def ClampForward(xp: Any, x: Any, low: Any, high: Any) -> Any:
    return xp.clip(x, low, high)


@array_kernel()
def ClampBackward(xp: Any, grad: Any, x: Any, low: Any, high: Any) -> Any:
    return xp.where((x >= low) & (x <= high), grad, 0.0)


@array_kernel()
def MaximumForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return xp.logical_or(a, b) if is_bool(xp, a) else xp.maximum(a, b)


@array_kernel()
def MinimumForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return xp.logical_and(a, b) if is_bool(xp, a) else xp.minimum(a, b)


@array_kernel()
def MaximumBackward(xp: Any, grad: Any, a: Any, b: Any) -> Any:
    x, y = common(xp, a, b)
    return _shares(xp, grad, x == y, x < y, x > y, a.shape, b.shape)


@array_kernel()
def MinimumBackward(xp: Any, grad: Any, a: Any, b: Any) -> Any:
    x, y = common(xp, a, b)
    return _shares(xp, grad, x == y, x > y, x < y, a.shape, b.shape)


def _shares(xp: Any, grad: Any, tie: Any, a_lost: Any, b_lost: Any, a_shape: Any, b_shape: Any) -> Any:
    """Return grad for each operand: nothing where it lost, half where the two are equal."""
    share = xp.where(tie, 0.5 * grad, grad)
    da, db = xp.where(a_lost, 0.0, share), xp.where(b_lost, 0.0, share)
    return sum_to(xp, da, a_shape), sum_to(xp, db, b_shape)
