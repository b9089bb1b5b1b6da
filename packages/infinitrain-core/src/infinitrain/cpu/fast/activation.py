"""Activations and their slopes: one pass over memory, cut into parts.

The functions of one file share one loop over threads, and a number says which of them is meant: what takes the compiler
longest is that loop, not the few lines inside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm import bounds
from .jit import parallel, parts, prange, run, serial
from .math import erf, exp_low, gelu, gelu_slope, sigmoid

f32 = np.float32
GRAIN = 1 << 14
"""Elements worth a thread: about 10 us."""
_GELU, _GELU_EXACT, _SILU, _RELU, _SIGMOID, _TANH = range(6)
_SQRT_HALF, _DENSITY = f32(0.5**0.5), f32((2 * np.pi) ** -0.5)


def _function(kind: int, x: Any, out: Any) -> None:
    a = x.array.reshape(-1)
    run(_functions, _split_functions, a.size, parts(a.size, GRAIN), kind, a, out.array.reshape(-1))


def _slope(kind: int, grad: Any, x: Any, out: Any) -> None:
    g = grad.array.reshape(-1)
    nt = parts(g.size, GRAIN)
    run(_slopes, _split_slopes, g.size, nt, kind, g, x.array.reshape(-1), out.array.reshape(-1))


def GeluForward(x: Any, approximate: str, *, out: Any) -> None:
    _function(_GELU if approximate == "tanh" else _GELU_EXACT, x, out)


def GeluBackward(x: Any, grad: Any, approximate: str, *, out: Any) -> None:
    _slope(_GELU if approximate == "tanh" else _GELU_EXACT, grad, x, out)


def SiluForward(x: Any, *, out: Any) -> None:
    _function(_SILU, x, out)


def SiluBackward(grad: Any, x: Any, *, out: Any) -> None:
    _slope(_SILU, grad, x, out)


def ReluForward(x: Any, *, out: Any) -> None:
    _function(_RELU, x, out)


def ReluBackward(grad: Any, y: Any, *, out: Any) -> None:
    _slope(_RELU, grad, y, out)


def SigmoidForward(x: Any, *, out: Any) -> None:
    _function(_SIGMOID, x, out)


def SigmoidBackward(grad: Any, y: Any, *, out: Any) -> None:
    _slope(_SIGMOID, grad, y, out)


def TanhBackward(grad: Any, y: Any, *, out: Any) -> None:
    _slope(_TANH, grad, y, out)


@serial
def _functions(start, stop, kind, x, y):
    x, y = x[start:stop], y[start:stop]
    if kind == _GELU:
        for j in range(x.size):
            y[j] = gelu(x[j])
    elif kind == _GELU_EXACT:
        for j in range(x.size):
            y[j] = x[j] * (f32(0.5) * (f32(1) + erf(_SQRT_HALF * x[j])))
    elif kind == _SILU:
        for j in range(x.size):
            y[j] = x[j] * sigmoid(x[j])
    elif kind == _RELU:
        for j in range(x.size):
            y[j] = f32(0) if x[j] <= 0 else x[j]
    else:
        for j in range(x.size):
            y[j] = sigmoid(x[j])


@parallel
def _split_functions(nt, kind, x, y):
    for t in prange(nt):
        i, j = bounds(t, nt, x.size, 16)
        _functions(i, j, kind, x, y)


@serial
def _slopes(start, stop, kind, g, x, d):
    """d = g f'(x), where x is what the op's row has: the argument or the result."""
    g, x, d = g[start:stop], x[start:stop], d[start:stop]
    if kind == _GELU:
        for j in range(g.size):
            d[j] = g[j] * gelu_slope(x[j])
    elif kind == _GELU_EXACT:
        for j in range(g.size):
            a = x[j]
            share = f32(0.5) * (f32(1) + erf(_SQRT_HALF * a))
            d[j] = g[j] * (share + a * exp_low(f32(-0.5) * a * a) * _DENSITY)
    elif kind == _SILU:
        for j in range(g.size):
            s = sigmoid(x[j])
            d[j] = g[j] * (s * (f32(1) + x[j] * (f32(1) - s)))
    elif kind == _RELU:
        for j in range(g.size):
            d[j] = f32(0) if x[j] <= 0 else g[j]
    elif kind == _SIGMOID:
        for j in range(g.size):
            d[j] = g[j] * (x[j] * (f32(1) - x[j]))
    else:
        for j in range(g.size):
            d[j] = g[j] * (f32(1) - x[j] * x[j])


@parallel
def _split_slopes(nt, kind, g, x, d):
    for t in prange(nt):
        i, j = bounds(t, nt, g.size, 16)
        _slopes(i, j, kind, g, x, d)
