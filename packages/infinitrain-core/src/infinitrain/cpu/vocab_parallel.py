"""CPU kernels of a rank's part of cross-entropy over a spread vocabulary, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.loss import check_targets
from .blocks import row_blocks
from .indexing import below
from .loss import counted


def VocabParallelCrossEntropyForward(
    logits: Any, target: Any, first: int, vocab_size_original: int, ignore_index: int, *, out: Any
) -> None:
    width, ids = logits.shape[-1], target.array.reshape(-1)
    counted("VocabParallelCrossEntropyForward", ids, vocab_size_original, ignore_index)
    there = max(0, min(width, vocab_size_original - first))  # the classes before it are no padding
    rows = logits.array.reshape(-1, width)[:, :there]
    peak, total, picked, sums = (t.array.reshape(-1) for t in out)
    picked.fill(0)
    if not there:
        peak.fill(-np.inf), total.fill(0), sums.fill(0)
        return
    own, lowest = ids - first, np.finfo(rows.dtype).min
    hit = np.flatnonzero((own >= 0) & (own < there))
    picked[hit] = rows[hit, own[hit]]
    for i in row_blocks(len(rows), there):
        x = rows[i]
        np.maximum.reduce(x, 1, out=peak[i])
        shift = np.maximum(peak[i], lowest)  # which is finite
        e = np.subtract(x, shift[:, None])
        np.add.reduce(np.exp(e, e), 1, out=total[i])
        np.add.reduce(x, 1, out=sums[i])


def VocabParallelCrossEntropyBackward(
    grad: Any, softmax_local: Any, target_mask: Any, masked_target: Any, valid_mask_local: Any,
    vocab_size_local: int, vocab_size_original: int, label_smoothing: float,
    *, out: Any,
) -> None:  # fmt: skip
    width = vocab_size_local
    p, d = softmax_local.array.reshape(-1, width), out.array.reshape(-1, width)
    other, ids = target_mask.array.reshape(-1), masked_target.array.reshape(-1)
    mine = np.flatnonzero(np.logical_not(other))
    own = ids[mine]
    if own.size and not below(own, width):
        check_targets(np, "VocabParallelCrossEntropyBackward", np.where(other, 0, ids), width, 0)
    share, scale, valid = (
        label_smoothing / vocab_size_original,
        grad.array.reshape(-1, 1),
        valid_mask_local.array,
    )
    np.subtract(p, share, d) if share else np.copyto(d, p)
    d[mine, own] -= 1.0 - label_smoothing
    np.multiply(d, scale, d)
    if not valid.all():
        d[:, ~valid.reshape(-1)] = 0
