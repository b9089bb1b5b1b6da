"""CPU kernels of embedding: rows gathered, and gradients summed per id after a sort (no scattered adds)."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_ids(ids: np.ndarray, rows: int) -> None:
    """Raise IndexError naming the first id outside 0..rows-1 [contract 4.7]."""
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= rows):
        flat = ids.reshape(-1)
        at = int(np.flatnonzero((flat < 0) | (flat >= rows))[0])
        raise IndexError(f"id {int(flat[at])} at position {at} is not in 0..{rows - 1} [contract 4.7]")


def EmbeddingForward(index: Any, weight: Any, *, out: Any) -> None:
    check_ids(index.array, weight.shape[0])
    np.take(
        weight.array, index.array, axis=0, out=out.array, mode="clip"
    )  # checked above; clip avoids a buffer


def EmbeddingBackward(index: Any, grad: Any, rows: int, *, out: Any, accumulate: bool = False) -> None:
    ids = index.array.reshape(-1)
    check_ids(ids, rows)
    target = out.array
    if not accumulate:
        target.fill(0)
    if not ids.size:
        return
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    values = grad.array.reshape(-1, grad.shape[-1])[order]
    target[ordered[starts]] += np.add.reduceat(values, starts, axis=0)
