"""Embedding: rows copied, and gradients added straight to where they belong."""

from __future__ import annotations

from typing import Any

from ..indexing import check
from ..linear import rows as rows_of
from .gemm import bounds
from .jit import parallel, parts, prange, serial

GRAIN = 1 << 15
"""Elements worth a thread."""


def EmbeddingForward(index: Any, weight: Any, *, out: Any) -> None:
    check("EmbeddingForward", index.array, weight.shape[0])
    ids, w = index.array.reshape(-1), weight.array
    _take(w, ids, rows_of(out.array), parts(ids.size * w.shape[1], GRAIN))


@serial
def _copy(weight, ids, y):
    for k in range(len(ids)):
        row, target = weight[ids[k]], y[k]
        for j in range(row.size):
            target[j] = row[j]


@parallel
def _take(weight, ids, y, nt):
    for t in prange(nt):
        i, j = bounds(t, nt, len(ids), 1)
        _copy(weight, ids[i:j], y[i:j])


def EmbeddingBackward(index: Any, grad: Any, rows: int, *, out: Any, accumulate: bool = False) -> None:
    check("EmbeddingBackward", index.array, rows)
    g, target = rows_of(grad.array), out.array
    work = g.size if accumulate else g.size + target.size
    _add(index.array.reshape(-1), g, target, accumulate, parts(work, GRAIN))


@serial
def _add_rows(ids, grad, target, accumulate):
    if not accumulate:
        target[:] = 0
    for k in range(len(ids)):
        row, g = target[ids[k]], grad[k]
        for j in range(g.size):
            row[j] += g[j]


@parallel
def _add(ids, grad, target, accumulate, nt):
    """Columns are split: the gradients of a row are added in one order, whatever the threads."""
    for t in prange(nt):
        i, j = bounds(t, nt, target.shape[1], 16)
        _add_rows(ids, grad[:, i:j], target[:, i:j], accumulate)
