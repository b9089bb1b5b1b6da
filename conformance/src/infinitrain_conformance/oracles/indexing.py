"""Selecting elements by indices and masks. Sums into a place are added one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from .want import Array, Want, plain, sum_to

Shape = tuple[int, ...]


def places(index: Array, axis: int) -> tuple[Array, ...]:
    """Return, per axis, the coordinates that index names: its own ones, but for ``axis``."""
    own = np.indices(index.shape)
    return tuple(index if i == axis else own[i] for i in range(index.ndim))


def added(shape: Shape, at: tuple[Any, ...], values: Array, start: Array | None = None) -> Want:
    """Return ``start`` (zeros) with values added at coordinates."""
    value = np.zeros(shape) if start is None else start.copy()
    size, count = np.abs(value), np.zeros(shape, int)
    np.add.at(value, at, values)
    np.add.at(size, at, np.abs(values))
    np.add.at(count, at, np.ones(values.shape, int))
    return Want(value, size, 1 + int(count.max(initial=0)))


def embedding(index: Array, weight: Array) -> dict[str, Want]:
    return {"y": plain(weight[index])}


def embedding_backward(index: Array, grad: Array, rows: int) -> dict[str, Want]:
    return {"dweight": added((rows, grad.shape[-1]), (index,), grad)}


def gather(x: Array, index: Array, axis: int) -> dict[str, Want]:
    return {"y": plain(x[places(index, axis)])}


def gather_backward(grad: Array, index: Array, shape: Shape, axis: int) -> dict[str, Want]:
    return {"dx": added(shape, places(index, axis), grad)}


def index_select(x: Array, index: Array, axis: int) -> dict[str, Want]:
    return {"y": plain(x[(slice(None),) * axis + (index,)])}


def index_select_backward(grad: Array, index: Array, shape: Shape, axis: int) -> dict[str, Want]:
    return {"dx": added(shape, (slice(None),) * axis + (index,), grad)}


def mask(x: Array, mask: Array, value: float) -> dict[str, Want]:
    y = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)))
    y[np.broadcast_to(mask, y.shape)] = value
    return {"y": plain(y)}


def mask_backward(grad: Array, mask: Array, shape: Shape) -> dict[str, Want]:
    return {"dx": _summed(np.where(mask, 0.0, grad), shape)}


def where(condition: Array, a: Array, b: Array) -> dict[str, Want]:
    c, a, b = np.broadcast_arrays(condition, a, b)
    y = np.array(b, np.float64)
    y[c] = a[c]
    return {"y": plain(y)}


def where_backward(condition: Array, grad: Array, a_shape: Shape, b_shape: Shape) -> dict[str, Want]:
    da, db = np.where(condition, grad, 0.0), np.where(condition, 0.0, grad)
    return {"da": _summed(da, a_shape), "db": _summed(db, b_shape)}


def _summed(full: Array, shape: Shape) -> Want:
    terms = max(1, full.size // max(1, int(np.prod(shape, dtype=int))))
    return Want(sum_to(full, shape), sum_to(np.abs(full), shape), terms)
