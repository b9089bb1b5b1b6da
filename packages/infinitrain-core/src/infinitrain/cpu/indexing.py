"""CPU kernels of selecting rows: gradients are summed per id after a sort (no scattered adds)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ..kernels.indexing import checked
from .blas import matmul


def check(op: str, ids: np.ndarray, rows: int) -> None:
    """Raise IndexError unless all ids (int64) are in 0..rows - 1 [contract 4.7]."""
    if ids.size and not below(ids, rows):
        checked(np, f"{op}: index", ids, rows)  # which finds out where


def below(ids: np.ndarray, rows: int) -> bool:
    """Tell whether all of one or more ids (int64) are in 0..rows - 1: as unsigned numbers those below 0 are large."""
    return bool(np.maximum.reduce(ids.view(np.uint64), None) < rows)


def EmbeddingForward(index: Any, weight: Any, *, out: Any) -> None:
    check("EmbeddingForward", index.array, weight.shape[0])
    np.take(
        weight.array, index.array, axis=0, out=out.array, mode="clip"
    )  # checked above; clip avoids a buffer


def EmbeddingBackward(index: Any, grad: Any, rows: int, *, out: Any, accumulate: bool = False) -> None:
    check("EmbeddingBackward", index.array, rows)
    if not accumulate:
        out.array.fill(0)
    _add_rows(out.array, index.array.reshape(-1), grad.array.reshape(-1, grad.shape[-1]))


def IndexSelectForward(x: Any, index: Any, axis: int, *, out: Any) -> None:
    check("IndexSelectForward", index.array, x.shape[axis])
    np.take(x.array, index.array, axis=axis, out=out.array, mode="clip")


def IndexSelectBackward(grad: Any, index: Any, shape: tuple[int, ...], axis: int, *, out: Any) -> None:
    check("IndexSelectBackward", index.array, shape[axis])
    out.array.fill(0)
    values = grad.array.reshape(*shape[:axis], index.numel, *shape[axis + 1 :])
    order = (axis, *range(axis), *range(axis + 1, len(shape)))
    _add_rows(out.array.transpose(order), index.array.reshape(-1), values.transpose(order))


def GatherForward(x: Any, index: Any, axis: int, *, out: Any) -> None:
    check("GatherForward", index.array, x.shape[axis])
    np.take(x.array.reshape(-1), flat_places(index.array, x.shape, axis), out=out.array, mode="clip")


def flat_places(index: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Return where the elements that index names along axis are in an array of ``shape`` laid flat."""
    stride, grids = _grids(index.shape, shape, axis)
    places = index if stride == 1 else index * stride
    for grid in grids:
        places = places + grid
    return places


@lru_cache(maxsize=256)
def _grids(sizes: tuple[int, ...], shape: tuple[int, ...], axis: int) -> tuple[int, tuple[np.ndarray, ...]]:
    """Return the stride of axis in an array of ``shape`` laid flat, and what the other axes add to a place."""
    grids = []
    for i, n in enumerate(sizes):
        if i != axis and n > 1:
            stride, after = math.prod(shape[i + 1 :]), (1,) * (len(sizes) - 1 - i)
            grids.append(np.arange(0, n * stride, stride).reshape(-1, *after))
    return math.prod(shape[axis + 1 :]), tuple(grids)


def GatherBackward(grad: Any, index: Any, shape: tuple[int, ...], axis: int, *, out: Any) -> None:
    check("GatherBackward", index.array, shape[axis])
    out.array.fill(0)
    np.add.at(
        out.array.reshape(-1), flat_places(index.array, shape, axis).reshape(-1), grad.array.reshape(-1)
    )


FEW = 1 << 11
"""Elements below which scattered adds take less than a sort."""


def _add_rows(target: np.ndarray, ids: np.ndarray, values: np.ndarray) -> None:
    """Add values (N, ...) to target (R, ...) at ids (N,)."""
    if values.size <= FEW:
        np.add.at(target, ids, values)
        return
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)


# For the array layer [contract 4.8] -------------------------------------------------------------------------


def scatter_add_rows(rows: int, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return zeros (rows, D) with values (N, D) added at index (N,)."""
    target = np.zeros((rows, values.shape[1]), values.dtype)
    if values.shape[1] == 1:
        np.add.at(target.reshape(-1), index, values.reshape(-1))
    else:
        _add_rows(target, index, values)
    return target


def last_at(count: int, places: np.ndarray) -> np.ndarray:
    """Return for each of ``count`` places the position of its last mention in places (N,), -1 where there is none."""
    found = np.full(count, -1)
    found[places] = np.arange(places.size)  # of several assignments to one place the last stays
    return found


EXTRAS: dict[str, Callable[..., Any]] = {
    "scatter_add_rows": scatter_add_rows,
    "last_at": last_at,
    "matmul": matmul,
}
