"""CPU kernels of selecting rows: gradients are summed per id after a sort (no scattered adds)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.indexing import checked


def _check(op: str, ids: np.ndarray, rows: int) -> None:
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= rows):
        checked(np, f"{op}: index", ids, rows)  # which finds out where


def EmbeddingForward(index: Any, weight: Any, *, out: Any) -> None:
    _check("EmbeddingForward", index.array, weight.shape[0])
    np.take(
        weight.array, index.array, axis=0, out=out.array, mode="clip"
    )  # checked above; clip avoids a buffer


def EmbeddingBackward(index: Any, grad: Any, rows: int, *, out: Any, accumulate: bool = False) -> None:
    _check("EmbeddingBackward", index.array, rows)
    if not accumulate:
        out.array.fill(0)
    _add_rows(out.array, index.array.reshape(-1), grad.array.reshape(-1, grad.shape[-1]))


def IndexSelectBackward(grad: Any, index: Any, shape: tuple[int, ...], axis: int, *, out: Any) -> None:
    _check("IndexSelectBackward", index.array, shape[axis])
    out.array.fill(0)
    values = grad.array.reshape(*shape[:axis], index.numel, *shape[axis + 1 :])
    _add_rows(np.moveaxis(out.array, axis, 0), index.array.reshape(-1), np.moveaxis(values, axis, 0))


def _add_rows(target: np.ndarray, ids: np.ndarray, values: np.ndarray) -> None:
    """Add values (N, ...) to target (R, ...) at ids (N,)."""
    if not ids.size:
        return
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)
