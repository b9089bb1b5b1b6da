"""Array kernels of GELU."""

from __future__ import annotations

import math
from typing import Any

from .registry import array_kernel

_C = math.sqrt(2.0 / math.pi)


@array_kernel(needs="erf")
def GeluForward(xp: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + xp.tanh(_C * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + xp.erf(x / math.sqrt(2.0)))


@array_kernel(needs="erf")
def GeluBackward(xp: Any, x: Any, grad: Any, approximate: str) -> Any:
    if approximate == "tanh":
        t = xp.tanh(_C * (x + 0.044715 * x * x * x))
        return grad * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * _C * (1.0 + 3.0 * 0.044715 * x * x))
    cdf = 0.5 * (1.0 + xp.erf(x / math.sqrt(2.0)))
    return grad * (cdf + x * xp.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))
