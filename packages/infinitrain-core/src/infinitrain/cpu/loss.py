"""CPU kernels of cross-entropy, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.loss import check_targets
from .blocks import row_blocks


def CrossEntropyForward(logits: Any, target: Any, ignore_index: int, *, out: Any) -> None:
    width = logits.shape[-1]
    rows, ids = logits.array.reshape(-1, width), target.array.reshape(-1)
    lse = out[1].array.reshape(-1)
    valid = check_targets(np, ids, width, ignore_index)
    for i in row_blocks(len(rows), width):
        peak = rows[i].max(1)
        e = rows[i] - peak[:, None]
        np.exp(e, out=e)
        np.log(np.add.reduce(e, 1), out=lse[i])
        lse[i] += peak
    safe = np.where(valid, ids, 0)
    each = np.where(valid, lse - rows[np.arange(len(rows)), safe], 0)
    count = np.count_nonzero(valid)
    out[0].array[...] = each.sum(dtype=np.float64) / count if count else np.nan


def CrossEntropyBackward(
    grad: Any, logits: Any, target: Any, lse: Any, ignore_index: int, *, out: Any
) -> None:
    width = logits.shape[-1]
    rows, d = logits.array.reshape(-1, width), out.array.reshape(-1, width)
    ids, total = target.array.reshape(-1), lse.array.reshape(-1)
    valid = check_targets(np, ids, width, ignore_index)
    count = np.count_nonzero(valid)
    scale = d.dtype.type(float(grad.array) / count if count else 0.0)
    for i in row_blocks(len(rows), width):
        np.subtract(rows[i], total[i, None], out=d[i])
        np.exp(d[i], out=d[i])
        d[i] *= scale
    index = np.flatnonzero(valid)
    d[index, ids[index]] -= scale
    if count < len(ids):
        d[~valid] = 0
