"""CPU kernels of cross-entropy, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.loss import check_targets
from .blocks import row_blocks
from .indexing import below


def CrossEntropyForward(
    logits: Any, target: Any, ignore_index: int, label_smoothing: float, reduction: str, *, out: Any
) -> None:
    width = logits.shape[-1]
    rows, ids = logits.array.reshape(-1, width), target.array.reshape(-1)
    lse = out[1].array.reshape(-1)
    valid = counted("CrossEntropyForward", ids, width, ignore_index)
    each, safe = np.empty_like(lse), ids if valid is None else np.where(valid, ids, 0)
    for i in row_blocks(len(rows), width):
        row_losses(rows[i], safe[i], label_smoothing, lse[i], each[i])
    out[0].array[...] = reduced(each, valid, reduction)


def counted(op: str, ids: np.ndarray, classes: int, ignore_index: int) -> np.ndarray | None:
    """Return which of ids (N,) count, None for all. Raises IndexError naming the first out of range [contract 4.7]."""
    if ids.size and not 0 <= ignore_index < classes and below(ids, classes):
        return None
    valid: np.ndarray = check_targets(np, op, ids, classes, ignore_index)
    return valid


def row_losses(rows: np.ndarray, ids: np.ndarray, smoothing: float, lse: np.ndarray, each: np.ndarray) -> Any:
    """Fill log sum exp and loss of each of rows (N, V); return how many classes each has, V if not smoothed."""
    peak = np.maximum.reduce(rows, 1)
    e = rows - peak[:, None]
    np.exp(e, out=e)
    np.log(np.add.reduce(e, 1), out=lse)
    lse += peak
    picked = rows[np.arange(len(rows)), ids]
    if not smoothing:
        np.subtract(lse, picked, out=each)
        return rows.shape[1]
    there = rows != -np.inf
    classes = np.count_nonzero(there, 1)
    share = smoothing / classes
    total = np.add.reduce(rows if there.all() else np.where(there, rows, 0), 1)
    np.subtract(lse, total * share.astype(rows.dtype), out=each)
    each -= np.where(picked == -np.inf, picked, picked * rows.dtype.type(1.0 - smoothing))
    return classes


def reduced(each: np.ndarray, valid: np.ndarray | None, reduction: str) -> Any:
    """Return the mean or sum of the losses of the valid rows (None: all); NaN is the mean of none."""
    total = np.add.reduce(each if valid is None else np.where(valid, each, 0), dtype=np.float64)
    if reduction == "sum":
        return total
    count = each.size if valid is None else np.count_nonzero(valid)
    return total / count if count else np.nan


def scale_of(grad: Any, rows: int, valid: np.ndarray | None, reduction: str) -> float:
    """Return what the gradient of each valid row (None: all are) is multiplied by."""
    scale = float(grad.array)
    if reduction == "sum":
        return scale
    return scale / max(1, rows if valid is None else int(np.count_nonzero(valid)))


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
    valid = counted(op, ids, width, ignore_index)
    scale = scale_of(grad, len(ids), valid, reduction)
    for i in row_blocks(len(rows), width):
        block, own = d[i], ids[i]
        there = rows[i] != -np.inf if smoothing else None
        np.subtract(rows[i], total[i, None], block)
        np.exp(block, block)
        if there is not None:
            share = (smoothing / np.count_nonzero(there, 1)).astype(d.dtype)[:, None]
            np.subtract(block, share, out=block, where=there)
        goal = np.arange(len(own)) if valid is None else np.flatnonzero(valid[i])
        # Before scaling, which may be by infinity.
        block[goal, own if valid is None else own[goal]] -= 1.0 - smoothing
        np.multiply(block, scale, block)
    if valid is not None:
        d[~valid] = 0
