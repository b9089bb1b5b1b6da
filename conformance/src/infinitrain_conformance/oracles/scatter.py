"""Putting elements by indices: one value after the other, in row-major order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .indexing import added, places
from .want import Array, Want, plain

Shape = tuple[int, ...]


def _moves(index: Array, axis: int) -> Iterator[tuple[Shape, Shape]]:
    """Yield where each value is and where it goes."""
    for at in np.ndindex(*index.shape):
        yield at, (*at[:axis], int(index[at]), *at[axis + 1 :])


def scatter(values: Array, index: Array, shape: Shape, axis: int) -> dict[str, Want]:
    y = np.zeros(shape)
    for at, to in _moves(index, axis):
        y[to] = values[at]
    return {"y": plain(y)}


def scatter_backward(grad: Array, index: Array, axis: int) -> dict[str, Want]:
    writer = {to: at for at, to in _moves(index, axis)}  # the last one
    dvalues = np.zeros(index.shape)
    for to, at in writer.items():
        dvalues[at] = grad[to]
    return {"dvalues": plain(dvalues)}


def scatter_add(x: Array, index: Array, values: Array, axis: int) -> dict[str, Want]:
    return {"y": added(x.shape, places(index, axis), values, x)}


def one_hot(index: Array, classes: int, dtype: object) -> dict[str, Want]:
    y = np.zeros((*index.shape, classes))
    for at in np.ndindex(*index.shape):
        y[(*at, int(index[at]))] = 1.0
    return {"y": plain(y)}
