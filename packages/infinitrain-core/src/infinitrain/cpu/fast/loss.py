"""Cross-entropy by rows: a pass for the maximum, one for the sum of exponentials, one for the gradient in its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..loss import counted, reduced
from .gemm import bounds
from .jit import parallel, parts, prange, run, serial
from .math import exp, exp_low, largest

f32 = np.float32
GRAIN = 1 << 15
"""Logits worth a thread."""


def valid_targets(op: str, ids: np.ndarray, classes: int, ignore_index: int) -> int:
    """Return how many of ids (N,) count. Raises IndexError naming the first out of range [contract 4.7]."""
    count = _count(ids, classes, ignore_index)
    if count < 0:
        counted(op, ids, classes, ignore_index)  # which finds out where
    return count


@serial
def _count(ids, classes, ignore_index):
    """How many of ids are not ``ignore_index``; -1 where one of them is no class."""
    count = 0
    for i in range(ids.size):
        if ids[i] != ignore_index:
            count += 1
            if not 0 <= ids[i] < classes:
                return -1
    return count


def mean_or_sum(each: np.ndarray, count: int, reduction: str) -> Any:
    """Return the sum of losses, 0 where a row does not count, or their mean; NaN is the mean of none."""
    total = reduced(each, None, "sum")
    if reduction == "sum":
        return total
    return total / count if count else np.nan


def CrossEntropyForward(
    logits: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str, *, out: Any
) -> None:
    width = logits.shape[-1]
    rows, ids, lse = logits.array.reshape(-1, width), target.array.reshape(-1), out[1].array.reshape(-1)
    count, each = valid_targets("CrossEntropyForward", ids, width, ignore_index), np.empty_like(lse)
    run(_losses, _losses_split, len(rows), parts(rows.size, GRAIN), rows, ids, ignore_index, lse, each)
    out[0].array[...] = mean_or_sum(each, count, reduction)


@serial
def _losses(start, stop, rows, ids, ignore_index, lse, each):
    for i in range(start, stop):
        row, total = rows[i], f32(0)
        peak = largest(row)
        for j in range(row.size):
            total += exp_low(row[j] - peak)
        lse[i] = peak + np.log(total)
        each[i] = lse[i] - row[ids[i]] if ids[i] != ignore_index else f32(0)


@parallel
def _losses_split(nt, rows, ids, ignore_index, lse, each):
    for t in prange(nt):
        start, stop = bounds(t, nt, len(rows), 1)
        _losses(start, stop, rows, ids, ignore_index, lse, each)


def CrossEntropyBackward(
    grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, label_smoothing: float, reduction: str,
    *, out: Any,
) -> None:  # fmt: skip
    _gradient("CrossEntropyBackward", grad, logits, target, lse, ignore_index, reduction, out)


def CrossEntropyBackwardInPlace(
    grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> None:  # fmt: skip
    _gradient("CrossEntropyBackwardInPlace", grad, logits, target, lse, ignore_index, reduction, logits)


def scale_of(grad: Any, count: int, reduction: str) -> np.float32:
    """Return what the gradient of each row that counts is multiplied by."""
    return f32(float(grad.array) / (1 if reduction == "sum" else max(1, count)))


def _gradient(
    op: str, grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, reduction: str, out: Any
) -> None:
    width = logits.shape[-1]
    rows, d = logits.array.reshape(-1, width), out.array.reshape(-1, width)
    ids, totals = target.array.reshape(-1), lse.array.reshape(-1)
    scale = scale_of(grad, valid_targets(op, ids, width, ignore_index), reduction)
    args = rows, ids, ignore_index, totals, scale, d
    run(_gradients, _gradients_split, len(rows), parts(rows.size, GRAIN), *args)


@serial
def _gradients(start, stop, rows, ids, ignore_index, lse, scale, d):
    """Fill rows of d, which may be the logits."""
    for i in range(start, stop):
        row, target, total = d[i], ids[i], lse[i]
        if target == ignore_index:
            row[:] = 0
            continue
        if (
            rows.ctypes.data != d.ctypes.data
        ):  # a loop over two arrays, which may overlap, would not be vectorised
            source = rows[i]
            for j in range(row.size):
                row[j] = source[j]
        own = exp(row[target] - total) - f32(1)
        for j in range(row.size):
            row[j] = exp(row[j] - total) * scale
        row[target] = own * scale  # which may be infinite: after the difference


@parallel
def _gradients_split(nt, rows, ids, ignore_index, lse, scale, d):
    for t in prange(nt):
        start, stop = bounds(t, nt, len(rows), 1)
        _gradients(start, stop, rows, ids, ignore_index, lse, scale, d)
