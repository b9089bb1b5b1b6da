"""CPU kernels of activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels.activation import SATURATED
from .blocks import blocks
from .erf import erf
from .select import keep

_C = math.sqrt(2.0 / math.pi)
_C3 = 0.044715 * _C


def GeluForward(x: Any, approximate: str, *, out: Any) -> None:
    for a, y in blocks(x.array, out.array):
        gelu(a, approximate, y)


def gelu(a: np.ndarray, approximate: str, y: np.ndarray) -> None:
    """Write GELU of ``a`` to ``y``, another array."""
    if approximate == "tanh":
        np.multiply(a, a, out=y)
        y *= _C3
        y += _C
        y *= a
        np.tanh(y, out=y)
    else:
        np.multiply(a, math.sqrt(0.5), out=y)
        erf(y, y)
    y += 1.0
    y *= 0.5  # before a, which twice as large may overflow
    y *= a


def GeluBackward(x: Any, grad: Any, approximate: str, *, out: Any) -> None:
    if approximate != "tanh":
        for a, g, dx in blocks(x.array, grad.array, out.array):
            _gelu_exact_backward(a, g, dx)
        return
    for a, g, dx in blocks(x.array, grad.array, out.array):
        square = a * a
        # An infinite square times 1 - t² = 0 would be no number; NaN stays.
        np.minimum(square, SATURATED * SATURATED, out=square)
        t = square * _C3
        t += _C
        t *= a
        np.tanh(t, out=t)
        # dx = g/2 (1 + t + (1 - t²) x (C + 3 C3 x²))
        square *= 3.0 * _C3
        square += _C
        np.multiply(t, t, out=dx)
        np.subtract(1.0, dx, out=dx)
        dx *= a
        dx *= square
        dx += t
        dx += 1.0
        dx *= g
        dx *= 0.5


def _gelu_exact_backward(a: np.ndarray, g: np.ndarray, dx: np.ndarray) -> None:
    density = a * a
    density *= -0.5
    np.exp(density, out=density)
    density *= a
    density *= 1.0 / math.sqrt(2.0 * math.pi)
    np.multiply(a, math.sqrt(0.5), out=dx)
    erf(dx, dx)
    dx += 1.0
    dx *= 0.5
    dx += density
    dx *= g


def ReluForward(x: Any, *, out: Any) -> None:
    np.maximum(x.array, 0.0, out=out.array)


def ReluBackward(grad: Any, y: Any, *, out: Any) -> None:
    keep(grad.array, np.logical_not(np.less_equal(y.array, 0.0)), out.array)  # so that NaN passes


def SiluForward(x: Any, *, out: Any) -> None:
    for a, y in blocks(x.array, out.array):
        silu(a, y)


def silu(a: np.ndarray, y: np.ndarray) -> None:
    """Write a / (1 + e^-a) to ``y``, another array."""
    np.negative(a, y)
    np.exp(y, y)
    np.add(y, 1.0, y)
    np.divide(a, y, y)


def SiluBackward(grad: Any, x: Any, *, out: Any) -> None:
    for g, a, dx in blocks(grad.array, x.array, out.array):
        s = np.empty_like(a)
        sigmoid(a, s)
        silu_slope(a, s, dx)
        dx *= g


def sigmoid(a: np.ndarray, y: np.ndarray) -> None:
    """Write 1 / (1 + e^-a) to ``y``: an infinite e^-a gives 0, and a subnormal one is good to its last place."""
    np.negative(a, out=y)
    np.exp(y, out=y)
    y += 1.0
    np.divide(1.0, y, out=y)


def silu_slope(a: np.ndarray, s: np.ndarray, out: np.ndarray) -> None:
    """Write s (1 + a (1 - s)) to ``out``, the derivative of a s at a for its sigmoid s."""
    np.subtract(1.0, s, out=out)
    out *= a
    out += 1.0
    out *= s
