"""CPU kernels of GELU (tanh form; the exact form is the array layer's)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import activation as array_kernels
from ..kernels.namespace import Namespace
from .blocks import blocks

_C = math.sqrt(2.0 / math.pi)
_C3 = 0.044715 * _C


_NUMPY = Namespace(np)


def GeluForward(x: Any, approximate: str, *, out: Any) -> None:
    if approximate != "tanh":
        out.array[...] = array_kernels.GeluForward(_NUMPY, x.array, approximate)
        return
    for a, y in blocks(x.array, out.array):
        np.multiply(a, a, out=y)
        y *= _C3
        y += _C
        y *= a
        np.tanh(y, out=y)
        y += 1.0
        y *= 0.5  # before x, which twice as large may overflow
        y *= a


def GeluBackward(x: Any, grad: Any, approximate: str, *, out: Any) -> None:
    if approximate != "tanh":
        out.array[...] = array_kernels.GeluBackward(_NUMPY, x.array, grad.array, approximate)
        return
    for a, g, dx in blocks(x.array, grad.array, out.array):
        square = a * a
        t = square * _C3
        t += _C
        t *= a
        np.tanh(t, out=t)
        # dx = g/2 (1 + t + (1 - t²) x (C + 3 C3 x²))
        square *= 3.0 * _C3
        square += _C
        square *= a
        np.multiply(t, t, out=dx)
        np.subtract(1.0, dx, out=dx)
        dx *= square
        dx += t
        dx += 1.0
        dx *= g
        dx *= 0.5
