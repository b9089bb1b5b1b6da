"""Array kernels of activations and erf."""

from __future__ import annotations

import math
from typing import Any

from .elementwise import floating
from .registry import array_kernel
from .unary import SigmoidForward as sigmoid

_C = math.sqrt(2.0 / math.pi)
SATURATED = 100.0
"""Beyond it both forms of GELU are x or 0 in every dtype; the square of a larger x might be infinite."""


@array_kernel(needs="erf")
def GeluForward(xp: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + xp.tanh(_C * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + xp.erf(x / math.sqrt(2.0)))


@array_kernel(needs="erf")
def GeluBackward(xp: Any, x: Any, grad: Any, approximate: str) -> Any:
    x = xp.clip(x, -SATURATED, SATURATED)
    if approximate == "tanh":
        t = xp.tanh(_C * (x + 0.044715 * x * x * x))
        return grad * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * _C * (1.0 + 3.0 * 0.044715 * x * x))
    cdf = 0.5 * (1.0 + xp.erf(x / math.sqrt(2.0)))
    return grad * (cdf + x * xp.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi))


@array_kernel()
def ReluForward(xp: Any, x: Any) -> Any:
    return xp.maximum(x, 0.0)


@array_kernel()
def ReluBackward(xp: Any, grad: Any, y: Any) -> Any:
    return xp.where(y <= 0.0, 0.0, grad)


@array_kernel()
def SiluForward(xp: Any, x: Any) -> Any:
    return x * sigmoid(xp, x)


@array_kernel()
def SiluBackward(xp: Any, grad: Any, x: Any) -> Any:
    return grad * silu_slope(x, sigmoid(xp, x))


def silu_slope(x: Any, s: Any) -> Any:
    """Return the derivative of x s at x, s being the sigmoid of x."""
    return s * (1.0 + x * (1.0 - s))


@array_kernel(needs="erf")
def ErfForward(xp: Any, x: Any) -> Any:
    return xp.erf(floating(xp, x))


@array_kernel(needs="erf")
def ErfBackward(xp: Any, grad: Any, x: Any) -> Any:
    return grad * (2.0 / math.sqrt(math.pi) * xp.exp(-x * x))
