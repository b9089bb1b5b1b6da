"""Linear: every part of the work is one product on one thread, and what is added to it while it is in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linear import rows
from .gemm import GRAIN, bounds, gemm
from .jit import parallel, parts, prange, serial
from .math import gelu

NONE = {np.dtype(t): np.empty(0, t) for t in (np.float32, np.float64)}
"""An argument that is not there: a kernel is compiled for arrays alone."""


def LinearForward(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    a, w = rows(x.array), weight.array
    b = NONE[w.dtype] if bias is None else bias.array
    _forward(a, w, b, rows(out.array), parts(len(a) * w.size, GRAIN))


@serial
def _add_bias(y, bias):
    if bias.size:
        for i in range(len(y)):
            row = y[i]
            for j in range(row.size):
                row[j] += bias[j]


@parallel
def _forward(x, w, bias, y, nt):
    m, n = y.shape
    if nt == 1:
        gemm(False, True, x, w, 0, y)
        _add_bias(y, bias)
    elif n >= m:  # each part packs its own part of the weights
        for t in prange(nt):
            i, j = bounds(t, nt, n, 16)
            gemm(False, True, x, w[i:j], 0, y[:, i:j])
            _add_bias(y[:, i:j], bias[i:j])
    else:
        for t in prange(nt):
            i, j = bounds(t, nt, m, 16)
            gemm(False, True, x[i:j], w, 0, y[i:j])
            _add_bias(y[i:j], bias)


def LinearBackwardInput(weight: Any, grad: Any, *, out: Any) -> None:
    g, w = rows(grad.array), weight.array
    _product(False, g, w, 0, rows(out.array), parts(len(g) * w.size, GRAIN))


def LinearBackwardWeight(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    a, g = rows(x.array), rows(grad.array)
    _product(True, g, a, 1 if accumulate else 0, out.array, parts(g.size * a.shape[1], GRAIN))


@parallel
def _product(ta, a, b, beta, c, nt):
    """c = op(a) b + beta c."""
    m, n = c.shape
    if nt == 1:
        gemm(ta, False, a, b, beta, c)
    elif n >= m and not (ta and m >= 256):  # a transposed costs more to pack, and is packed once by rows
        for t in prange(nt):
            i, j = bounds(t, nt, n, 16)
            gemm(ta, False, a, b[:, i:j], beta, c[:, i:j])
    else:
        for t in prange(nt):
            i, j = bounds(t, nt, m, 16)
            if ta:
                gemm(True, False, a[:, i:j], b, beta, c[i:j])
            else:
                gemm(False, False, a[i:j], b, beta, c[i:j])


def LinearBackwardBias(grad: Any, *, out: Any, accumulate: bool = False) -> None:
    g = rows(grad.array)
    _columns(g, accumulate, out.array, parts(g.size, 1 << 16))


@serial
def _sum_rows(g, total):
    for i in range(len(g)):
        row = g[i]
        for j in range(row.size):
            total[j] += row[j]


@parallel
def _columns(g, accumulate, total, nt):
    """total (+)= the sum over rows of g, columns split."""
    if not accumulate:
        for j in range(total.size):
            total[j] = 0
    if nt == 1:
        _sum_rows(g, total)
    else:
        for t in prange(nt):
            i, j = bounds(t, nt, total.size, 16)
            _sum_rows(g[:, i:j], total[i:j])


def LinearGeluForward(x: Any, weight: Any, bias: Any, approximate: str, *, out: Any) -> None:
    a, w = rows(x.array), weight.array
    b = NONE[w.dtype] if bias is None else bias.array
    _forward_gelu(a, w, b, rows(out[0].array), rows(out[1].array), parts(len(a) * w.size, GRAIN))


@serial
def _bias_gelu(pre, bias, y):
    for i in range(len(y)):
        p, r = pre[i], y[i]
        if bias.size:
            for j in range(p.size):
                p[j] += bias[j]
        for j in range(p.size):
            r[j] = gelu(p[j])


@parallel
def _forward_gelu(x, w, bias, y, pre, nt):
    m, n = y.shape
    if nt == 1:
        gemm(False, True, x, w, 0, pre)
        _bias_gelu(pre, bias, y)
    elif n >= m:
        for t in prange(nt):
            i, j = bounds(t, nt, n, 16)
            gemm(False, True, x, w[i:j], 0, pre[:, i:j])
            _bias_gelu(pre[:, i:j], bias[i:j], y[:, i:j])
    else:
        for t in prange(nt):
            i, j = bounds(t, nt, m, 16)
            gemm(False, True, x[i:j], w, 0, pre[i:j])
            _bias_gelu(pre[i:j], bias, y[i:j])
