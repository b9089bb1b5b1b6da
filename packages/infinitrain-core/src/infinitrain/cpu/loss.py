"""CPU kernels of cross-entropy, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.loss import check_targets
from .blocks import row_blocks


def CrossEntropyForward(
    logits: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str, *, out: Any
) -> None:
    width = logits.shape[-1]
    rows, ids = logits.array.reshape(-1, width), target.array.reshape(-1)
    lse = out[1].array.reshape(-1)
    valid = check_targets(np, "CrossEntropyForward", ids, width, ignore_index)
    each = np.empty_like(lse)
    for i in row_blocks(len(rows), width):
        row_losses(rows[i], np.where(valid[i], ids[i], 0), label_smoothing, lse[i], each[i])
    out[0].array[...] = reduced(each, valid, reduction)


def row_losses(
    rows: np.ndarray, ids: np.ndarray, smoothing: float, lse: np.ndarray, each: np.ndarray
) -> None:
    """Fill the log sum exp and the loss of each of rows (N, V)."""
    peak = rows.max(1)
    e = rows - peak[:, None]
    np.exp(e, out=e)
    np.log(np.add.reduce(e, 1), out=lse)
    lse += peak
    picked = rows[np.arange(len(rows)), ids]
    if not smoothing:
        np.subtract(lse, picked, out=each)
        return
    there = rows != -np.inf
    share = smoothing / np.count_nonzero(there, 1)
    total = np.add.reduce(rows if there.all() else np.where(there, rows, 0), 1)
    np.subtract(lse, total * share.astype(rows.dtype), out=each)
    each -= np.where(picked == -np.inf, picked, picked * rows.dtype.type(1.0 - smoothing))


def reduced(each: np.ndarray, valid: np.ndarray, reduction: str) -> Any:
    """Return the mean or sum of the losses of the valid rows; NaN is the mean of none."""
    total = np.where(valid, each, 0).sum(dtype=np.float64)
    if reduction == "sum":
        return total
    count = np.count_nonzero(valid)
    return total / count if count else np.nan


def scale_of(grad: Any, valid: np.ndarray, reduction: str) -> float:
    """Return what the gradient of each valid row is multiplied by."""
    scale = float(grad.array)
    if reduction == "sum":
        return scale
    count = np.count_nonzero(valid)
    return scale / count if count else 0.0


def CrossEntropyBackward(
    grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, label_smoothing: float, reduction: str,
    *, out: Any,
) -> None:  # fmt: skip
    _gradient(
        "CrossEntropyBackward", grad, logits, target, lse, ignore_index, label_smoothing, reduction, out
    )


def CrossEntropyBackwardInPlace(
    grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, label_smoothing: float, reduction: str
) -> None:  # fmt: skip
    op = "CrossEntropyBackwardInPlace"
    _gradient(op, grad, logits, target, lse, ignore_index, label_smoothing, reduction, logits)


def _gradient(
    op: str, grad: Any, logits: Any, target: Any, lse: Any,
    ignore_index: int, smoothing: float, reduction: str, out: Any,
) -> None:  # fmt: skip
    """Fill out, which may be the logits."""
    width = logits.shape[-1]
    rows, d = logits.array.reshape(-1, width), out.array.reshape(-1, width)
    ids, total = target.array.reshape(-1), lse.array.reshape(-1)
    valid = check_targets(np, op, ids, width, ignore_index)
    scale = d.dtype.type(scale_of(grad, valid, reduction))
    for i in row_blocks(len(rows), width):
        there = rows[i] != -np.inf if smoothing else None
        np.subtract(rows[i], total[i, None], out=d[i])
        np.exp(d[i], out=d[i])
        if there is not None:
            share = (smoothing / np.count_nonzero(there, 1)).astype(d.dtype)[:, None]
            np.subtract(d[i], share, out=d[i], where=there)
        goal = np.flatnonzero(valid[i])
        d[i][goal, ids[i][goal]] -= d.dtype.type(1.0 - smoothing)  # before scaling, which may be by infinity
        d[i] *= scale
    if not valid.all():
        d[~valid] = 0
