"""CPU kernels of clamp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .select import keep


def ClampForward(x: Any, low: float, high: float, *, out: Any) -> None:
    np.clip(x.array, low, high, out=out.array)


def ClampBackward(grad: Any, x: Any, low: float, high: float, *, out: Any) -> None:
    a = x.array
    mask = np.greater_equal(a, low)
    keep(grad.array, np.logical_and(mask, np.less_equal(a, high)), out.array)
