"""CPU kernel of top-k."""

from __future__ import annotations

from typing import Any

import numpy as np

from .indexing import flat_places

FEW, WIDE = 1 << 10, 1 << 8
"""Below ``FEW`` elements a stable sort is fastest, from rows of ``WIDE`` on to part the best from the others first."""


def TopKForward(x: Any, k: int, axis: int, largest: bool, *, out: Any) -> None:
    array, values, indices = x.array, out[0].array, out[1].array
    if axis != array.ndim - 1:
        array = np.ascontiguousarray(array.swapaxes(axis, -1))
        values, indices = values.swapaxes(axis, -1), indices.swapaxes(axis, -1)
    up = np.negative(array) if largest else array
    order, found = _best(array, up, k, largest)
    np.copyto(indices, order)
    if largest:
        np.negative(found, values)
    else:
        np.copyto(values, found)


def _best(array: np.ndarray, up: np.ndarray, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return where the k best of the last axis are, and what ``up`` (-array if largest) has there: best first, of equal
    ones the lowest index, NaN the largest.
    """
    if largest and np.isnan(np.maximum.reduce(array, None)):  # negative ones would be last
        backwards = array[..., ::-1].argsort(-1, kind="stable")[..., ::-1]
        order = array.shape[-1] - 1 - backwards[..., :k]
        return order, _at(up, order)
    if array.size < FEW or k == array.shape[-1]:
        order = up.argsort(-1, kind="stable")[..., :k]
        return order, _at(up, order)
    # One more than k, to see whether it equals the last: a fast sort leaves equal ones in any order.
    if array.shape[-1] < WIDE:
        order = up.argsort(-1)[..., : k + 1]
    else:
        parted = np.argpartition(up, k, axis=-1)[..., : k + 1]
        order = np.take_along_axis(parted, _at(up, parted).argsort(-1), -1)
    found = _at(up, order)
    order, rising = order[..., :k], found[..., :-1] < found[..., 1:]
    if np.count_nonzero(rising) == rising.size:
        return order, found[..., :k]
    tied = ~rising.all(-1)
    order[tied] = up[tied].argsort(-1, kind="stable")[..., :k]
    return order, _at(up, order)


def _at(array: np.ndarray, order: np.ndarray) -> np.ndarray:
    found: np.ndarray = array.reshape(-1)[flat_places(order, array.shape, array.ndim - 1)]
    return found
