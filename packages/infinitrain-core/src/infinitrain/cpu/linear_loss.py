"""CPU kernels of cross-entropy over a linear layer: one block of logits, worked on in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blas import matmul
from .blocks import row_blocks
from .linear import rows as matrix
from .loss import counted, reduced, row_losses, scale_of

BLOCK = 1 << 21
"""Logits in a block: 8 MiB of float32. Below, BLAS has too few rows to be fast; above, nothing is gained."""


def _steps(total: int, width: int) -> list[slice]:
    step = max(64, BLOCK // max(1, width))
    return [slice(start, min(total, start + step)) for start in range(0, total, step)]


def LinearCrossEntropyForward(
    x: Any, weight: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str, *, out: Any
) -> None:
    rows, w, ids = matrix(x.array), weight.array, target.array.reshape(-1)
    lse, present = out[1].array.reshape(-1), out[2].array.reshape(-1)
    valid = counted("LinearCrossEntropyForward", ids, len(w), ignore_index)
    each, safe = np.empty_like(lse), ids if valid is None else np.where(valid, ids, 0)
    steps = _steps(len(rows), len(w))
    held = np.empty((steps[0].stop if steps else 0, len(w)), rows.dtype)
    for i in steps:
        logits = matmul(rows[i], w.T, out=held[: i.stop - i.start])
        for j in row_blocks(*logits.shape):
            present[i][j] = row_losses(logits[j], safe[i][j], label_smoothing, lse[i][j], each[i][j])
    out[0].array[...] = reduced(each, valid, reduction)


def LinearCrossEntropyBackward(
    grad: Any, x: Any, weight: Any, target: Any, lse: Any, present: Any,
    ignore_index: int, label_smoothing: float, reduction: str,
    *, out: Any, accumulate: bool = False,
) -> None:  # fmt: skip
    rows, w, ids = matrix(x.array), weight.array, target.array.reshape(-1)
    dx, dweight = matrix(out[0].array), out[1].array
    valid = counted("LinearCrossEntropyBackward", ids, len(w), ignore_index)
    scale = rows.dtype.type(scale_of(grad, len(ids), valid, reduction))
    have = present.array.reshape(-1, 1)
    share, some_lack = (label_smoothing / have).astype(rows.dtype), bool((have < len(w)).any())
    total = lse.array.reshape(-1, 1)
    dx[...] = 0
    # By classes: each block of dweight is written once, where blocks of rows would add to all of it every time.
    steps = _steps(len(w), len(rows))
    held = np.empty(len(rows) * steps[0].stop, rows.dtype)
    partial = np.empty_like(dx)
    for v in steps:
        width = v.stop - v.start
        d = matmul(rows, w[v].T, out=held[: len(rows) * width].reshape(len(rows), width))
        for i in row_blocks(*d.shape):
            block = d[i]
            block -= total[i]
            known: Any = block != -np.inf if some_lack else True
            np.exp(block, out=block)
            if label_smoothing:
                np.subtract(block, share[i], out=block, where=known)
            own = ids[i]
            there = (own >= v.start) & (own < v.stop)
            hit = np.flatnonzero(there if valid is None else there & valid[i])
            block[hit, own[hit] - v.start] -= d.dtype.type(1.0 - label_smoothing)
            block *= scale
        if valid is not None:
            d[~valid] = 0
        if accumulate:
            dweight[v] += matmul(d.T, rows)
        else:
            matmul(d.T, rows, out=dweight[v])
        dx += matmul(d, _finite(w[v]), out=partial)


def _finite(weight: np.ndarray) -> np.ndarray:
    """Return weights, 0 where they are not finite: those classes are not there, or the rows' gradients NaN already."""
    finite = np.isfinite(weight)
    return weight if finite.all() else np.where(finite, weight, 0)
