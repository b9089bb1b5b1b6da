"""Array kernels of dropout."""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel(needs="dropout_mask")
def DropoutForward(xp: Any, x: Any, p: float, key: int, step: int, first_sample: int) -> Any:
    kept = xp.dropout_mask(x, p, key, step, first_sample)
    # Not a product with the mask: what is dropped may be infinite.
    return xp.where(kept, x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0.0)


@array_kernel(needs="dropout_mask")
def DropoutBackward(xp: Any, grad: Any, p: float, key: int, step: int, first_sample: int) -> Any:
    return DropoutForward(xp, grad, p, key, step, first_sample)
