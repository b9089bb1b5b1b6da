"""CPU kernels of clamp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import blocks
from .select import keep


def ClampForward(x: Any, low: float, high: float, *, out: Any) -> None:
    np.clip(x.array, low, high, out=out.array)


def ClampBackward(grad: Any, x: Any, low: float, high: float, *, out: Any) -> None:
    for g, a, dx in blocks(grad.array, x.array, out.array):
        mask = np.greater_equal(a, low)
        np.logical_and(mask, np.less_equal(a, high), mask)
        keep(g, mask, dx)
