"""Cross-entropy over a linear layer, some classes of all rows at a time: BLAS copies each weight once, and a block of
weight gradients is one product into its place. Threads share the classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linear import rows
from .gemm import GRAIN, bounds, gemm
from .jit import parallel, parts, prange, serial
from .loss import mean_or_sum, scale_of, valid_targets
from .math import exp, exp_low, largest

f32 = np.float32
BLOCK, CLASSES = 1 << 19, 512
"""Logits held by a thread, but of no fewer classes."""


def LinearCrossEntropyForward(
    x: Any, weight: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str, *, out: Any
) -> None:
    a, w, ids, lse = rows(x.array), weight.array, target.array.reshape(-1), out[1].array.reshape(-1)
    count = valid_targets("LinearCrossEntropyForward", ids, len(w), ignore_index)
    nt = parts(len(a) * w.size, GRAIN)
    peak, total = np.empty((nt, ids.size), f32), np.empty((nt, ids.size), f32)
    picked, each = np.zeros_like(lse), np.empty_like(lse)
    if nt == 1:
        _statistics(0, len(w), a, w, ids, peak[0], total[0], picked)
    else:
        _statistics_split(nt, a, w, ids, peak, total, picked)
    _losses(peak, total, picked, ids, ignore_index, lse, each)
    out[0].array[...] = mean_or_sum(each, count, reduction)
    out[2].array.fill(len(w))


@serial
def _width(n):
    """How many classes of n rows are held at once."""
    return max(CLASSES, BLOCK // n // 16 * 16)


@serial
def _join(i, peak, total, m, z):
    """Add z exp(m) to total[i] exp(peak[i])."""
    if total[i] == 0:
        peak[i], total[i] = m, z
    elif z != 0 and m > peak[i]:
        peak[i], total[i] = m, total[i] * exp(peak[i] - m) + z
    elif z != 0:
        total[i] += z * exp(m - peak[i])


@serial
def _statistics(start, stop, x, w, ids, peak, total, picked):
    """Sums of exponentials over classes start .. stop - 1, total exp(peak), and the logits of targets among them."""
    n, width = len(x), max(1, min(_width(len(x)), stop - start))
    held = np.empty(n * width, f32)
    for i in range(n):
        peak[i], total[i] = f32(0), f32(0)
    for first in range(start, stop, width):
        last = min(first + width, stop)
        logits = held[: n * (last - first)].reshape(n, last - first)
        gemm(False, True, x, w[first:last], 0, logits)
        for i in range(n):
            row, z = logits[i], f32(0)
            m = largest(row)
            if m == -np.inf:
                m = f32(0)  # no class is there: 0 in all, but for a NaN
            for j in range(row.size):
                z += exp_low(row[j] - m)
            _join(i, peak, total, m, z)
            if first <= ids[i] < last:
                picked[i] = row[ids[i] - first]


@parallel
def _statistics_split(nt, x, w, ids, peak, total, picked):
    for t in prange(nt):
        start, stop = bounds(t, nt, len(w), 16)
        _statistics(start, stop, x, w, ids, peak[t], total[t], picked)


@serial
def _losses(peak, total, picked, ids, ignore_index, lse, each):
    """Join what the parts found, in their order."""
    for i in range(ids.size):
        for t in range(1, len(peak)):
            _join(i, peak[0], total[0], peak[t, i], total[t, i])
        lse[i] = peak[0, i] + np.log(total[0, i]) if total[0, i] != 0 else np.nan
        each[i] = lse[i] - picked[i] if ids[i] != ignore_index else f32(0)


def LinearCrossEntropyBackward(
    grad: Any, x: Any, weight: Any, target: Any, lse: Any, present: Any,
    ignore_index: int, label_smoothing: float, reduction: str,
    *, out: Any, accumulate: bool = False,
) -> None:  # fmt: skip
    a, w, ids, totals = rows(x.array), weight.array, target.array.reshape(-1), lse.array.reshape(-1)
    dx, dw = rows(out[0].array), out[1].array
    count = valid_targets("LinearCrossEntropyBackward", ids, len(w), ignore_index)
    args = a, w, ids, ignore_index, totals, scale_of(grad, count, reduction), 1 if accumulate else 0, dx, dw
    nt = parts(3 * len(a) * w.size, GRAIN)
    if nt == 1:
        _gradients(0, len(w), *args)
    else:
        _gradients_split(nt, *args)


@serial
def _known(w):
    """A copy of weights with 0 for those that are no number."""
    copy = np.empty(w.shape, f32)
    for i in range(len(w)):
        for j in range(w.shape[1]):
            copy[i, j] = w[i, j] if np.isfinite(w[i, j]) else f32(0)
    return copy


@serial
def _gradients(start, stop, x, w, ids, ignore_index, lse, scale, beta, dx, dw):
    """The weight's gradients of the classes start .. stop - 1, and what these add to dx."""
    n, width = len(x), max(1, min(_width(len(x)), stop - start))
    held = np.empty(n * width, f32)
    if start >= stop:
        dx.reshape(-1)[:] = 0
    for first in range(start, stop, width):
        last = min(first + width, stop)
        d, weights, unknown = held[: n * (last - first)].reshape(n, last - first), w[first:last], f32(0)
        gemm(False, True, x, weights, 0, d)
        for j in range(last - first):  # a weight that is no number makes that of all rows' logits
            unknown += d[0, j] - d[0, j]
        for i in range(n):
            row, total = d[i], lse[i]
            if ids[i] == ignore_index:
                row[:] = 0
                continue
            here = first <= ids[i] < last
            own = exp(row[ids[i] - first] - total) - f32(1) if here else f32(0)
            for j in range(row.size):
                row[j] = exp(row[j] - total) * scale
            if here:
                row[ids[i] - first] = own * scale  # which may be infinite: after the difference
        gemm(True, False, d, x, beta, dw[first:last])
        if unknown != 0:  # classes that are not there, or the rows' gradients are NaN already
            weights = _known(weights)
        gemm(False, False, d, weights, 0 if first == start else 1, dx)


@parallel
def _gradients_split(nt, x, w, ids, ignore_index, lse, scale, beta, dx, dw):
    n, width = x.shape
    partial = np.empty((nt - 1, n, width), f32)
    for t in prange(nt):
        start, stop = bounds(t, nt, len(w), 16)
        own = dx if t == 0 else partial[t - 1]
        _gradients(start, stop, x, w, ids, ignore_index, lse, scale, beta, own, dw)
    for t in range(nt - 1):
        for i in range(n):
            row, other = dx[i], partial[t, i]
            for j in range(width):
                row[j] += other[j]
