"""Array kernels of elementwise ops."""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel()
def AddForward(xp: Any, a: Any, b: Any) -> Any:
    return a + b
