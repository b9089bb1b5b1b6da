"""Array kernels that tell numbers from infinities and NaN."""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel()
def IsFiniteForward(xp: Any, x: Any) -> Any:
    return xp.isfinite(x)


@array_kernel()
def IsNanForward(xp: Any, x: Any) -> Any:
    return xp.isnan(x)
