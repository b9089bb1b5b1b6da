"""Softmax and its logarithm over the last axis, rows split over threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linear import rows
from .gemm import bounds
from .jit import parallel, parts, prange, run, serial
from .math import exp, exp_low, largest

f32 = np.float32
GRAIN = 1 << 14
"""Elements worth a thread: about 10 us."""


def SoftmaxForward(x: Any, axis: int, *, out: Any) -> None:
    _forward(False, x, out)


def LogSoftmaxForward(x: Any, axis: int, *, out: Any) -> None:
    _forward(True, x, out)


def _forward(log: bool, x: Any, out: Any) -> None:
    a = rows(x.array)
    run(_softmax, _split_softmax, len(a), parts(a.size, GRAIN), log, a, rows(out.array))


@serial
def _softmax(start, stop, log, x, y):
    for i in range(start, stop):
        row, r = x[i], y[i]
        top, total = largest(row), f32(0)
        for j in range(row.size):
            e = exp_low(row[j] - top)
            r[j] = e
            total += e
        if log:
            total = np.log(total)
            for j in range(row.size):
                r[j] = (row[j] - top) - total
        else:
            total = f32(1) / total
            for j in range(row.size):
                r[j] *= total


@parallel
def _split_softmax(nt, log, x, y):
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _softmax(i, j, log, x, y)


def SoftmaxBackward(grad: Any, y: Any, axis: int, *, out: Any) -> None:
    _backward(False, grad, y, out)


def LogSoftmaxBackward(grad: Any, y: Any, axis: int, *, out: Any) -> None:
    _backward(True, grad, y, out)


def _backward(log: bool, grad: Any, y: Any, out: Any) -> None:
    g = rows(grad.array)
    run(_slopes, _split_slopes, len(g), parts(g.size, GRAIN), log, g, rows(y.array), rows(out.array))


@serial
def _slopes(start, stop, log, grad, y, dx):
    for i in range(start, stop):
        g, p, d = grad[i], y[i], dx[i]
        total = f32(0)
        if log:
            for j in range(g.size):
                total += g[j]
            for j in range(g.size):
                d[j] = g[j] - exp(p[j]) * total
        else:
            for j in range(g.size):
                total += g[j] * p[j]
            for j in range(g.size):
                d[j] = p[j] * (g[j] - total)


@parallel
def _split_slopes(nt, log, grad, y, dx):
    for t in prange(nt):
        i, j = bounds(t, nt, len(grad), 1)
        _slopes(i, j, log, grad, y, dx)
