"""Normalisations, with and without the residual before them: rows split over threads, each row in cache throughout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linear import rows
from .gemm import bounds
from .jit import inline, parallel, parts, prange, run, serial
from .linear import NONE

f32 = np.float32
_ABSENT = NONE[np.dtype(f32)]
_NO_ROWS = _ABSENT.reshape(0, 0)
GRAIN = 1 << 15
"""Elements worth a thread: about 10 us."""
BLOCK = 1024
"""Elements summed in float32 before they join a float64 total: as exact as pairwise sums, at no cost."""


def LayerNormForward(x: Any, weight: Any, bias: Any, eps: float, *, out: Any) -> None:
    _layer_norm(_NO_ROWS, _NO_ROWS, rows(x.array), weight, bias, eps, out)


def AddLayerNormForward(x: Any, residual: Any, weight: Any, bias: Any, eps: float, *, out: Any) -> None:
    _layer_norm(rows(x.array), rows(residual.array), rows(out[0].array), weight, bias, eps, out[1:])


def _layer_norm(
    a: np.ndarray, b: np.ndarray, x: np.ndarray, weight: Any, bias: Any, eps: float, out: Any
) -> None:
    y, mean, rstd = rows(out[0].array), out[1].array.reshape(-1), out[2].array.reshape(-1)
    shift = _ABSENT if bias is None else bias.array
    nt = parts(x.size, GRAIN)
    run(_layer_rows, _layer_forward, len(x), nt, a, b, x, weight.array, shift, float(eps), y, mean, rstd)


@inline
def _add(a, b, total):
    for j in range(total.size):
        total[j] = a[j] + b[j]


@inline
def _mean(x):
    total = 0.0
    for start in range(0, x.size, BLOCK):
        block = x[start : start + BLOCK]
        part = f32(0)
        for j in range(block.size):
            part += block[j]
        total += float(part)
    return f32(total / x.size)


@inline
def _rstd(x, mean, eps):
    """1 / sqrt(mean((x - mean)²) + eps)."""
    total = 0.0
    for start in range(0, x.size, BLOCK):
        block = x[start : start + BLOCK]
        part = f32(0)
        for j in range(block.size):
            d = block[j] - mean
            part += d * d
        total += float(part)
    return f32(1.0 / np.sqrt(total / x.size + eps))


@serial
def _layer_rows(start, stop, a, b, x, w, bias, eps, y, mean, rstd):
    for i in range(start, stop):
        row, h = x[i], y[i]
        if len(a):
            _add(a[i], b[i], row)
        m = _mean(row)
        r = _rstd(row, m, eps)
        mean[i], rstd[i] = m, r
        if bias.size:
            for j in range(h.size):
                h[j] = (row[j] - m) * r * w[j] + bias[j]
        else:
            for j in range(h.size):
                h[j] = (row[j] - m) * r * w[j]


@parallel
def _layer_forward(nt, a, b, x, w, bias, eps, y, mean, rstd):
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _layer_rows(i, j, a, b, x, w, bias, eps, y, mean, rstd)


def LayerNormBackward(
    x: Any, weight: Any, mean: Any, rstd: Any, grad: Any, *, out: Any, accumulate: bool = False
) -> None:
    AddLayerNormBackward(x, weight, mean, rstd, None, grad, out=out, accumulate=accumulate)


def AddLayerNormBackward(
    sum: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    grad_sum: Any,
    grad: Any,
    *,
    out: Any,
    accumulate: bool = False,
) -> None:
    x, g, dx = rows(sum.array), rows(grad.array), rows(out[0].array)
    more = _NO_ROWS if grad_sum is None else rows(grad_sum.array)
    m, r, nt = mean.array.reshape(-1), rstd.array.reshape(-1), parts(x.size, GRAIN)
    dweight, dbias = _ready(out[1].array, accumulate), _ready(out[2].array, accumulate)
    run(_layer_rows_back, _layer_backward, len(x), nt, x, weight.array, m, r, more, g, dx, dweight, dbias)


def _ready(total: np.ndarray, accumulate: bool) -> np.ndarray:
    """Return what a sum is to be added to."""
    if not accumulate:
        total.fill(0)
    return total


@serial
def _layer_rows_back(start, stop, x, w, mean, rstd, more, grad, dx, dw, db):
    width = f32(w.size)
    for i in range(start, stop):
        row, g, d = x[i], grad[i], dx[i]
        m, r = mean[i], rstd[i]
        along, level = f32(0), f32(0)
        for j in range(row.size):
            h = (row[j] - m) * r
            dw[j] += g[j] * h
            db[j] += g[j]
            level += g[j] * w[j]
            along += g[j] * w[j] * h
        along /= width
        level /= width
        if len(more):
            s = more[i]
            for j in range(row.size):
                d[j] = s[j] + (g[j] * w[j] - level - (row[j] - m) * r * along) * r
        else:
            for j in range(row.size):
                d[j] = (g[j] * w[j] - level - (row[j] - m) * r * along) * r


@serial
def _gather(parts, total):
    """Add the threads' parts in their order."""
    for t in range(len(parts)):
        part = parts[t]
        for j in range(total.size):
            total[j] += part[j]


@parallel
def _layer_backward(nt, x, w, mean, rstd, more, grad, dx, dweight, dbias):
    dw, db = np.zeros((nt, w.size), np.float32), np.zeros((nt, w.size), np.float32)
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _layer_rows_back(i, j, x, w, mean, rstd, more, grad, dx, dw[t], db[t])
    _gather(dw, dweight)
    _gather(db, dbias)


def RmsNormForward(x: Any, weight: Any, eps: float, *, out: Any) -> None:
    _rms_norm(_NO_ROWS, _NO_ROWS, rows(x.array), weight, eps, out)


def AddRmsNormForward(x: Any, residual: Any, weight: Any, eps: float, *, out: Any) -> None:
    _rms_norm(rows(x.array), rows(residual.array), rows(out[0].array), weight, eps, out[1:])


def _rms_norm(a: np.ndarray, b: np.ndarray, x: np.ndarray, weight: Any, eps: float, out: Any) -> None:
    y, rstd = rows(out[0].array), out[1].array.reshape(-1)
    nt = parts(x.size, GRAIN)
    run(_rms_rows, _rms_forward, len(x), nt, a, b, x, weight.array, float(eps), y, rstd)


@serial
def _rms_rows(start, stop, a, b, x, w, eps, y, rstd):
    for i in range(start, stop):
        row, h = x[i], y[i]
        if len(a):
            _add(a[i], b[i], row)
        r = _rstd(row, f32(0), eps)
        rstd[i] = r
        for j in range(h.size):
            h[j] = row[j] * r * w[j]


@parallel
def _rms_forward(nt, a, b, x, w, eps, y, rstd):
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _rms_rows(i, j, a, b, x, w, eps, y, rstd)


def RmsNormBackward(x: Any, weight: Any, rstd: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    AddRmsNormBackward(x, weight, rstd, None, grad, out=out, accumulate=accumulate)


def AddRmsNormBackward(
    sum: Any, weight: Any, rstd: Any, grad_sum: Any, grad: Any, *, out: Any, accumulate: bool = False
) -> None:
    x, g, dx = rows(sum.array), rows(grad.array), rows(out[0].array)
    more = _NO_ROWS if grad_sum is None else rows(grad_sum.array)
    r, nt, dweight = rstd.array.reshape(-1), parts(x.size, GRAIN), _ready(out[1].array, accumulate)
    run(_rms_rows_back, _rms_backward, len(x), nt, x, weight.array, r, more, g, dx, dweight)


@serial
def _rms_rows_back(start, stop, x, w, rstd, more, grad, dx, dw):
    width = f32(w.size)
    for i in range(start, stop):
        row, g, d = x[i], grad[i], dx[i]
        r, along = rstd[i], f32(0)
        for j in range(row.size):
            h = row[j] * r
            dw[j] += g[j] * h
            along += g[j] * w[j] * h
        along /= width
        if len(more):
            s = more[i]
            for j in range(row.size):
                d[j] = s[j] + (g[j] * w[j] - row[j] * r * along) * r
        else:
            for j in range(row.size):
                d[j] = (g[j] * w[j] - row[j] * r * along) * r


@parallel
def _rms_backward(nt, x, w, rstd, more, grad, dx, dweight):
    dw = np.zeros((nt, w.size), np.float32)
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _rms_rows_back(i, j, x, w, rstd, more, grad, dx, dw[t])
    _gather(dw, dweight)
