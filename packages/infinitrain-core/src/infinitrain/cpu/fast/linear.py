"""Linear: every part of the work is one product on one thread, and what is added to it while it is in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linear import rows
from .gemm import GRAIN, bounds, gemm, share
from .jit import parallel, parts, prange, serial
from .math import gelu

NONE = {np.dtype(t): np.empty(0, t) for t in (np.float32, np.float64)}
"""An argument that is not there: a kernel is compiled for arrays alone."""


def LinearForward(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    a, w, y = rows(x.array), weight.array, rows(out.array)
    b = NONE[w.dtype] if bias is None else bias.array
    nt = parts(len(a) * w.size, GRAIN)
    if nt == 1:
        _forward(a, w, b, y, 0, y.shape[0], 0, y.shape[1])
    else:
        _forward_split(a, w, b, y, nt)


@serial
def _forward(x, w, bias, y, top, bottom, left, right):
    gemm(False, True, x[top:bottom], w[left:right], 0, y[top:bottom, left:right])
    if bias.size:
        for i in range(top, bottom):
            row, b = y[i, left:right], bias[left:right]  # of `y`, whose rows are known to be contiguous
            for j in range(row.size):
                row[j] += b[j]


@parallel
def _forward_split(x, w, bias, y, nt):
    m, n = y.shape
    for t in prange(nt):
        top, bottom, left, right = share(t, nt, m, n, n >= m)  # each part packs its own part of the weights
        _forward(x, w, bias, y, top, bottom, left, right)


def LinearBackwardInput(weight: Any, grad: Any, *, out: Any) -> None:
    g, w = rows(grad.array), weight.array
    _product(False, g, w, 0, rows(out.array), parts(len(g) * w.size, GRAIN))


def LinearBackwardWeight(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    a, g = rows(x.array), rows(grad.array)
    _product(True, g, a, 1 if accumulate else 0, out.array, parts(g.size * a.shape[1], GRAIN))


def _product(ta: bool, a: Any, b: Any, beta: int, c: Any, nt: int) -> None:
    """c = op(a) b + beta c."""
    if nt == 1:
        _multiply(ta, a, b, beta, c, 0, c.shape[0], 0, c.shape[1])
    else:
        _multiply_split(ta, a, b, beta, c, nt)


@serial
def _multiply(ta, a, b, beta, c, top, bottom, left, right):
    part = a[:, top:bottom] if ta else a[top:bottom, :]
    gemm(ta, False, part, b[:, left:right], beta, c[top:bottom, left:right])


@parallel
def _multiply_split(ta, a, b, beta, c, nt):
    m, n = c.shape
    # Each part packs its share of the larger operand; a transposed one, which costs more, is not packed twice.
    columns = n >= m and not (ta and m >= 256)
    for t in prange(nt):
        top, bottom, left, right = share(t, nt, m, n, columns)
        _multiply(ta, a, b, beta, c, top, bottom, left, right)


def LinearBackwardBias(grad: Any, *, out: Any, accumulate: bool = False) -> None:
    g = rows(grad.array)
    nt = parts(g.size, 1 << 16)
    if nt == 1:
        column_sums(g, accumulate, out.array, 0, out.numel)
    else:
        _columns_split(g, accumulate, out.array, nt)


@serial
def column_sums(g, accumulate, total, i, j):
    """total (+)= the sum over rows of g, in columns i to j."""
    part = total[i:j]
    if not accumulate:
        part[:] = 0
    for k in range(len(g)):
        row = g[k, i:j]
        for c in range(part.size):
            part[c] += row[c]


@parallel
def _columns_split(g, accumulate, total, nt):
    for t in prange(nt):
        i, j = bounds(t, nt, total.size, 16)
        column_sums(g, accumulate, total, i, j)


def LinearGeluForward(x: Any, weight: Any, bias: Any, approximate: str, *, out: Any) -> None:
    a, w, y, pre = rows(x.array), weight.array, rows(out[0].array), rows(out[1].array)
    b = NONE[w.dtype] if bias is None else bias.array
    nt = parts(len(a) * w.size, GRAIN)
    if nt == 1:
        _gelu(a, w, b, y, pre, 0, y.shape[0], 0, y.shape[1])
    else:
        _gelu_split(a, w, b, y, pre, nt)


@serial
def _gelu(x, w, bias, y, pre, top, bottom, left, right):
    _forward(x, w, bias, pre, top, bottom, left, right)
    for i in range(top, bottom):
        p, r = pre[i, left:right], y[i, left:right]
        for j in range(p.size):
            r[j] = gelu(p[j])


@parallel
def _gelu_split(x, w, bias, y, pre, nt):
    m, n = y.shape
    for t in prange(nt):
        top, bottom, left, right = share(t, nt, m, n, n >= m)
        _gelu(x, w, bias, y, pre, top, bottom, left, right)
