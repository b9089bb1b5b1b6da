"""Sums and products of large tensors, of which one may be a trailing part that is broadcast.

NumPy needs one pass over memory as well, so that only sizes that are worth two threads come here, or rows, which it
broadcasts slowly (`SUPPORTS`). Equal shapes are one long row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm import bounds
from .jit import parallel, parts, prange, run, serial
from .linear import NONE

f32 = np.float32
GRAIN = 1 << 15
"""Elements worth a thread: about 10 us."""
_ABSENT = NONE[np.dtype(f32)]
_ADD, _MUL, _ACCUMULATE = range(3)


def AddForward(a: Any, b: Any, *, out: Any) -> None:
    whole, row = _larger_first(a.array, b.array)
    _into(_ADD, whole, row, 0.0, out.array)


def MulForward(a: Any, b: Any, *, out: Any) -> None:
    whole, row = _larger_first(a.array, b.array)
    _into(_MUL, whole, row, 0.0, out.array)


def AccumulateGrad(grad: Any, rate: float, tensor: Any) -> None:
    _into(_ACCUMULATE, grad.array.reshape(-1), _ABSENT, rate, tensor.array)


def _larger_first(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (b, a.reshape(-1)) if a.size < b.size else (a, b.reshape(-1))


def _into(kind: int, a: np.ndarray, row: np.ndarray, value: float, y: np.ndarray) -> None:
    shape = (-1, row.size or a.size)
    a, y = a.reshape(shape), y.reshape(shape)
    n, nt = len(a) if len(a) > 1 else a.size, parts(a.size, GRAIN)
    run(_combine, _split_combine, n, nt, kind, a, row, f32(value), y)


@serial
def _combine(start, stop, kind, a, row, value, y):
    """Rows start to stop; of a single row, these elements."""
    first, last, begin, end = (0, 1, start, stop) if len(a) == 1 else (start, stop, 0, a.shape[1])
    b = row[begin:end]
    for i in range(first, last):
        x, r = a[i, begin:end], y[i, begin:end]
        if kind == _ADD:
            for j in range(x.size):
                r[j] = x[j] + b[j]
        elif kind == _MUL:
            for j in range(x.size):
                r[j] = x[j] * b[j]
        else:
            for j in range(x.size):
                r[j] += x[j] * value


@parallel
def _split_combine(nt, kind, a, row, value, y):
    n = len(a) if len(a) > 1 else a.size
    for t in prange(nt):
        i, j = bounds(t, nt, n, 16 if len(a) == 1 else 1)
        _combine(i, j, kind, a, row, value, y)


def MulBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    whole, row = _larger_first(a.array, b.array)
    full, part = _larger_first(out[0].array, out[1].array)
    shape = (-1, row.size)
    nt = parts(grad.numel, GRAIN)
    g, x, d = grad.array.reshape(shape), whole.reshape(shape), full.reshape(shape)
    run(_slopes, _split_slopes, row.size, nt, g, x, row, d, part)


@serial
def _slopes(start, stop, grad, whole, row, full, part):
    """Columns start to stop: sums over rows do not depend on the number of threads."""
    b, p = row[start:stop], part[start:stop]
    for i in range(len(grad)):
        g, a, d = grad[i, start:stop], whole[i, start:stop], full[i, start:stop]
        for j in range(g.size):
            d[j] = g[j] * b[j]
        if i == 0:
            for j in range(g.size):
                p[j] = g[j] * a[j]
        else:
            for j in range(g.size):
                p[j] += g[j] * a[j]


@parallel
def _split_slopes(nt, grad, whole, row, full, part):
    for t in prange(nt):
        i, j = bounds(t, nt, grad.shape[1], 16)
        _slopes(i, j, grad, whole, row, full, part)
