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
    order = _order(array, k, largest)
    np.copyto(indices, order)
    np.copyto(values, array.reshape(-1)[flat_places(order, array.shape, array.ndim - 1)])


def _order(array: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Return where the k best of the last axis are, best first, of equal ones the lowest index, NaN the largest."""
    if largest and np.isnan(np.maximum.reduce(array, None)):  # as negative numbers they would be last
        order = np.argsort(array[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        return (array.shape[-1] - 1 - order)[..., :k]
    up = np.negative(array) if largest else array
    if array.size < FEW or k == array.shape[-1]:
        return up.argsort(-1, kind="stable")[..., :k]
    # One more than k, to see whether it equals the last: a fast sort leaves equal ones in any order.
    if array.shape[-1] < WIDE:
        best = up.argsort(-1)[..., : k + 1]
    else:
        parted = np.argpartition(up, k, axis=-1)[..., : k + 1]
        best = np.take_along_axis(parted, np.take_along_axis(up, parted, -1).argsort(-1), -1)
    found = np.take_along_axis(up, best, -1)
    tied = ~(found[..., :-1] < found[..., 1:]).all(-1)
    best = best[..., :k]
    if np.count_nonzero(tied):
        best[tied] = up[tied].argsort(-1, kind="stable")[..., :k]
    return best
