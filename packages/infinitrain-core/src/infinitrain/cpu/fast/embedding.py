"""Embedding: rows copied, and gradients added straight to where they belong."""

from __future__ import annotations

from typing import Any

from ..indexing import check
from ..linear import rows as rows_of
from .gemm import bounds
from .jit import parallel, parts, prange, run, serial

GRAIN = 1 << 15
"""Elements worth a thread."""


def EmbeddingForward(index: Any, weight: Any, *, out: Any) -> None:
    ids, w = index.array.reshape(-1), weight.array
    _check("EmbeddingForward", ids, index, len(w))
    nt = parts(ids.size * w.shape[1], GRAIN)
    run(_take, _take_split, ids.size, nt, w, ids, rows_of(out.array))


def _check(op: str, ids: Any, index: Any, rows: int) -> None:
    if not _within(ids, rows):
        check(op, index.array, rows)  # which finds out where, and raises


@serial
def _within(ids, rows):
    inside = True
    for k in range(len(ids)):
        inside &= 0 <= ids[k] < rows
    return inside


@serial
def _take(start, stop, weight, ids, y):
    for k in range(start, stop):
        row, target = weight[ids[k]], y[k]
        for j in range(row.size):
            target[j] = row[j]


@parallel
def _take_split(nt, weight, ids, y):
    for t in prange(nt):
        i, j = bounds(t, nt, len(ids), 1)
        _take(i, j, weight, ids, y)


def EmbeddingBackward(index: Any, grad: Any, rows: int, *, out: Any, accumulate: bool = False) -> None:
    ids, g, target = index.array.reshape(-1), rows_of(grad.array), out.array
    _check("EmbeddingBackward", ids, index, rows)
    nt = parts(g.size if accumulate else g.size + target.size, GRAIN)
    run(_add, _add_split, target.shape[1], nt, ids, g, target, accumulate)


@serial
def _add(left, right, ids, grad, target, accumulate):
    if not accumulate:
        for k in range(len(target)):
            row = target[k, left:right]
            for j in range(row.size):
                row[j] = 0
    for k in range(len(ids)):
        row, g = target[ids[k], left:right], grad[k, left:right]
        for j in range(g.size):
            row[j] += g[j]


@parallel
def _add_split(nt, ids, grad, target, accumulate):
    """Columns are split: the gradients of a row are added in one order, whatever the threads."""
    for t in prange(nt):
        i, j = bounds(t, nt, target.shape[1], 16)
        _add(i, j, ids, grad, target, accumulate)
