"""CPU kernels of softmax, in blocks of rows where the axis is the last one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .blocks import BLOCK, row_blocks


def _parts(axis: int, *arrays: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """Yield the axis to work along and matching parts that stay in cache."""
    first = arrays[0]
    if axis != first.ndim - 1 or first.size <= BLOCK:
        yield (axis, *arrays)
        return
    width = first.shape[-1]
    rows = [a.reshape(-1, width) for a in arrays]
    for i in row_blocks(len(rows[0]), width):
        yield (1, *[a[i] for a in rows])


def SoftmaxForward(x: Any, axis: int, *, out: Any) -> None:
    for along, a, y in _parts(axis, x.array, out.array):
        np.subtract(a, np.maximum.reduce(a, along, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, np.add.reduce(y, along, keepdims=True), out=y)


def LogSoftmaxForward(x: Any, axis: int, *, out: Any) -> None:
    for along, a, y in _parts(axis, x.array, out.array):
        np.subtract(a, np.maximum.reduce(a, along, keepdims=True), out=y)
        total = np.add.reduce(np.exp(y), along, keepdims=True)
        np.subtract(y, np.log(total, out=total), out=y)


def SoftmaxBackward(grad: Any, y: Any, axis: int, *, out: Any) -> None:
    for along, g, p, d in _parts(axis, grad.array, y.array, out.array):
        np.multiply(g, p, out=d)
        np.subtract(g, np.add.reduce(d, along, keepdims=True), out=d)
        np.multiply(d, p, out=d)


def LogSoftmaxBackward(grad: Any, y: Any, axis: int, *, out: Any) -> None:
    for along, g, p, d in _parts(axis, grad.array, y.array, out.array):
        np.exp(p, out=d)
        np.multiply(d, np.add.reduce(g, along, keepdims=True), out=d)
        np.subtract(g, d, out=d)
